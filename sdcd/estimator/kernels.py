"""Compiled kernels of :mod:`sdcd.estimator.engine_numba`.

Layout
------
Rows of data are handled in *chunks* of ``CHUNK`` = 2 vectors of ``LANES`` float32. An epoch's rows,
in the order drawn, lie in *panels*: ``x[(chunk * (d + 1) + variable) * CHUNK + lane]``, where
variable d is the constant 1, so that a bias is the weight of one more parent. A batch is a whole
number of chunks; lanes past its end have zero weight in the loss.

A target with K candidate parents keeps its parameters in one *record* of ``theta``, and Adam's
moments and the gradient in records of the same shape: input weights (K, h), bias (h), ``u`` (h),
``v`` (h), ``c``, ``e``, then zeros up to a multiple of ``PAD``. Its *rows* are the K parents and d.

The three inner loops are written in LLVM's vector instructions (the functions decorated with
``intrinsic``), which keep up to two dozen sums in registers; compilers do not find this from scalar
loops. The number of hidden units is passed as the length of a tuple, ``units``, so that it is known
when they are compiled. Everything compiled is in this one file because numba's cache on disk
notices changes of no other.
"""

from itertools import pairwise

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic


def _vector_shape() -> tuple[int, int]:
    """Float32 lanes of a vector register, and how many hidden units fill the registers."""
    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        return 16, 10
    if features.get("avx"):
        return 8, 5
    return 4, 10 if features.get("neon") else 5


LANES, GROUP = _vector_shape()
_HAS_RCP14 = LANES == 16
CHUNK = 2 * LANES
PAD = 16

_FLOAT = ir.FloatType()
_INT = ir.IntType(32)
_INDEX = ir.IntType(64)
_VECTOR = ir.VectorType(_FLOAT, LANES)
_INT_VECTOR = ir.VectorType(_INT, LANES)
_FAST = ("contract", "reassoc", "arcp", "afn", "nsz")

_EXP2 = (0.6931469775948149, 0.24022242078915004, 0.05550733746933345, 0.009671513054117016,
         0.0013264727272077359)  # fmt: skip
"""2^r = 1 + sum_k _EXP2[k] r^(k + 1) for |r| <= 1/2, relative error 9e-8."""
_LOG = (0.6666641628314427, 0.4002152739878755, 0.28001802430972594, 0.28012001877308196)
"""log((1 + s) / (1 - s)) = s (2 + s^2 sum_k _LOG[k] s^(2 k)) for s^2 <= 1/9, rel. error 5e-9."""


def _jit(function):
    """Compile without the interpreter lock; cached on disk where a cache can be written."""
    options = {"nogil": True, "error_model": "numpy", "fastmath": set(_FAST)}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no directory that it may write
        return njit(**options)(function)


class _Emitter:
    """Vector arithmetic on an LLVM builder."""

    def __init__(self, context, builder, signature, args):
        self.builder = builder
        self.context = context
        self.args = [
            context.make_array(kind)(context, builder, value).data
            if isinstance(kind, types.Array)
            else value
            for kind, value in zip(signature.args, args, strict=True)
        ]

    def constant(self, value):
        return ir.Constant(_VECTOR, [float(value)] * LANES)

    def integers(self, value):
        return ir.Constant(_INT_VECTOR, [value] * LANES)

    def at(self, pointer, *offsets):
        for offset in offsets:
            if isinstance(offset, int):
                if offset == 0:
                    continue
                offset = _INDEX(offset)
            pointer = self.builder.gep(pointer, [offset])
        return pointer

    def load(self, pointer, *offsets):
        pointer = self.builder.bitcast(self.at(pointer, *offsets), _VECTOR.as_pointer())
        return self.builder.load(pointer, align=4)

    def store(self, value, pointer, *offsets):
        pointer = self.builder.bitcast(self.at(pointer, *offsets), value.type.as_pointer())
        self.builder.store(value, pointer, align=4)

    def splat(self, scalar):
        kind = ir.VectorType(scalar.type, LANES)
        one = self.builder.insert_element(ir.Constant(kind, ir.Undefined), scalar, _INT(0))
        return self.shuffle(one, one, [0] * LANES)

    def broadcast(self, pointer, *offsets):
        return self.splat(self.builder.load(self.at(pointer, *offsets)))

    def shuffle(self, a, b, lanes):
        mask = ir.Constant(ir.VectorType(_INT, len(lanes)), lanes)
        return self.builder.shuffle_vector(a, b, mask)

    def _intrinsic(self, name, *operands):
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * len(operands))
        function = cgutils.get_or_insert_function(
            self.builder.module, kind, f"llvm.{name}.v{LANES}f32"
        )
        return self.builder.call(function, operands)

    def fma(self, a, b, c):
        return self._intrinsic("fmuladd", a, b, c)

    def least(self, a, b):
        return self._intrinsic("minnum", a, b)

    def greatest(self, a, b):
        return self._intrinsic("maxnum", a, b)

    def magnitude(self, a):
        return self._intrinsic("fabs", a)

    def sqrt(self, a):
        return self._intrinsic("sqrt", a)

    def add(self, a, b):
        return self.builder.fadd(a, b)

    def sub(self, a, b):
        return self.builder.fsub(a, b)

    def mul(self, a, b):
        return self.builder.fmul(a, b)

    def div(self, a, b):
        return self.builder.fdiv(a, b, flags=_FAST)

    def reciprocal(self, x):
        """1 / x within 2e-7, for x between 1e-37 and 1e37."""
        if not _HAS_RCP14:
            return self.div(self.constant(1.0), x)
        # The processor's estimate has 14 bits; a step of Newton's method doubles them.
        kind = ir.FunctionType(_VECTOR, [_VECTOR, _VECTOR, ir.IntType(LANES)])
        function = cgutils.get_or_insert_function(
            self.builder.module, kind, "llvm.x86.avx512.rcp14.ps.512"
        )
        zero = ir.Constant(_VECTOR, None)
        estimate = self.builder.call(function, [x, zero, ir.IntType(LANES)(-1)])
        error = self.fma(self.builder.fneg(x), estimate, self.constant(1.0))
        return self.fma(estimate, error, estimate)

    def polynomial(self, x, coefficients):
        value = self.constant(coefficients[-1])
        for coefficient in coefficients[-2::-1]:
            value = self.fma(value, x, self.constant(coefficient))
        return value

    def exp(self, x, scale=1.0):
        """exp(scale * x), scale * x clamped to +-87."""
        limit = 87.0 / abs(scale)
        x = self.least(self.greatest(x, self.constant(-limit)), self.constant(limit))
        rate = self.constant(scale / np.log(2.0))
        # Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits of the sum.
        shifter = self.constant(12582912.0)
        shifted = self.fma(x, rate, shifter)
        whole = self.sub(shifted, shifter)
        rest = self.fma(x, rate, self.builder.fneg(whole))
        power = self.fma(self.polynomial(rest, _EXP2), rest, self.constant(1.0))
        exponent = self.builder.shl(self.builder.bitcast(shifted, _INT_VECTOR), self.integers(23))
        bits = self.builder.add(self.builder.bitcast(power, _INT_VECTOR), exponent)
        return self.builder.bitcast(bits, _VECTOR)

    def sigmoid(self, x):
        return self.reciprocal(self.add(self.constant(1.0), self.exp(x, -1.0)))

    def log_ratio(self, s):
        """log((1 + s) / (1 - s)) for |s| <= 1/3."""
        square = self.mul(s, s)
        series = self.fma(self.polynomial(square, _LOG), square, self.constant(2.0))
        return self.mul(s, series)

    def log(self, x):
        """Log of a positive normal number."""
        bits = self.builder.bitcast(x, _INT_VECTOR)
        # 0x3F3504F3 is sqrt(1/2): the mantissa then lies in [sqrt(1/2), sqrt(2)).
        offset = self.builder.sub(bits, self.integers(0x3F3504F3))
        exponent = self.builder.ashr(offset, self.integers(23))
        bits = self.builder.sub(bits, self.builder.shl(exponent, self.integers(23)))
        mantissa = self.builder.bitcast(bits, _VECTOR)
        one = self.constant(1.0)
        s = self.div(self.sub(mantissa, one), self.add(mantissa, one))
        exponent = self.builder.sitofp(exponent, _VECTOR)
        return self.fma(exponent, self.constant(np.log(2.0)), self.log_ratio(s))

    def softplus(self, x):
        """softplus(x) and its derivative, the sigmoid."""
        one, zero = self.constant(1.0), self.constant(0.0)
        small = self.exp(self.magnitude(x), -1.0)
        inverse = self.reciprocal(self.add(one, small))
        two = self.constant(2.0)
        log1p = self.log_ratio(self.mul(small, self.reciprocal(self.add(small, two))))
        value = self.add(self.greatest(x, zero), log1p)
        positive = self.builder.fcmp_ordered(">=", x, zero)
        slope = self.builder.select(positive, inverse, self.mul(small, inverse))
        return value, slope

    def sums(self, vectors):
        """Sum the lanes of each vector: the sums, in order, in as few vectors as they fill."""
        out = []
        for start in range(0, len(vectors), LANES):
            part = vectors[start : start + LANES]
            quads = LANES // 4
            # The tree below leaves leaf p in this lane.
            lane = [4 * (p % quads) + p // quads for p in range(LANES)]
            full = len(part) == LANES
            leaves = [part[i] for i in lane] if full else part + [None] * (LANES - len(part))
            width = quads
            while width > 1:
                # Each vector holds quads // width segments of width quads: halve the segments.
                half = width // 2
                low = [w for s in range(0, quads, width) for w in range(s, s + half)]
                high = [w + half for w in low]
                leaves = [
                    self._fold(a, b, [4 * q + k for q in low for k in range(4)],
                               [4 * q + k for q in high for k in range(4)])
                    for a, b in zip(leaves[::2], leaves[1::2], strict=True)
                ]  # fmt: skip
                width = half
            for low, high in (([0, 1], [2, 3]), ([0, 2], [1, 3])):
                leaves = [
                    self._fold(a, b, low, high, within=True)
                    for a, b in zip(leaves[::2], leaves[1::2], strict=True)
                ]
            (total,) = leaves
            out.append(total if full else self.shuffle(total, total, lane[: len(part)]))
        return out

    def _fold(self, a, b, low, high, within=False):
        if a is None and b is None:
            return None
        if b is None:
            b = ir.Constant(_VECTOR, ir.Undefined)
        masks = []
        for pick in (low, high):
            if within:
                mask = []
                for quad in range(0, LANES, 4):
                    mask += [quad + k for k in pick] + [LANES + quad + k for k in pick]
            else:
                mask = list(pick) + [LANES + k for k in pick]
            masks.append(mask)
        return self.add(self.shuffle(a, b, masks[0]), self.shuffle(a, b, masks[1]))

    def variables(self, values):
        """Mutable copies of vectors, for loops; LLVM keeps them in registers."""
        slots = [cgutils.alloca_once(self.builder, _VECTOR) for _ in values]
        for slot, value in zip(slots, values, strict=True):
            self.builder.store(value, slot)
        return slots

    def read(self, slots):
        return [self.builder.load(slot) for slot in slots]


def _groups(hidden):
    """Split the hidden units into runs that fit the registers."""
    parts = -(-hidden // GROUP)
    edges = [hidden * p // parts for p in range(parts + 1)]
    return list(pairwise(edges))


def _forward(em, hidden, x, x_at, rows, rows_at, parents, theta, theta_at, s, s_at):
    """Hidden units of one chunk, stored in ``s``; returns the two heads, a pair of vectors each."""
    b = em.builder
    bias_at = b.add(theta_at, b.mul(parents, _INDEX(hidden)))
    means = [em.broadcast(theta, bias_at, 3 * hidden)] * 2
    raws = [em.broadcast(theta, bias_at, 3 * hidden + 1)] * 2
    for start, stop in _groups(hidden):
        size = stop - start
        biases = [em.broadcast(theta, bias_at, h) for h in range(start, stop)]
        slots = em.variables(biases + biases)
        with cgutils.for_range(b, parents) as loop:
            row = b.sext(b.load(em.at(rows, rows_at, loop.index)), _INDEX)
            pointer = em.at(x, x_at, b.mul(row, _INDEX(CHUNK)))
            values = [em.load(pointer, v * LANES) for v in range(2)]
            weight_at = em.at(theta, theta_at, b.mul(loop.index, _INDEX(hidden)), start)
            for h in range(size):
                weight = em.broadcast(weight_at, h)
                for v in range(2):
                    slot = slots[v * size + h]
                    b.store(em.fma(weight, values[v], b.load(slot)), slot)
        sums = em.read(slots)
        for h in range(size):
            u = em.broadcast(theta, bias_at, hidden + start + h)
            w = em.broadcast(theta, bias_at, 2 * hidden + start + h)
            for v in range(2):
                unit = em.sigmoid(sums[v * size + h])
                em.store(unit, s, s_at, (start + h) * CHUNK + v * LANES)
                means[v] = em.fma(u, unit, means[v])
                raws[v] = em.fma(w, unit, raws[v])
    return means, raws


_ARRAY = types.Array(types.float32, 1, "C")
_ROWS = types.Array(types.int32, 1, "C")
_FORWARD_ARGUMENTS = (
    _ARRAY, types.intp, types.intp,  # x, chunk's offset, target's own row's offset
    _ROWS, types.intp, types.intp,  # rows, offset, number of parents
    _ARRAY, types.intp,  # theta, offset
    _ARRAY, types.intp,  # hidden units, offset
    _ARRAY, types.intp,  # weights of the rows in the loss, offset
    _ARRAY, types.intp,  # output, offset
)  # fmt: skip


@intrinsic
def forward_chunk(typing, units, x, x_at, own_at, rows, rows_at, parents, theta, theta_at, s, s_at,
                  weight, weight_at, g, g_at):  # fmt: skip
    """Hidden units of a chunk, and the derivative of the loss by both heads.

    ``s[s_at + h * CHUNK + lane]`` are the hidden units; ``g[g_at + lane]`` and
    ``g[g_at + CHUNK + lane]`` the derivatives by the mean and by the raw variance.
    """

    def generate(context, builder, signature, args):
        em = _Emitter(context, builder, signature, args)
        (_, x, x_at, own_at, rows, rows_at, parents, theta, theta_at, s, s_at,
         weight, weight_at, g, g_at) = em.args  # fmt: skip
        means, raws = _forward(
            em, units.count, x, x_at, rows, rows_at, parents, theta, theta_at, s, s_at
        )
        one = em.constant(1.0)
        for v in range(2):
            variance, slope = em.softplus(raws[v])
            precision = em.reciprocal(variance)
            error = em.sub(means[v], em.load(x, own_at, v * LANES))
            scaled = em.mul(precision, em.load(weight, weight_at, v * LANES))
            by_mean = em.mul(error, scaled)
            # 1/2 (1 - error^2 / variance) / variance
            excess = em.sub(one, em.mul(em.mul(error, error), precision))
            by_variance = em.mul(em.mul(scaled, em.constant(0.5)), excess)
            em.store(by_mean, g, g_at, v * LANES)
            em.store(em.mul(by_variance, slope), g, g_at, CHUNK + v * LANES)
        return context.get_dummy_value()

    return types.void(units, *_FORWARD_ARGUMENTS), generate


@intrinsic
def loss_chunk(typing, units, x, x_at, own_at, rows, rows_at, parents, theta, theta_at, s, s_at,
               weight, weight_at, out, out_at):  # fmt: skip
    """Weighted negative log density of each row of a chunk: ``out[out_at + lane]``."""

    def generate(context, builder, signature, args):
        em = _Emitter(context, builder, signature, args)
        (_, x, x_at, own_at, rows, rows_at, parents, theta, theta_at, s, s_at,
         weight, weight_at, out, out_at) = em.args  # fmt: skip
        means, raws = _forward(
            em, units.count, x, x_at, rows, rows_at, parents, theta, theta_at, s, s_at
        )
        for v in range(2):
            variance, _ = em.softplus(raws[v])
            error = em.sub(means[v], em.load(x, own_at, v * LANES))
            square = em.div(em.mul(error, error), variance)
            loss = em.add(em.add(em.log(variance), em.constant(np.log(2 * np.pi))), square)
            half_weight = em.mul(em.load(weight, weight_at, v * LANES), em.constant(0.5))
            em.store(em.mul(loss, half_weight), out, out_at, v * LANES)
        return context.get_dummy_value()

    return types.void(units, *_FORWARD_ARGUMENTS), generate


@intrinsic
def heads_backward(typing, units, s, g, chunks, theta, heads_at, out, out_at):
    """Turn hidden units into the derivative of the loss by their inputs, in place.

    ``theta[heads_at:]`` is u, v; ``out[out_at:]`` receives the gradient of u, v, c, e.
    """

    def generate(context, builder, signature, args):
        em = _Emitter(context, builder, signature, args)
        _, s, g, chunks, theta, heads_at, out, out_at = em.args
        b, hidden = builder, units.count
        by_u, by_v = [None] * hidden, [None] * hidden
        for start, stop in _groups(hidden):
            size = stop - start
            slots = em.variables([em.constant(0.0)] * (2 * size + 2))
            with cgutils.for_range(b, chunks) as loop:
                g_at = b.mul(loop.index, _INDEX(2 * CHUNK))
                s_at = b.mul(loop.index, _INDEX(hidden * CHUNK))
                for v in range(2):
                    by_mean = em.load(g, g_at, v * LANES)
                    by_raw = em.load(g, g_at, CHUNK + v * LANES)
                    for slot, value in zip(slots[2 * size :], (by_mean, by_raw), strict=True):
                        b.store(em.add(b.load(slot), value), slot)
                    for h in range(size):
                        at = (start + h) * CHUNK + v * LANES
                        unit = em.load(s, s_at, at)
                        b.store(em.fma(by_mean, unit, b.load(slots[h])), slots[h])
                        slot = slots[size + h]
                        b.store(em.fma(by_raw, unit, b.load(slot)), slot)
                        u = em.broadcast(theta, heads_at, start + h)
                        w = em.broadcast(theta, heads_at, hidden + start + h)
                        by_unit = em.fma(by_raw, w, em.mul(by_mean, u))
                        slope = em.sub(unit, em.mul(unit, unit))
                        em.store(em.mul(by_unit, slope), s, s_at, at)
            totals = em.read(slots)
            by_u[start:stop] = totals[:size]
            by_v[start:stop] = totals[size : 2 * size]
            by_c_e = totals[2 * size :]
        at = 0
        for vector in em.sums(by_u + by_v + by_c_e):
            em.store(vector, out, out_at, at)
            at += LANES
        return context.get_dummy_value()

    return types.void(units, _ARRAY, _ARRAY, types.intp, _ARRAY, types.intp, _ARRAY,
                      types.intp), generate  # fmt: skip


@intrinsic
def weight_gradient(typing, units, x, x_at, x_stride, rows, rows_at, pairs, s, chunks, out, out_at):
    """Gradient of the input weights of one parent, or of two (``pairs`` of length 2).

    ``out[out_at + r * h + k] = sum over rows of x[:, rows[rows_at + r]] * s[:, k]``.
    """

    def generate(context, builder, signature, args):
        em = _Emitter(context, builder, signature, args)
        _, x, x_at, x_stride, rows, rows_at, _, s, chunks, out, out_at = em.args
        b, hidden, count = builder, units.count, pairs.count
        parents = []
        for r in range(count):
            row = b.sext(b.load(em.at(rows, rows_at, r)), _INDEX)
            parents.append(em.at(x, x_at, b.mul(row, _INDEX(CHUNK))))
        totals = [[None] * hidden for _ in range(count)]
        for start, stop in _groups(hidden):
            size = stop - start
            slots = em.variables([em.constant(0.0)] * (count * size))
            with cgutils.for_range(b, chunks) as loop:
                s_at = b.mul(loop.index, _INDEX(hidden * CHUNK))
                chunk_at = b.mul(loop.index, x_stride)
                for v in range(2):
                    values = [em.load(parent, chunk_at, v * LANES) for parent in parents]
                    for h in range(size):
                        unit = em.load(s, s_at, (start + h) * CHUNK + v * LANES)
                        for r in range(count):
                            slot = slots[r * size + h]
                            b.store(em.fma(values[r], unit, b.load(slot)), slot)
            sums = em.read(slots)
            for r in range(count):
                totals[r][start:stop] = sums[r * size : (r + 1) * size]
        at = 0
        for vector in em.sums([total for row in totals for total in row]):
            em.store(vector, out, out_at, at)
            at += LANES
        return context.get_dummy_value()

    return types.void(units, _ARRAY, types.intp, types.intp, _ROWS, types.intp, pairs, _ARRAY,
                      types.intp, _ARRAY, types.intp), generate  # fmt: skip


@intrinsic
def adam(typing, theta, first, second, g, at, weights, length, alpha, decay, rate, root):
    """One Adam step on the record at ``at``.

    The gradient is ``g`` + ``decay`` * theta, and for the first ``weights`` parameters
    + ``alpha`` * sign(theta); ``rate`` is the learning rate over 1 - beta1^t, ``root`` is
    1 / sqrt(1 - beta2^t). ``length`` is a multiple of ``PAD``.
    """

    def generate(context, builder, signature, args):
        em = _Emitter(context, builder, signature, args)
        theta, first, second, g, at, weights, length, alpha, decay, rate, root = em.args
        b = builder
        alpha, decay, rate, root = (em.splat(value) for value in (alpha, decay, rate, root))
        sign = em.integers(-(2**31))
        alpha_bits = b.bitcast(alpha, _INT_VECTOR)
        lane = ir.Constant(_INT_VECTOR, list(range(LANES)))
        with cgutils.for_range(b, b.udiv(length, _INDEX(LANES))) as loop:
            g_at = b.mul(loop.index, _INDEX(LANES))
            here = b.add(at, g_at)
            w = em.load(theta, here)
            left = b.trunc(b.sub(weights, g_at), _INT)
            inside = b.icmp_signed("<", lane, em.splat(left))
            inside = b.and_(inside, b.fcmp_unordered("!=", w, em.constant(0.0)))
            signed = b.or_(b.and_(b.bitcast(w, _INT_VECTOR), sign), alpha_bits)
            l1 = b.select(inside, b.bitcast(signed, _VECTOR), em.constant(0.0))
            slope = em.add(em.fma(decay, w, em.load(g, g_at)), l1)
            m = em.load(first, here)
            m = em.fma(em.constant(0.1), em.sub(slope, m), m)
            s = em.mul(em.load(second, here), em.constant(0.999))
            s = em.fma(em.mul(slope, slope), em.constant(0.001), s)
            em.store(m, first, here)
            em.store(s, second, here)
            below = em.fma(em.sqrt(s), root, em.constant(1e-8))
            em.store(em.sub(w, em.div(em.mul(rate, m), below)), theta, here)
        return context.get_dummy_value()

    numbers = (types.intp,) * 3 + (types.float32,) * 4
    return types.void(_ARRAY, _ARRAY, _ARRAY, _ARRAY, *numbers), generate


_COUNTER = types.Array(types.int64, 1, "C")


@intrinsic
def _arrive(typing, counter):
    """Add one to ``counter[0]``, atomically."""

    def generate(context, builder, signature, args):
        em = _Emitter(context, builder, signature, args)
        builder.atomic_rmw("add", em.args[0], _INDEX(1), "seq_cst")
        return context.get_dummy_value()

    return types.void(_COUNTER), generate


@intrinsic
def _arrivals(typing, counter):
    """Read ``counter[0]``, atomically."""

    def generate(context, builder, signature, args):
        em = _Emitter(context, builder, signature, args)
        return builder.load_atomic(em.args[0], "seq_cst", 8)

    return types.int64(_COUNTER), generate


@intrinsic
def _give_way(typing):
    """Let the operating system run another thread."""

    def generate(context, builder, signature, args):
        kind = ir.FunctionType(_INT, [])
        function = cgutils.get_or_insert_function(builder.module, kind, "sched_yield")
        builder.call(function, [])
        return context.get_dummy_value()

    return types.void(), generate


@_jit
def wait(counter, arrivals):
    """Barrier: wait until the threads have arrived ``arrivals`` times in all."""
    _arrive(counter)
    tries = 0
    while _arrivals(counter) < arrivals:
        tries += 1
        if tries > 200:
            _give_way()


@_jit
def gather(values, order, first, last, width, panels):
    """Copy variables first..last - 1 of ``values`` (d, n + 1), rows ``order``, into panels."""
    chunks = order.shape[0] // CHUNK
    for i in range(first, last):
        for c in range(chunks):
            at = (c * width + i) * CHUNK
            for k in range(CHUNK):
                panels[at + k] = values[i, order[c * CHUNK + k]]


@_jit
def power_steps(A, rows, indptr, targets, left, right, new_left, new_right, iterations):
    """Power iterations on A + 1e-6 and its transpose, in place on ``left`` and ``right``.

    Normalised at least every third time: an all-zero A shrinks the vectors 1e-6 d times a step.
    """
    d = left.shape[0]
    for step in range(iterations):
        total_left = np.float32(0.0)
        total_right = np.float32(0.0)
        for i in range(d):
            total_left += left[i]
            total_right += right[i]
        total_left *= np.float32(1e-6)
        total_right *= np.float32(1e-6)
        for i in range(d):
            new_left[i] = total_left
            new_right[i] = total_right
        for k in range(targets.shape[0]):
            j = targets[k]
            value = right[j]
            total = np.float32(0.0)
            for e in range(indptr[k], indptr[k + 1]):
                i = rows[e + k]
                total += A[e] * left[i]
                new_right[i] += A[e] * value
            new_left[j] += total
        if step % 3 == 2 or step == iterations - 1:
            total_left = np.float32(0.0)
            total_right = np.float32(0.0)
            for i in range(d):
                total_left += new_left[i] * new_left[i]
                total_right += new_right[i] * new_right[i]
            scale_left = np.float32(1.0) / np.sqrt(total_left)
            scale_right = np.float32(1.0) / np.sqrt(total_right)
            for i in range(d):
                left[i] = new_left[i] * scale_left
                right[i] = new_right[i] * scale_right
        else:
            for i in range(d):
                left[i] = new_left[i]
                right[i] = new_right[i]


@_jit
def penalty_gradient(units, theta, at, parents, coefficient, g):
    """Add ``coefficient[e]`` times the weights of a target's e-th parent to the gradient."""
    hidden = len(units)
    for e in range(parents):
        for h in range(hidden):
            g[e * hidden + h] += coefficient[e] * theta[at + e * hidden + h]


@_jit
def edge_norms(units, theta, at, parents, A, A_at):
    """``A[A_at + e]`` = norm of the weights of a target's e-th parent."""
    hidden = len(units)
    for e in range(parents):
        total = np.float32(0.0)
        for h in range(hidden):
            w = theta[at + e * hidden + h]
            total += w * w
        A[A_at + e] = np.sqrt(total)


@_jit
def epoch(units, thread, threads, counter, values, keep, order, batch_chunks, rows_in_epoch,
          batch_size, panels, weight, variables, blocks, targets, indptr, rows, offsets, theta,
          first, second, A, left, right, spectral, iterations, gamma, alpha, decay, lr, step, s, g,
          gradient, scratch, left_work, right_work):  # fmt: skip
    """One thread's part of an epoch: see :class:`~sdcd.estimator.engine_numba.NumbaEngine`.

    Targets need each other only through the spectral penalty. Without it a block of targets, small
    enough for the cache, runs the whole epoch before the next; with it there is one block, and one
    barrier a step, after which every thread runs the power iteration for itself on the ``A`` that
    all of them wrote in the step before (``A[step % 2]``: the next one is written meanwhile).
    """
    hidden = len(units)
    d = values.shape[0]
    width = d + 1
    gather(values, order, variables[thread], variables[thread + 1], width, panels)
    if spectral:
        for k in range(blocks[0], blocks[1]):
            edge_norms(units, theta, offsets[k], indptr[k + 1] - indptr[k], A[step % 2], indptr[k])
    arrived = threads
    if threads > 1:
        wait(counter, arrived)
    chunks_in_epoch = order.shape[0] // CHUNK
    batches = (chunks_in_epoch + batch_chunks - 1) // batch_chunks
    has_keep = keep.shape[0] > 0
    for block in range(blocks.shape[0] - 1):
        power1 = 0.9**step
        power2 = 0.999**step
        for batch in range(batches):
            power1 *= 0.9
            power2 *= 0.999
            rate = np.float32(lr / (1.0 - power1))
            root = np.float32(1.0 / np.sqrt(1.0 - power2))
            start = batch * batch_chunks
            chunks = min(batch_chunks, chunks_in_epoch - start)
            now = A[(step + batch) % 2]
            later = A[(step + batch + 1) % 2]
            scale = np.float32(0.0)
            if spectral:
                if threads > 1 and batch > 0:
                    arrived += threads
                    wait(counter, arrived)
                power_steps(now, rows, indptr, targets, left, right, left_work, right_work,
                            iterations)  # fmt: skip
                product = np.float32(0.0)
                for i in range(d):
                    product += left[i] * right[i]
                scale = gamma / (product + np.float32(1e-6))
            for k in range(blocks[block], blocks[block + 1]):
                parents = indptr[k + 1] - indptr[k]
                at = offsets[k]
                rows_at = indptr[k] + k
                if has_keep:
                    rows_here = min(batch_size, rows_in_epoch - batch * batch_size)
                    inverse = np.float32(1.0 / rows_here)
                    for c in range(chunks * CHUNK):
                        scratch[c] = keep[k, order[start * CHUNK + c]] * inverse
                for c in range(chunks):
                    x_at = (start + c) * width * CHUNK
                    own_at = x_at + targets[k] * CHUNK
                    if has_keep:
                        forward_chunk(units, panels, x_at, own_at, rows, rows_at, parents, theta,
                                      at, s, c * hidden * CHUNK, scratch, c * CHUNK, g,
                                      2 * c * CHUNK)  # fmt: skip
                    else:
                        forward_chunk(units, panels, x_at, own_at, rows, rows_at, parents, theta,
                                      at, s, c * hidden * CHUNK, weight, (start + c) * CHUNK, g,
                                      2 * c * CHUNK)  # fmt: skip
                heads_at = (parents + 1) * hidden
                heads_backward(units, s, g, chunks, theta, at + heads_at, gradient, heads_at)
                x_at = start * width * CHUNK
                for r in range(0, parents, 2):
                    weight_gradient(units, panels, x_at, width * CHUNK, rows, rows_at + r, (0, 0),
                                    s, chunks, gradient, r * hidden)  # fmt: skip
                if parents % 2 == 0:
                    weight_gradient(units, panels, x_at, width * CHUNK, rows, rows_at + parents,
                                    (0,), s, chunks, gradient, parents * hidden)  # fmt: skip
                if spectral:
                    value = scale * right[targets[k]]
                    for e in range(parents):
                        norm = now[indptr[k] + e]
                        scratch[e] = value * left[rows[rows_at + e]] / norm if norm > 0 else 0
                    penalty_gradient(units, theta, at, parents, scratch, gradient)
                length = offsets[k + 1] - at
                for q in range(heads_at + 2 * hidden + 2, length):
                    gradient[q] = 0
                adam(theta, first, second, gradient, at, parents * hidden, length, alpha, decay,
                     rate, root)  # fmt: skip
                if spectral:
                    edge_norms(units, theta, at, parents, later, indptr[k])


@_jit
def loss(units, panels, weight, keep, inverse, width, targets, indptr, rows, offsets, theta, s,
         row_weight, out):  # fmt: skip
    """Sum of the weighted negative log densities of all rows of the panels and all targets.

    ``weight`` (rows,) is 1 / (rows of the batch), 0 for padding.
    """
    total = 0.0
    chunks = weight.shape[0] // CHUNK
    has_keep = keep.shape[0] > 0
    for k in range(targets.shape[0]):
        parents = indptr[k + 1] - indptr[k]
        for c in range(chunks):
            x_at = c * width * CHUNK
            for q in range(CHUNK):
                row_weight[q] = weight[c * CHUNK + q]
                if has_keep:
                    row_weight[q] *= keep[k, c * CHUNK + q]
            loss_chunk(units, panels, x_at, x_at + targets[k] * CHUNK, rows, indptr[k] + k, parents,
                       theta, offsets[k], s, 0, row_weight, 0, out, 0)  # fmt: skip
            part = np.float32(0.0)
            for q in range(CHUNK):
                part += out[q]
            total += part
    return total
