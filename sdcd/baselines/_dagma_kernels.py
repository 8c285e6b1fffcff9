"""Compiled steps of nonlinear DAGMA: :func:`descend`. Float64, all rows in every step.

Layout
------
Rows are handled in *chunks* of ``CHUNK`` = 2 vectors of ``LANES`` numbers and *blocks* of ``BLOCK``
chunks. In :func:`panel`'s copy of the data, ``x[(chunk * stride + variable) * CHUNK + lane]``,
neighbours in memory are the same variable in different rows; padding rows have weight 0. Hidden
units and residuals of one variable and block are laid out likewise.

Each of the d regressions keeps its parameters in one *record* of ``theta``: input weights (d, h),
bias (h), output weights (h), output bias.

The score depends on the rows only through one sum of squares over all rows and variables, so that
its gradient is that of the sum times a number that is known when all rows have been seen. A step
therefore goes through the data once: for every block and variable, :func:`forward` (a matrix
product and sigmoids), :func:`backward_heads` and :func:`backward_inputs` (the other matrix product)
while the block's hidden units are in the first-level cache. Of the n d h hidden units of a step,
none is ever written to memory outside it.

The functions marked ``intrinsic`` are written in LLVM's vector instructions because they keep up
to two dozen sums in registers, which compilers do not find from loops over numbers. The number of
hidden units is passed as the length of a tuple, ``units``, to be known when they are compiled.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from sdcd.compiled import compiled


def _vector_shape() -> tuple[int, int]:
    """Float64 lanes of a vector register, and how many hidden units fill the registers."""
    # What numba compiles for: NUMBA_CPU_NAME and NUMBA_CPU_FEATURES may differ from the machine.
    _, _, features = cpu_target.target_context.codegen().magic_tuple()
    features = features.split(",")
    if "+avx512f" in features:
        return 8, 10
    if "+avx" in features:
        return 4, 5
    return 2, 10 if "+neon" in features else 5


LANES, GROUP = _vector_shape()
_HAS_ESTIMATES = LANES == 8
CHUNK = 2 * LANES
BLOCK = 384 // CHUNK

_FLOAT = ir.DoubleType()
_INT = ir.IntType(32)
_INDEX = ir.IntType(64)
_VECTOR = ir.VectorType(_FLOAT, LANES)
_INT_VECTOR = ir.VectorType(_INDEX, LANES)

UNIT_SCALE = -1 / np.log(2.0)
"""The sigmoid of x is 1 / (1 + 2^(UNIT_SCALE * x))."""

_EXP2 = (0.6931471805599453, 0.24022650695910097, 0.0555041086648216, 0.009618129107606888,
         0.0013333558146416936, 0.0001540353044173605, 1.525273382983612e-05,
         1.321544258792169e-06, 1.0178062445845774e-07, 7.072585949269223e-09,
         4.4549605981865186e-10)  # fmt: skip
"""2^r = 1 + sum_k _EXP2[k] r^(k + 1) for |r| <= 1/2: Chebyshev, error 1e-17."""


# Reordering sums would undo the rounding in _Emitter.sigmoids.
_jit = compiled(nogil=True, error_model="numpy", fastmath={"contract"})


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

    def constant(self, value):
        return ir.Constant(_VECTOR, [float(value)] * LANES)

    def at(self, pointer, *offsets):
        for offset in offsets:
            pointer = self.builder.gep(
                pointer, [_INDEX(offset) if isinstance(offset, int) else offset]
            )
        return pointer

    def load(self, pointer, *offsets, kind=_VECTOR):
        pointer = self.builder.bitcast(self.at(pointer, *offsets), kind.as_pointer())
        return self.builder.load(pointer, align=8)

    def store(self, value, pointer, *offsets):
        pointer = self.builder.bitcast(self.at(pointer, *offsets), value.type.as_pointer())
        self.builder.store(value, pointer, align=8)

    def broadcast(self, pointer, *offsets):
        scalar = self.builder.load(self.at(pointer, *offsets))
        one = self.builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), scalar, _INT(0))
        return self.shuffle(one, one, [0] * LANES)

    def shuffle(self, a, b, lanes):
        mask = ir.Constant(ir.VectorType(_INT, len(lanes)), lanes)
        return self.builder.shuffle_vector(a, b, mask)

    def _intrinsic(self, name, *operands):
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * len(operands))
        function = cgutils.get_or_insert_function(
            self.builder.module, kind, f"llvm.{name}.v{LANES}f64"
        )
        return self.builder.call(function, operands)

    def fma(self, a, b, c):
        return self._intrinsic("fmuladd", a, b, c)

    def add(self, a, b):
        return self.builder.fadd(a, b)

    def sub(self, a, b):
        return self.builder.fsub(a, b)

    def mul(self, a, b):
        return self.builder.fmul(a, b)

    def reciprocals(self, numbers):
        """1 / x of each x, for x from 1 to 2^1000."""
        one = self.constant(1.0)
        if not _HAS_ESTIMATES:
            return [self.builder.fdiv(one, x) for x in numbers]
        # The processor's estimate has 14 bits; each step of Newton's method doubles them.
        kind = ir.FunctionType(_VECTOR, [_VECTOR, _VECTOR, ir.IntType(8)])
        function = cgutils.get_or_insert_function(
            self.builder.module, kind, "llvm.x86.avx512.rcp14.pd.512"
        )
        zero, mask = ir.Constant(_VECTOR, None), ir.IntType(8)(-1)
        guesses = [self.builder.call(function, [x, zero, mask]) for x in numbers]
        minus = [self.builder.fneg(x) for x in numbers]
        for _ in range(2):
            errors = [self.fma(x, g, one) for x, g in zip(minus, guesses, strict=True)]
            guesses = [self.fma(g, e, g) for g, e in zip(guesses, errors, strict=True)]
        return guesses

    def sigmoids(self, scaled):
        """1 / (1 + 2^x) of each x, within 3e-16.

        Several at a time are computed in step, so that the processor need not look far ahead for
        work that does not wait for other work.
        """
        b = self.builder
        for name, limit in (("maxnum", -1000.0), ("minnum", 1000.0)):
            scaled = [self._intrinsic(name, x, self.constant(limit)) for x in scaled]
        # Adding 1.5 * 2^52 rounds to an integer and leaves it in the low bits of the sum.
        shifter = self.constant(1.5 * 2.0**52)
        shifted = [self.add(x, shifter) for x in scaled]
        whole = [self.sub(x, shifter) for x in shifted]
        rest = [self.sub(x, integer) for x, integer in zip(scaled, whole, strict=True)]
        power = [self.constant(_EXP2[-1])] * len(rest)
        for coefficient in (*_EXP2[-2::-1], 1.0):
            constant = self.constant(coefficient)
            power = [self.fma(p, x, constant) for p, x in zip(power, rest, strict=True)]
        bits = ir.Constant(_INT_VECTOR, [52] * LANES)
        exponents = [b.shl(b.bitcast(x, _INT_VECTOR), bits) for x in shifted]
        powers = [
            b.bitcast(b.add(b.bitcast(p, _INT_VECTOR), e), _VECTOR)
            for p, e in zip(power, exponents, strict=True)
        ]
        one = self.constant(1.0)
        return self.reciprocals([self.add(one, p) for p in powers])

    def add_sums(self, vectors, pointer, *offsets):
        """Add the sum of the lanes of each vector to consecutive numbers in memory."""
        for start in range(0, len(vectors), LANES):
            part = vectors[start : start + LANES]
            leaves, step = part + [part[-1]] * (LANES - len(part)), 1
            while step < LANES:
                low = [k if not k & step else LANES + k - step for k in range(LANES)]
                high = [k + step if not k & step else LANES + k for k in range(LANES)]
                leaves = [
                    self.add(self.shuffle(a, b, low), self.shuffle(a, b, high))
                    for a, b in zip(leaves[::2], leaves[1::2], strict=True)
                ]
                step *= 2
            (total,) = leaves
            if len(part) < LANES:
                total = self.shuffle(total, total, list(range(len(part))))
            old = self.load(pointer, *offsets, start, kind=total.type)
            self.store(self.add(old, total), pointer, *offsets, start)

    def variables(self, values):
        """Mutable copies of vectors, for loops; LLVM keeps them in registers."""
        slots = [cgutils.alloca_once(self.builder, _VECTOR) for _ in values]
        for slot, value in zip(slots, values, strict=True):
            self.builder.store(value, slot)
        return slots

    def increase(self, slot, a, b=None):
        """Add ``a``, or ``a * b``, to a variable."""
        old = self.builder.load(slot)
        self.builder.store(self.add(old, a) if b is None else self.fma(a, b, old), slot)

    def read(self, slots):
        return [self.builder.load(slot) for slot in slots]


def _groups(hidden, most=GROUP):
    """Split the hidden units into runs of ``most``, by default as many as the registers hold."""
    parts = -(-hidden // most)
    edges = [hidden * p // parts for p in range(parts + 1)]
    return list(pairwise(edges))


_ARRAY = types.Array(types.float64, 1, "C")


@intrinsic
def forward(typing, units, x, x_at, step, d, own, weight, weight_at, chunks, scaled, scaled_at,
            theta, heads_at, s, r, total):  # fmt: skip
    """Hidden units ``s`` and weighted residuals ``r`` of one variable in a block of rows.

    ``x[x_at:]`` is the block, ``step`` from a chunk to the next, ``own`` the variable; ``scaled``
    is ``theta`` times ``UNIT_SCALE``; ``theta[heads_at:]`` the output weights and bias. The squares
    of the residuals are added to ``total[0]``.
    """

    def generate(context, builder, signature, args):
        em = _Emitter(context, builder, signature, args)
        (_, x, x_at, step, d, own, weight, weight_at, chunks, scaled, scaled_at, theta, heads_at, s,
         r, total) = em.args  # fmt: skip
        b, hidden = builder, units.count
        squares = em.variables([em.constant(0.0)] * 2)
        bias_at = b.add(scaled_at, b.mul(d, _INDEX(hidden)))
        with cgutils.for_range(b, chunks) as chunk:
            pointer = em.at(x, x_at, b.mul(chunk.index, step))
            s_at = em.at(s, b.mul(chunk.index, _INDEX(hidden * CHUNK)))
            fits = [em.broadcast(theta, heads_at, hidden)] * 2
            for start, stop in _groups(hidden):
                size = stop - start
                biases = [em.broadcast(scaled, bias_at, h) for h in range(start, stop)]
                slots = em.variables(biases + biases)
                with cgutils.for_range(b, d) as loop:
                    column = em.at(pointer, b.mul(loop.index, _INDEX(CHUNK)))
                    values = [em.load(column, v * LANES) for v in range(2)]
                    row = em.at(scaled, scaled_at, b.mul(loop.index, _INDEX(hidden)), start)
                    for h in range(size):
                        factor = em.broadcast(row, h)
                        for v in range(2):
                            em.increase(slots[v * size + h], factor, values[v])
                sums = em.read(slots)
                for first in range(0, 2 * size, GROUP):
                    places = [divmod(q, 2) for q in range(first, min(first + GROUP, 2 * size))]
                    values = em.sigmoids([sums[v * size + h] for h, v in places])
                    for (h, v), unit in zip(places, values, strict=True):
                        em.store(unit, s_at, (start + h) * CHUNK + v * LANES)
                        fits[v] = em.fma(em.broadcast(theta, heads_at, start + h), unit, fits[v])
            target = em.at(pointer, b.mul(own, _INDEX(CHUNK)))
            row_at = b.mul(chunk.index, _INDEX(CHUNK))
            for v in range(2):
                error = em.sub(fits[v], em.load(target, v * LANES))
                error = em.mul(error, em.load(weight, weight_at, row_at, v * LANES))
                em.store(error, r, row_at, v * LANES)
                em.increase(squares[v], error, error)
        em.add_sums([em.add(*em.read(squares))], total, 0)
        return context.get_dummy_value()

    n = types.intp
    return types.void(units, _ARRAY, n, n, n, n, _ARRAY, n, n, _ARRAY, n, _ARRAY, n, _ARRAY,
                      _ARRAY, _ARRAY), generate  # fmt: skip


@intrinsic
def backward_heads(typing, units, s, r, chunks, out, out_at):
    """Replace the hidden units ``s`` by r s (1 - s), r the residuals.

    Their sums over rows, those of r s and that of r are added to ``out[out_at:]``.
    """

    def generate(context, builder, signature, args):
        em = _Emitter(context, builder, signature, args)
        _, s, r, chunks, out, out_at = em.args
        b, hidden = builder, units.count
        for start, stop in _groups(hidden):
            size = stop - start
            by_input = em.variables([em.constant(0.0)] * size)
            by_weight = em.variables([em.constant(0.0)] * size)
            by_bias = em.variables([em.constant(0.0)])
            with cgutils.for_range(b, chunks) as loop:
                row_at = b.mul(loop.index, _INDEX(CHUNK))
                s_at = em.at(s, b.mul(loop.index, _INDEX(hidden * CHUNK)), start * CHUNK)
                for v in range(2):
                    error = em.load(r, row_at, v * LANES)
                    if start == 0:
                        em.increase(by_bias[0], error)
                    for h in range(size):
                        unit = em.load(s_at, h * CHUNK + v * LANES)
                        product = em.mul(error, unit)
                        em.increase(by_weight[h], product)
                        slope = em.sub(product, em.mul(product, unit))
                        em.increase(by_input[h], slope)
                        em.store(slope, s_at, h * CHUNK + v * LANES)
            em.add_sums(em.read(by_input), out, out_at, start)
            em.add_sums(em.read(by_weight), out, out_at, hidden + start)
            if start == 0:
                em.add_sums(em.read(by_bias), out, out_at, 2 * hidden)
        return context.get_dummy_value()

    n = types.intp
    return types.void(units, _ARRAY, _ARRAY, n, _ARRAY, n), generate


@intrinsic
def backward_inputs(typing, units, x, x_at, step, first, pairs, s, chunks, out, out_at):
    """Add sums over rows of inputs times ``s`` to ``out[out_at + variable * h + unit]``.

    For variable ``first``, and the next one if ``pairs`` has length 2.
    """

    def generate(context, builder, signature, args):
        em = _Emitter(context, builder, signature, args)
        _, x, x_at, step, first, _, s, chunks, out, out_at = em.args
        b, hidden, count = builder, units.count, pairs.count
        x = em.at(x, x_at, b.mul(first, _INDEX(CHUNK)))
        out = em.at(out, out_at, b.mul(first, _INDEX(hidden)))
        totals = [[None] * hidden for _ in range(count)]
        for start, stop in _groups(hidden):
            size = stop - start
            slots = em.variables([em.constant(0.0)] * (count * size))
            with cgutils.for_range(b, chunks) as loop:
                s_at = em.at(s, b.mul(loop.index, _INDEX(hidden * CHUNK)), start * CHUNK)
                column = em.at(x, b.mul(loop.index, step))
                for v in range(2):
                    values = [em.load(column, k * CHUNK + v * LANES) for k in range(count)]
                    for h in range(size):
                        slope = em.load(s_at, h * CHUNK + v * LANES)
                        for k in range(count):
                            em.increase(slots[k * size + h], values[k], slope)
            sums = em.read(slots)
            for k in range(count):
                totals[k][start:stop] = sums[k * size : (k + 1) * size]
        em.add_sums([value for row in totals for value in row], out)
        return context.get_dummy_value()

    n = types.intp
    return types.void(units, _ARRAY, n, n, n, pairs, _ARRAY, n, _ARRAY, n), generate


class Data(NamedTuple):
    """The data as the kernels read them: see :func:`panel`."""

    x: np.ndarray
    """float64, chunks x stride x CHUNK, flat"""
    weight: np.ndarray
    """float64 (rows padded to whole chunks,): 1, and 0 for padding"""
    n: int
    d: int


def panel(X: np.ndarray) -> Data:
    """Copy the rows of X (n, d) into the kernels' layout, as float64."""
    n, d = X.shape
    chunks = -(-n // CHUNK)
    # Odd: chunks a power of two apart would share few places of the cache.
    x = np.zeros((chunks, d | 1, CHUNK))
    padded = np.zeros((chunks * CHUNK, d))
    padded[:n] = X
    x[:, :d] = padded.reshape(chunks, CHUNK, d).transpose(0, 2, 1)
    weight = np.zeros(chunks * CHUNK)
    weight[:n] = 1
    return Data(x.ravel(), weight, n, d)


@_jit
def squares_gradient(units, data, theta, scaled, s, r, total, gradient):
    """Sum of squared residuals into ``total[0]``, half its gradient by ``theta`` into ``gradient``.

    ``scaled``, ``s``, ``r`` and ``total`` (``LANES``) are working memory.
    """
    hidden, d = len(units), data.d
    step = (d | 1) * CHUNK
    chunks = data.weight.shape[0] // CHUNK
    record = d * hidden + 2 * hidden + 1
    for q in range(theta.shape[0]):
        scaled[q] = UNIT_SCALE * theta[q]
    gradient[:] = 0
    total[:] = 0
    for start in range(0, chunks, BLOCK):
        count = min(BLOCK, chunks - start)
        x_at = start * step
        for j in range(d):
            at = j * record
            heads = at + (d + 1) * hidden
            forward(units, data.x, x_at, step, d, j, data.weight, start * CHUNK, count, scaled, at,
                    theta, heads, s, r, total)  # fmt: skip
            backward_heads(units, s, r, count, gradient, at + d * hidden)
            for i in range(0, d - 1, 2):
                backward_inputs(units, data.x, x_at, step, i, (0, 0), s, count, gradient, at)
            if d % 2:
                backward_inputs(units, data.x, x_at, step, d - 1, (0,), s, count, gradient, at)
    # Up to here without the output weight, which is the same for all rows.
    for j in range(d):
        at = j * record
        heads = at + (d + 1) * hidden
        for i in range(d + 1):
            for u in range(hidden):
                gradient[at + i * hidden + u] *= theta[heads + u]


@_jit
def log_det_inverse(M, inverse):
    """Compute log |det M| and M's inverse: Gauss-Jordan with row pivoting; M is overwritten.

    Minus infinity, and no inverse, if a pivot is zero.
    """
    d = M.shape[0]
    inverse[:] = 0
    for i in range(d):
        inverse[i, i] = 1
    log_det = 0.0
    for k in range(d):
        pivot = k
        for i in range(k + 1, d):
            if abs(M[i, k]) > abs(M[pivot, k]):
                pivot = i
        if pivot != k:
            for c in range(d):
                M[k, c], M[pivot, c] = M[pivot, c], M[k, c]
                inverse[k, c], inverse[pivot, c] = inverse[pivot, c], inverse[k, c]
        value = M[k, k]
        if value == 0:
            return -np.inf
        log_det += np.log(abs(value))
        for c in range(d):
            M[k, c] /= value
            inverse[k, c] /= value
        for i in range(d):
            factor = M[i, k]
            if i != k and factor != 0:
                for c in range(k, d):
                    M[i, c] -= factor * M[k, c]
                for c in range(d):
                    inverse[i, c] -= factor * inverse[k, c]
    return log_det


class State(NamedTuple):
    """Parameters, Adam's moments and working memory of :func:`descend`."""

    theta: np.ndarray
    first: np.ndarray
    second: np.ndarray
    gradient: np.ndarray
    scaled: np.ndarray
    s: np.ndarray
    r: np.ndarray
    total: np.ndarray
    M: np.ndarray
    inverse: np.ndarray


def new_state(theta: np.ndarray, d: int, hidden: int) -> State:
    """Adam's moments at zero for a copy of ``theta``."""
    zeros = (np.zeros_like(theta) for _ in range(4))
    s, r = np.zeros(BLOCK * CHUNK * hidden), np.zeros(BLOCK * CHUNK)
    return State(theta.copy(), *zeros, s, r, np.zeros(LANES), np.empty((d, d)), np.empty((d, d)))


@_jit
def descend(units, data, state, done, steps, rate, mu, lambda_1, lambda_2, s):
    """``steps`` Adam steps after the first ``done``, while h is finite and not negative.

    Returns
    -------
    taken : int
        Fewer than ``steps`` if h was negative or not finite before the next one.
    objective, h : float
        At the parameters before the last step (or the one that was not taken).
    """
    hidden, d = len(units), data.d
    record = d * hidden + 2 * hidden + 1
    theta, gradient = state.theta, state.gradient
    objective = np.inf
    for k in range(steps):
        absolute = 0.0
        for j in range(d):
            for i in range(d):
                square = 0.0
                for q in range(j * record + i * hidden, j * record + (i + 1) * hidden):
                    square += theta[q] * theta[q]
                    absolute += abs(theta[q])
                state.M[i, j] = -square
            state.M[j, j] += s
        h = d * np.log(s) - log_det_inverse(state.M, state.inverse)
        if not (0 <= h < np.inf):
            return k, objective, h
        squares_gradient(units, data, theta, state.scaled, state.s, state.r, state.total, gradient)
        squares = state.total[0]
        objective = mu * (0.5 * d * np.log(squares / data.n) + lambda_1 * absolute) + h
        t = done + k + 1
        step = -rate / (1.0 - 0.99**t)
        root = np.sqrt(1.0 - 0.999**t)
        by_squares, shrink, decay = mu * d / squares, mu * lambda_1, mu * lambda_2
        for j in range(d):
            at = j * record
            for q in range(at, at + record):
                gradient[q] = by_squares * gradient[q] + decay * theta[q]
            for i in range(d):
                slope = 2 * state.inverse[j, i]
                for q in range(at + i * hidden, at + (i + 1) * hidden):
                    gradient[q] += shrink * np.sign(theta[q]) + slope * theta[q]
        for q in range(theta.shape[0]):
            g = gradient[q]
            state.first[q] += 0.01 * (g - state.first[q])
            state.second[q] = 0.999 * state.second[q] + 0.001 * g * g
            theta[q] += step * state.first[q] / (np.sqrt(state.second[q]) / root + 1e-8)
    return steps, objective, h
