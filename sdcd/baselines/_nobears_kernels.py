"""Compiled steps of NOBEARS: :func:`descend`. Float32, all rows in every step.

Layout
------
With ``y_i = x_i + noise``, every regression is linear in the same K = 3 d + 1 *features*: y, y^2,
y^3 of all variables (feature ``p d + i``) and 1. Rows are handled in *chunks* of ``CHUNK`` = 2
vectors of ``LANES`` numbers and in blocks of chunks; ``[(chunk * stride + variable) * CHUNK +
lane]`` in all of the features, the data and the residuals, so that neighbours in memory are the
same variable in different rows. Padding rows are zero in all features, also in 1, and in the data.

The residuals are one matrix product of coefficients (K, D) and features, the gradients another, of
features and residuals; D is d padded to a multiple of ``NARROW`` with zeros. Each block of rows
goes through both while it is in the cache: :func:`residuals`, :func:`moments`, written in LLVM's
vector instructions to keep two dozen sums in registers.

Random numbers are those of torch's generator for the CPU: Mersenne Twister, and Box-Muller on
groups of 16.
"""

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from sdcd.compiled import compiled


def _vector_shape() -> tuple[int, int]:
    """Float32 lanes of a vector register, and how many variables' residuals fill the registers."""
    # What numba compiles for: NUMBA_CPU_NAME and NUMBA_CPU_FEATURES may differ from the machine.
    _, _, features = cpu_target.target_context.codegen().magic_tuple()
    features = features.split(",")
    if "+avx512f" in features:
        return 16, 10
    if "+avx" in features:
        return 8, 5
    return 4, 10 if "+neon" in features else 5


LANES, WIDE = _vector_shape()
NARROW = 5
CHUNK = 2 * LANES
BLOCK_ROWS = 256, 640
"""Fewest and most: sums over rows are to be long, a tile's residuals to stay in the first cache."""
BLOCK_BYTES = 2**19
"""What a block's features may take in the second cache, unless it has the fewest rows."""

_INT = ir.IntType(32)
_INDEX = ir.IntType(64)
_VECTOR = ir.VectorType(ir.FloatType(), LANES)

_ARRAY = types.Array(types.float32, 1, "C")

# Sums may be reordered, NaN and infinity keep their meaning.
_jit = compiled(nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})


class _Emitter:
    """Vector arithmetic on an LLVM builder."""

    def __init__(self, context, builder, signature, args):
        self.builder = builder
        self.args = [
            context.make_array(kind)(context, builder, value).data
            if isinstance(kind, types.Array)
            else value
            for kind, value in zip(signature.args, args, strict=True)
        ]

    def at(self, pointer, *offsets):
        for offset in offsets:
            pointer = self.builder.gep(
                pointer, [_INDEX(offset) if isinstance(offset, int) else offset]
            )
        return pointer

    def load(self, pointer, *offsets, kind=_VECTOR):
        pointer = self.builder.bitcast(self.at(pointer, *offsets), kind.as_pointer())
        return self.builder.load(pointer, align=4)

    def store(self, value, pointer, *offsets):
        pointer = self.builder.bitcast(self.at(pointer, *offsets), value.type.as_pointer())
        self.builder.store(value, pointer, align=4)

    def broadcast(self, pointer, *offsets):
        scalar = self.builder.load(self.at(pointer, *offsets))
        one = self.builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), scalar, _INT(0))
        return self.shuffle(one, one, [0] * LANES)

    def shuffle(self, a, b, lanes):
        mask = ir.Constant(ir.VectorType(_INT, len(lanes)), lanes)
        return self.builder.shuffle_vector(a, b, mask)

    def variables(self, count):
        """Vectors of zeros, for loops; LLVM keeps them in registers."""
        slots = [cgutils.alloca_once(self.builder, _VECTOR) for _ in range(count)]
        for slot in slots:
            self.builder.store(ir.Constant(_VECTOR, None), slot)
        return slots

    def increase(self, slot, a, b):
        """Add ``a * b`` to a variable."""
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
        name = f"llvm.fmuladd.v{LANES}f32"
        function = cgutils.get_or_insert_function(self.builder.module, kind, name)
        old = self.builder.load(slot)
        self.builder.store(self.builder.call(function, [a, b, old]), slot)

    def read(self, slots):
        return [self.builder.load(slot) for slot in slots]

    def add_sums(self, vectors, pointer, *offsets):
        """Add the sum of the lanes of each vector to consecutive numbers in memory."""
        for start in range(0, len(vectors), LANES):
            part = vectors[start : start + LANES]
            leaves, step = part + [None] * (LANES - len(part)), 1
            while step < LANES:
                low = [k if not k & step else LANES + k - step for k in range(LANES)]
                high = [k + step if not k & step else LANES + k for k in range(LANES)]
                leaves = [
                    self._fold(a, b, low, high)
                    for a, b in zip(leaves[::2], leaves[1::2], strict=True)
                ]
                step *= 2
            (total,) = leaves
            if len(part) < LANES:
                total = self.shuffle(total, total, list(range(len(part))))
            old = self.load(pointer, *offsets, start, kind=total.type)
            self.store(self.builder.fadd(old, total), pointer, *offsets, start)

    def _fold(self, a, b, low, high):
        if a is None:
            return None
        b = a if b is None else b
        return self.builder.fadd(self.shuffle(a, b, low), self.shuffle(a, b, high))


@intrinsic
def residuals(typing, tile, features, count, chunks, coefficients, D, first, x, x_at, r, squares):
    """Residuals of as many variables as ``tile`` has members, from ``first`` on, in a block.

    ``x[x_at:]`` is the block of the data. The sum of squares is added to ``squares[0]``.
    """

    def generate(context, builder, signature, args):
        em = _Emitter(context, builder, signature, args)
        _, features, count, chunks, coefficients, D, first, x, x_at, r, squares = em.args
        b, size = builder, tile.count
        squared = em.variables(2)
        with cgutils.for_range(b, chunks) as chunk:
            slots = em.variables(2 * size)
            rows = em.at(features, b.mul(b.mul(chunk.index, count), _INDEX(CHUNK)))
            with cgutils.for_range(b, count) as loop:
                column = em.at(rows, b.mul(loop.index, _INDEX(CHUNK)))
                values = [em.load(column, v * LANES) for v in range(2)]
                row = em.at(coefficients, b.mul(loop.index, D), first)
                for j in range(size):
                    factor = em.broadcast(row, j)
                    for v in range(2):
                        em.increase(slots[v * size + j], factor, values[v])
            at = b.mul(b.add(b.mul(chunk.index, D), first), _INDEX(CHUNK))
            target, out = em.at(x, x_at, at), em.at(r, at)
            for q, fitted in enumerate(em.read(slots)):
                v, j = divmod(q, size)
                error = b.fsub(fitted, em.load(target, j * CHUNK + v * LANES))
                em.store(error, out, j * CHUNK + v * LANES)
                em.increase(squared[v], error, error)
        em.add_sums([b.fadd(*em.read(squared))], squares, 0)
        return context.get_dummy_value()

    n = types.intp
    return types.void(tile, _ARRAY, n, n, _ARRAY, n, n, _ARRAY, n, _ARRAY, _ARRAY), generate


@intrinsic
def moments(typing, tile, pair, features, count, chunks, feature, r, D, first, out):
    """Add the sums over a block's rows of products of features and residuals.

    Of ``feature`` (and the next one if ``pair`` has length 2) and the variables from ``first`` on,
    to ``out[feature * D + variable]``.
    """

    def generate(context, builder, signature, args):
        em = _Emitter(context, builder, signature, args)
        _, _, features, count, chunks, feature, r, D, first, out = em.args
        b, size = builder, tile.count
        slots = em.variables(pair.count * size)
        features = em.at(features, b.mul(feature, _INDEX(CHUNK)))
        r = em.at(r, b.mul(first, _INDEX(CHUNK)))
        with cgutils.for_range(b, chunks) as loop:
            column = em.at(features, b.mul(b.mul(loop.index, count), _INDEX(CHUNK)))
            errors = em.at(r, b.mul(b.mul(loop.index, D), _INDEX(CHUNK)))
            for v in range(2):
                values = [em.load(column, k * CHUNK + v * LANES) for k in range(pair.count)]
                for j in range(size):
                    error = em.load(errors, j * CHUNK + v * LANES)
                    for k in range(pair.count):
                        em.increase(slots[k * size + j], values[k], error)
        sums = em.read(slots)
        for k in range(pair.count):
            at = b.add(b.mul(b.add(feature, _INDEX(k)), D), first)
            em.add_sums(sums[k * size : (k + 1) * size], out, at)
        return context.get_dummy_value()

    n = types.intp
    return types.void(tile, pair, _ARRAY, n, n, n, _ARRAY, n, n, _ARRAY), generate


class Twister(NamedTuple):
    """State of a Mersenne Twister (Matsumoto and Nishimura 1998)."""

    words: np.ndarray
    """uint32 (624,)"""
    used: np.ndarray
    """int64 (1,): how many of the words have been handed out"""


def new_twister(seed: int) -> Twister:
    """The state of ``torch.Generator().manual_seed(seed)``."""
    words = np.empty(624, dtype=np.uint32)
    word = seed % 2**32
    for k in range(624):
        words[k] = word
        word = (1812433253 * (word ^ (word >> 30)) + k + 1) % 2**32
    return Twister(words, np.array([624]))


@_jit
def _mix(upper, lower, other):
    word = (upper & np.uint32(0x80000000)) | (lower & np.uint32(0x7FFFFFFF))
    odd = np.uint32(0) - (lower & np.uint32(1))
    return other ^ (word >> np.uint32(1)) ^ (odd & np.uint32(0x9908B0DF))


@_jit
def fill_uniform(twister, out):
    """Fill ``out`` with multiples of 2^-24 in [0, 1), as ``torch.rand`` does in float32."""
    words = twister.words
    n = out.shape[0]
    filled = 0
    while filled < n:
        if twister.used[0] == 624:
            for k in range(227):
                words[k] = _mix(words[k], words[k + 1], words[k + 397])
            for k in range(227, 623):
                words[k] = _mix(words[k], words[k + 1], words[k - 227])
            words[623] = _mix(words[623], words[0], words[396])
            twister.used[0] = 0
        used = twister.used[0]
        count = min(624 - used, n - filled)
        source, target = words[used : used + count], out[filled : filled + count]
        for k in range(count):
            y = source[k]
            y ^= y >> np.uint32(11)
            y ^= (y << np.uint32(7)) & np.uint32(0x9D2C5680)
            y ^= (y << np.uint32(15)) & np.uint32(0xEFC60000)
            y ^= y >> np.uint32(18)
            target[k] = np.float32(np.int32(y & np.uint32(0xFFFFFF))) * np.float32(2.0**-24)
        filled += count
        twister.used[0] = used + count


_LOG = (0.6666641628314427, 0.4002152739878755, 0.28001802430972594, 0.28012001877308196)
"""log((1 + s) / (1 - s)) = s (2 + s^2 sum_k _LOG[k] s^(2 k)) for s^2 <= 1/9, rel. error 5e-9."""


@_jit
def _box_muller(groups, scale):
    for g in range(groups.shape[0]):
        for k in range(8):
            # 1 - u is a multiple of 2^-24 in (0, 1], exactly; so is its mantissa.
            u = np.float32(1.0) - groups[g, k]
            bits = np.float32(u).view(np.int32)
            offset = bits - np.int32(0x3F3504F3)
            exponent = offset >> np.int32(23)
            mantissa = np.int32(bits - (exponent << np.int32(23))).view(np.float32)
            s = (mantissa - np.float32(1.0)) / (mantissa + np.float32(1.0))
            q = s * s
            series = np.float32(_LOG[3])
            series = series * q + np.float32(_LOG[2])
            series = series * q + np.float32(_LOG[1])
            series = series * q + np.float32(_LOG[0])
            log = np.float32(exponent) * np.float32(0.6931471805599453) + s * (
                np.float32(2.0) + q * series
            )
            radius = np.sqrt(np.float32(-2.0) * log) * scale
            # Quarter turns: 4 u - m with |.| <= 1/2, exactly.
            turns = np.float32(4.0) * groups[g, k + 8]
            whole = np.int32(turns + np.float32(0.5))
            a = (turns - np.float32(whole)) * np.float32(1.5707963267948966)
            q = a * a
            sine = a * (
                np.float32(1.0)
                + q
                * (
                    np.float32(-1.6666654611e-1)
                    + q * (np.float32(8.3321608736e-3) + q * np.float32(-1.9515295891e-4))
                )
            )
            cosine = (
                np.float32(1.0)
                - np.float32(0.5) * q
                + q
                * q
                * (
                    np.float32(4.166664568298827e-2)
                    + q * (np.float32(-1.388731625493765e-3) + q * np.float32(2.443315711809948e-5))
                )
            )
            odd = (whole & np.int32(1)) != 0
            first = sine if odd else cosine
            second = cosine if odd else sine
            first = -first if ((whole + np.int32(1)) & np.int32(2)) != 0 else first
            second = -second if (whole & np.int32(2)) != 0 else second
            groups[g, k] = radius * first
            groups[g, k + 8] = radius * second


@_jit
def fill_normal(twister, out, sd):
    """Fill ``out``, at least 16 numbers, as torch's ``out.normal_(0, sd)`` does, up to rounding."""
    fill_uniform(twister, out)
    scale = np.float32(sd)
    n = out.shape[0]
    whole = n // 16
    _box_muller(out[: 16 * whole].reshape(whole, 16), scale)
    if n % 16:
        last = out[n - 16 :]
        fill_uniform(twister, last)
        _box_muller(last.reshape(1, 16), scale)


class Data(NamedTuple):
    """The data as the kernels read them."""

    x: np.ndarray
    """float32: chunks x D x CHUNK, flat"""
    rows: np.ndarray
    """float32: d x n, flat"""
    n: int
    d: int
    D: int


def arrange(X: np.ndarray) -> Data:
    """Copy X (n, d) into the kernels' layout, as float32."""
    n, d = X.shape
    D = -(-d // NARROW) * NARROW
    chunks = -(-n // CHUNK)
    padded = np.zeros((chunks * CHUNK, D), dtype=np.float32)
    padded[:n, :d] = X
    x = padded.reshape(chunks, CHUNK, D).transpose(0, 2, 1)
    rows = np.ascontiguousarray(X.T, dtype=np.float32).ravel()
    return Data(np.ascontiguousarray(x).ravel(), rows, n, d, D)


class Parameters(NamedTuple):
    """What is optimised."""

    W: np.ndarray
    """float32 (d, d)"""
    b: np.ndarray
    """float32 (d,)"""
    s: np.ndarray
    """float32 (3, d)"""


class State(NamedTuple):
    """Parameters, eigenvectors and working memory of :func:`descend`."""

    parameters: Parameters
    u: np.ndarray
    """float32 (d,): right eigenvector"""
    v: np.ndarray
    """float32 (d,): left eigenvector"""
    twister: Twister
    noise: np.ndarray
    features: np.ndarray
    coefficients: np.ndarray
    r: np.ndarray
    gradient: np.ndarray
    squares: np.ndarray
    vectors: np.ndarray


def new_state(data: Data, W: np.ndarray, seed: int) -> State:
    """Start from W (d, d); b, s, u, v are uniform on [0, 1)."""
    d, n, D = data.d, data.n, data.D
    twister = new_twister(seed)
    uniform = np.empty(6 * d, dtype=np.float32)
    fill_uniform(twister, uniform)
    uniform = uniform.reshape(6, d)
    parameters = Parameters(
        np.array(W, dtype=np.float32, order="C"), uniform[0].copy(), uniform[1:4].copy()
    )
    count = 3 * d + 1
    rows = block_chunks(d) * CHUNK

    def zeros(*shape):
        return np.zeros(shape, dtype=np.float32)

    return State(
        parameters, uniform[4].copy(), uniform[5].copy(), twister, zeros(max(16, d * n)),
        zeros(count * rows), zeros(count * D), zeros(D * rows), zeros(count * D), zeros(LANES),
        zeros(2, d),
    )  # fmt: skip


def new_moments(parameters: Parameters) -> tuple[Parameters, Parameters]:
    """Adam's moments at zero."""
    return tuple(Parameters(*(np.zeros_like(p) for p in parameters)) for _ in range(2))


@_jit
def block_chunks(d):
    """Chunks in a block."""
    rows = min(BLOCK_ROWS[1], BLOCK_BYTES // (4 * (3 * d + 1)))
    return max(BLOCK_ROWS[0], rows) // CHUNK


@intrinsic
def _load_chunk(typing, rows, row_at, noise, noise_at, features, at, step):
    """A variable plus noise, its square and its cube in a whole chunk of rows."""

    def generate(context, builder, signature, args):
        em = _Emitter(context, builder, signature, args)
        rows, row_at, noise, noise_at, features, at, step = em.args
        for v in range(2):
            y = builder.fadd(em.load(rows, row_at, v * LANES), em.load(noise, noise_at, v * LANES))
            power = y
            for p in range(3):
                em.store(power, features, at, *[step] * p, v * LANES)
                power = builder.fmul(power, y)
        return context.get_dummy_value()

    n = types.intp
    return types.void(_ARRAY, n, _ARRAY, n, _ARRAY, n, n), generate


@_jit
def _load_block(data, noise, first, chunks, features):
    """Features of ``chunks`` chunks of rows, from row ``first`` on."""
    d, n = data.d, data.n
    count = 3 * d + 1
    one, zero = np.float32(1.0), np.float32(0.0)
    step = d * CHUNK
    for c in range(chunks):
        start = first + c * CHUNK
        rows = min(CHUNK, n - start)
        base = c * count * CHUNK
        for i in range(d):
            at = base + i * CHUNK
            if rows == CHUNK:
                _load_chunk(data.rows, i * n + start, noise, i * n + start, features, at, step)
                continue
            for q in range(CHUNK):
                y = data.rows[i * n + start + q] + noise[i * n + start + q] if q < rows else zero
                features[at + q] = y
                features[at + step + q] = y * y
                features[at + 2 * step + q] = y * y * y
        for q in range(CHUNK):
            features[base + 3 * step + q] = one if q < rows else zero


@_jit
def _moments(tile, state, count, chunks, D, first):
    for k in range(0, count - 1, 2):
        moments(tile, (0, 0), state.features, count, chunks, k, state.r, D, first, state.gradient)
    if count % 2:
        moments(tile, (0,), state.features, count, chunks, count - 1, state.r, D, first,
                state.gradient)  # fmt: skip


@_jit
def regression(wide, narrow, data, state, noise_sd):
    """Draw noise; sum over rows of features times residuals into ``state.gradient``; the loss."""
    d, n, D = data.d, data.n, data.D
    W, b, s = state.parameters
    count = 3 * d + 1
    fill_normal(state.twister, state.noise, noise_sd)
    for p in range(3):
        for i in range(d):
            for j in range(d):
                state.coefficients[(p * d + i) * D + j] = s[p, i] * W[i, j]
    last = 3 * d * D
    state.coefficients[last:] = 0
    for i in range(d):
        for j in range(d):
            state.coefficients[last + j] += W[i, j] * b[i]
    state.gradient[:] = 0
    state.squares[:] = 0
    size = block_chunks(d)
    chunks = (n + CHUNK - 1) // CHUNK
    for start in range(0, chunks, size):
        used = min(size, chunks - start)
        x_at = start * D * CHUNK
        _load_block(data, state.noise, start * CHUNK, used, state.features)
        first = 0
        while first + len(wide) <= D:
            residuals(wide, state.features, count, used, state.coefficients, D, first, data.x, x_at,
                      state.r, state.squares)  # fmt: skip
            _moments(wide, state, count, used, D, first)
            first += len(wide)
        while first < D:
            residuals(narrow, state.features, count, used, state.coefficients, D, first, data.x,
                      x_at, state.r, state.squares)  # fmt: skip
            _moments(narrow, state, count, used, D, first)
            first += len(narrow)
    return 0.5 * state.squares[0] / n


@_jit
def acyclicity(W, u, v, vectors, iterations):
    """Power iterations on Q = W o W + 1e-6, in place on u and v; h and v . u."""
    d = W.shape[0]
    small = np.float32(1e-6)
    next_u, next_v = vectors
    for _ in range(iterations):
        next_v[:] = 0
        for i in range(d):
            total = np.float32(0.0)
            for j in range(d):
                q = W[i, j] * W[i, j] + small
                total += q * u[j]
                next_v[j] += q * v[i]
            next_u[i] = total
        square_u = square_v = np.float32(0.0)
        for i in range(d):
            square_u += next_u[i] * next_u[i]
            square_v += next_v[i] * next_v[i]
        scale_u = np.float32(1.0) / max(np.sqrt(square_u), np.float32(1e-12))
        scale_v = np.float32(1.0) / max(np.sqrt(square_v), np.float32(1e-12))
        for i in range(d):
            u[i] = next_u[i] * scale_u
            v[i] = next_v[i] * scale_v
    overlap = product = np.float32(0.0)
    for i in range(d):
        overlap += v[i] * u[i]
        total = np.float32(0.0)
        for j in range(d):
            total += (W[i, j] * W[i, j] + small) * u[j]
        product += v[i] * total
    return product / overlap, overlap


@_jit
def _adam(parameter, gradient, first, second, rate, root):
    """One step with the moments' biases removed by ``rate`` and ``root``."""
    first += np.float32(0.1) * (gradient - first)
    second = np.float32(0.999) * second + np.float32(0.001) * gradient * gradient
    step = rate * first / (np.sqrt(second) * root + np.float32(1e-8))
    return parameter - step, first, second


@_jit
def descend(wide, narrow, data, state, first, second, done, steps, learning_rate, decay, rho, alpha,
            beta_1, beta_2, noise_sd, iterations):  # fmt: skip
    """``steps`` Adam steps after ``done``, number k at ``learning_rate / sqrt(1 + decay * k)``.

    Returns
    -------
    loss, h : float
        At the parameters before the last step.
    """
    d, n, D = data.d, data.n, data.D
    W, b, s = state.parameters
    gradient = state.gradient
    last = 3 * d * D
    inverse = np.float32(1.0 / n)
    for k in range(done, done + steps):
        loss = regression(wide, narrow, data, state, noise_sd)
        h, overlap = acyclicity(W, state.u, state.v, state.vectors, iterations)
        rate = learning_rate / np.sqrt(1.0 + decay * k)
        rate = np.float32(rate / (1.0 - 0.9 ** (k + 1)))
        root = np.float32(1.0 / np.sqrt(1.0 - 0.999 ** (k + 1)))
        slope = np.float32((rho * h + alpha) / overlap * 2)
        ridge, lasso = np.float32(0.5 * beta_1), np.float32(2 * beta_2)
        for i in range(d):
            by_b = np.float32(0.0)
            by_s = np.zeros(3, dtype=np.float32)
            for j in range(d):
                w = W[i, j]
                mean = gradient[last + j] * inverse
                by_w = b[i] * mean
                by_b += w * mean
                for p in range(3):
                    moment = gradient[(p * d + i) * D + j] * inverse
                    by_w += s[p, i] * moment
                    by_s[p] += w * moment
                by_w += slope * state.v[i] * state.u[j] * w + ridge * (w + np.sign(w))
                if i == j:
                    by_w = np.float32(0.0)
                W[i, j], first.W[i, j], second.W[i, j] = _adam(
                    w, by_w, first.W[i, j], second.W[i, j], rate, root
                )
            by_b += lasso * b[i]
            b[i], first.b[i], second.b[i] = _adam(b[i], by_b, first.b[i], second.b[i], rate, root)
            for p in range(3):
                by_s[p] += lasso * s[p, i]
                s[p, i], first.s[p, i], second.s[p, i] = _adam(
                    s[p, i], by_s[p], first.s[p, i], second.s[p, i], rate, root
                )
    return loss, h
