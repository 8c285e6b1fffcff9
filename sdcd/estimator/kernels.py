"""Compiled kernels of :mod:`sdcd.estimator.engine_numba`.

Layout
------
The rows of a batch are handled in *chunks* of ``CHUNK`` = 2 vectors of ``LANES`` float32. They are
copied into a *panel*, ``panel[chunk * stride + variable * step + lane]``: neighbours in memory are
the same variable in different rows. A batch is padded to whole chunks with rows that have zero
weight in the loss. Hidden units are laid out likewise, ``s[(chunk * h + unit) * CHUNK + lane]``,
and the heads, ``g[(chunk * 2 + head) * CHUNK + lane]``.

A target with K candidate parents keeps its parameters in one *record* of ``theta``, and Adam's
moments and the gradient in records of the same shape: input weights (K, h), bias (h), ``u`` (h),
``v`` (h), ``c``, ``e``, then zeros up to a multiple of ``PAD``. ``heads_at`` is where u starts.

A step on one target: :func:`forward_chunk` (its matrix product and sigmoids), then
:func:`likelihood_gradient`, :func:`heads_backward`, :func:`weight_gradient` (the other matrix
product) and :func:`adam`, while the hidden units and the target's parents are in the first-level
cache.

These functions (``intrinsic``) are written in LLVM's vector instructions and keep up to two dozen
sums in registers, which compilers do not find from scalar loops. The number of hidden units is
passed as the length of a tuple, ``units``, so that it is known when they are compiled. Indices read
from memory are unsigned, because numba checks signed ones for being negative. Functions called for
every target take numbers and arrays rather than slices, which numba would count references to.
Everything compiled is in this one file because numba's cache on disk notices changes of no other.
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
    """Float32 lanes of a vector register, and how many hidden units fill the registers."""
    # What numba compiles for: NUMBA_CPU_NAME and NUMBA_CPU_FEATURES may differ from the machine.
    _, _, features = cpu_target.target_context.codegen().magic_tuple()
    features = features.split(",")
    if "+avx512f" in features:
        return 16, 10
    if "+avx" in features:
        return 8, 5
    return 4, 10 if "+neon" in features else 5


LANES, GROUP = _vector_shape()
_HAS_ESTIMATES = LANES == 16
CHUNK = 2 * LANES
PAD = 16

_FLOAT = ir.FloatType()
_INT = ir.IntType(32)
_INDEX = ir.IntType(64)
_VECTOR = ir.VectorType(_FLOAT, LANES)
_INT_VECTOR = ir.VectorType(_INT, LANES)

UNIT_SCALE = -1 / np.log(2.0)
"""The sigmoid of x is 1 / (1 + 2^(UNIT_SCALE * x))."""

_EXP2 = (0.6931469775948149, 0.24022242078915004, 0.05550733746933345, 0.009671513054117016,
         0.0013264727272077359)  # fmt: skip
"""2^r = 1 + sum_k _EXP2[k] r^(k + 1) for |r| <= 1/2, relative error 9e-8."""
_LOG = (0.6666641628314427, 0.4002152739878755, 0.28001802430972594, 0.28012001877308196)
"""log((1 + s) / (1 - s)) = s (2 + s^2 sum_k _LOG[k] s^(2 k)) for s^2 <= 1/9, rel. error 5e-9."""


def _compiled(*fastmath):
    """Decorator: compile without the interpreter lock."""
    return compiled(nogil=True, error_model="numpy", fastmath=set(fastmath))


# Reordering sums would undo the rounding in _Emitter.exp2.
_jit = _compiled("contract")
_jit_sums = _compiled("contract", "reassoc", "nsz")


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

    def load(self, pointer, *offsets, kind=_VECTOR):
        pointer = self.builder.bitcast(self.at(pointer, *offsets), kind.as_pointer())
        return self.builder.load(pointer, align=4)

    def store(self, value, pointer, *offsets):
        pointer = self.builder.bitcast(self.at(pointer, *offsets), value.type.as_pointer())
        self.builder.store(value, pointer, align=4)

    def splat(self, scalar, lanes=LANES):
        kind = ir.VectorType(scalar.type, lanes)
        one = self.builder.insert_element(ir.Constant(kind, ir.Undefined), scalar, _INT(0))
        return self.shuffle(one, one, [0] * lanes)

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

    def add(self, a, b):
        return self.builder.fadd(a, b)

    def sub(self, a, b):
        return self.builder.fsub(a, b)

    def mul(self, a, b):
        return self.builder.fmul(a, b)

    def div(self, a, b):
        return self.builder.fdiv(a, b)

    def reciprocals(self, *numbers):
        """1 / x of each x within 2e-7, for x between 1e-37 and 1e37."""
        one = self.constant(1.0)
        if not _HAS_ESTIMATES:
            return [self.div(one, x) for x in numbers]
        # The processor's estimate has 14 bits; a step of Newton's method doubles them.
        kind = ir.FunctionType(_VECTOR, [_VECTOR, _VECTOR, ir.IntType(LANES)])
        function = cgutils.get_or_insert_function(
            self.builder.module, kind, "llvm.x86.avx512.rcp14.ps.512"
        )
        zero, mask = ir.Constant(_VECTOR, None), ir.IntType(LANES)(-1)
        guesses = [self.builder.call(function, [x, zero, mask]) for x in numbers]
        pairs = list(zip(numbers, guesses, strict=True))
        errors = [self.fma(self.builder.fneg(x), guess, one) for x, guess in pairs]
        return [self.fma(guess, error, guess) for guess, error in zip(guesses, errors, strict=True)]

    def reciprocal(self, x):
        """1 / x: see :meth:`reciprocals`."""
        return self.reciprocals(x)[0]

    def sqrt(self, x):
        """Square root within 2e-7, for x between 1e-37 and 1e37."""
        if not _HAS_ESTIMATES:
            return self._intrinsic("sqrt", x)
        kind = ir.FunctionType(_VECTOR, [_VECTOR, _VECTOR, ir.IntType(LANES)])
        function = cgutils.get_or_insert_function(
            self.builder.module, kind, "llvm.x86.avx512.rsqrt14.ps.512"
        )
        zero = ir.Constant(_VECTOR, None)
        estimate = self.builder.call(function, [x, zero, ir.IntType(LANES)(-1)])
        root = self.mul(x, estimate)
        half = self.mul(estimate, self.constant(0.5))
        error = self.fma(self.builder.fneg(root), root, x)
        return self.fma(error, half, root)

    def exp2(self, *numbers, above=True):
        """2^x of each x, x clamped to +-125 (to -125 if none is ``above``).

        Several at a time are computed in step, so that the processor need not look far ahead for
        work that does not wait for other work.
        """
        b = self.builder
        limits = self.constant(-125.0), self.constant(125.0)
        numbers = [self.greatest(x, limits[0]) for x in numbers]
        if above:
            numbers = [self.least(x, limits[1]) for x in numbers]
        # Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits of the sum.
        shifter = self.constant(12582912.0)
        shifted = [self.add(x, shifter) for x in numbers]
        whole = [self.sub(x, shifter) for x in shifted]
        rest = [self.sub(x, integer) for x, integer in zip(numbers, whole, strict=True)]
        power = [self.constant(_EXP2[-1])] * len(rest)
        for coefficient in (*_EXP2[-2::-1], 1.0):
            constant = self.constant(coefficient)
            power = [self.fma(p, x, constant) for p, x in zip(power, rest, strict=True)]
        exponent = [b.shl(b.bitcast(x, _INT_VECTOR), self.integers(23)) for x in shifted]
        bits = [b.add(b.bitcast(p, _INT_VECTOR), e) for p, e in zip(power, exponent, strict=True)]
        return [b.bitcast(x, _VECTOR) for x in bits]

    def log_ratio(self, *numbers):
        """log((1 + s) / (1 - s)) of each s, |s| <= 1/3."""
        squares = [self.mul(s, s) for s in numbers]
        series = [self.constant(_LOG[-1])] * len(squares)
        for coefficient in (*_LOG[-2::-1], 2.0):
            constant = self.constant(coefficient)
            series = [self.fma(p, x, constant) for p, x in zip(series, squares, strict=True)]
        return [self.mul(s, p) for s, p in zip(numbers, series, strict=True)]

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
        return self.fma(exponent, self.constant(np.log(2.0)), *self.log_ratio(s))

    def softplus(self, *numbers):
        """softplus(x) of each x, and the derivatives, the sigmoid."""
        one, two, zero = self.constant(1.0), self.constant(2.0), self.constant(0.0)
        scale = self.constant(UNIT_SCALE)
        # With small = exp(-|x|): small / (small + 2) is what log_ratio makes log1p(small) of.
        small = self.exp2(*(self.mul(self.magnitude(x), scale) for x in numbers), above=False)
        inverse = self.reciprocals(*(self.add(y, one) for y in small))
        ratio = self.reciprocals(*(self.add(y, two) for y in small))
        log1p = self.log_ratio(*(self.mul(y, r) for y, r in zip(small, ratio, strict=True)))
        values, slopes = [], []
        for x, y, i, log in zip(numbers, small, inverse, log1p, strict=True):
            positive = self.builder.fcmp_ordered(">=", x, zero)
            values.append(self.add(self.greatest(x, zero), log))
            slopes.append(self.mul(i, self.builder.select(positive, one, y)))
        return values, slopes

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

    def store_sums(self, vectors, pointer, *offsets):
        """Store the sum of the lanes of each vector."""
        for k, vector in enumerate(self.sums(vectors)):
            self.store(vector, pointer, *offsets, k * LANES)

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

    def transposed(self, vectors):
        """``LANES`` vectors as the columns of a matrix: its rows."""
        step = 1
        while step < LANES:
            low = [k if not k & step else LANES + k - step for k in range(LANES)]
            high = [k + step if not k & step else LANES + k for k in range(LANES)]
            out = list(vectors)
            for k in range(LANES):
                if not k & step:
                    a, b = vectors[k], vectors[k + step]
                    out[k], out[k + step] = self.shuffle(a, b, low), self.shuffle(a, b, high)
            vectors = out
            step *= 2
        return vectors

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


def _forward(em, hidden, x, x_at, x_step, rows, rows_at, parents, scaled, theta, heads_at, s, s_at):
    """Hidden units of one chunk, stored in ``s``; returns the two heads, a pair of vectors each."""
    b = em.builder
    bias_at = b.mul(parents, _INDEX(hidden))
    means = [em.broadcast(theta, heads_at, 2 * hidden)] * 2
    raws = [em.broadcast(theta, heads_at, 2 * hidden + 1)] * 2
    one = em.constant(1.0)
    for start, stop in _groups(hidden):
        size = stop - start
        biases = [em.broadcast(scaled, bias_at, h) for h in range(start, stop)]
        slots = em.variables(biases + biases)
        with cgutils.for_range(b, parents) as loop:
            row = b.zext(b.load(em.at(rows, rows_at, loop.index)), _INDEX)
            pointer = em.at(x, x_at, b.mul(row, x_step))
            values = [em.load(pointer, v * LANES) for v in range(2)]
            weight_at = em.at(scaled, b.mul(loop.index, _INDEX(hidden)), start)
            for h in range(size):
                weight = em.broadcast(weight_at, h)
                for v in range(2):
                    em.increase(slots[v * size + h], weight, values[v])
        sums = em.read(slots)
        for first in range(0, 2 * size, GROUP):
            places = [divmod(q, 2) for q in range(first, min(first + GROUP, 2 * size))]
            powers = em.exp2(*(sums[v * size + h] for h, v in places))
            units = em.reciprocals(*(em.add(one, power) for power in powers))
            for (h, v), unit in zip(places, units, strict=True):
                u = em.broadcast(theta, heads_at, start + h)
                w = em.broadcast(theta, heads_at, hidden + start + h)
                em.store(unit, s, s_at, (start + h) * CHUNK + v * LANES)
                means[v] = em.fma(u, unit, means[v])
                raws[v] = em.fma(w, unit, raws[v])
    return means, raws


_ARRAY = types.Array(types.float32, 1, "C")
_ROWS = types.Array(types.uint32, 1, "C")


@intrinsic
def forward_chunk(typing, units, x, x_at, x_step, rows, rows_at, parents, scaled, theta, heads_at,
                  s, s_at, g, g_at):  # fmt: skip
    """Hidden units and heads of a chunk.

    ``x[x_at:]``, ``s[s_at:]`` and ``g[g_at:]`` are the chunk's part of the panel, the hidden units
    and the heads (mean and raw variance); ``scaled`` is :func:`scale_weights`' result.
    """

    def generate(context, builder, signature, args):
        em = _Emitter(context, builder, signature, args)
        *inputs, g, g_at = em.args[1:]
        means, raws = _forward(em, units.count, *inputs)
        for v in range(2):
            em.store(means[v], g, g_at, v * LANES)
            em.store(raws[v], g, g_at, CHUNK + v * LANES)
        return context.get_dummy_value()

    return types.void(
        units, _ARRAY, types.intp, types.intp, _ROWS, types.intp, types.intp, _ARRAY, _ARRAY,
        types.intp, _ARRAY, types.intp, _ARRAY, types.intp,
    ), generate  # fmt: skip


def _each_chunk(em, x, x_at, x_stride, weight, g, chunks):
    """Loop over chunks: pairs of vectors of raw variances, errors, weights; where the heads are."""
    b = em.builder
    with cgutils.for_range(b, chunks) as loop:
        own = em.at(x, x_at, b.mul(loop.index, x_stride))
        heads = em.at(g, b.mul(loop.index, _INDEX(2 * CHUNK)))
        weights = em.at(weight, b.mul(loop.index, _INDEX(CHUNK)))
        halves = (0, LANES)
        yield (
            [em.load(heads, CHUNK + half) for half in halves],
            [em.sub(em.load(heads, half), em.load(own, half)) for half in halves],
            [em.load(weights, half) for half in halves],
            heads,
        )


@intrinsic
def likelihood_gradient(typing, x, x_at, x_stride, weight, g, chunks):
    """Replace the heads in ``g`` by the derivatives of the loss by them.

    ``x[x_at + chunk * x_stride + lane]`` is the value to be explained.
    """

    def generate(context, builder, signature, args):
        em = _Emitter(context, builder, signature, args)
        one, half = em.constant(1.0), em.constant(0.5)
        for raws, errors, weights, heads in _each_chunk(em, *em.args):
            variances, slopes = em.softplus(*raws)
            precisions = em.reciprocals(*variances)
            for v in range(2):
                share = em.mul(precisions[v], weights[v])
                # 1/2 (1 - error^2 / variance) / variance
                excess = em.sub(one, em.mul(em.mul(errors[v], errors[v]), precisions[v]))
                by_variance = em.mul(em.mul(share, half), excess)
                em.store(em.mul(errors[v], share), heads, v * LANES)
                em.store(em.mul(by_variance, slopes[v]), heads, CHUNK + v * LANES)
        return context.get_dummy_value()

    return types.void(_ARRAY, types.intp, types.intp, _ARRAY, _ARRAY, types.intp), generate


@intrinsic
def likelihood_loss(typing, x, x_at, x_stride, weight, g, chunks):
    """Sum over rows of the weighted negative log density; arguments as likelihood_gradient's."""

    def generate(context, builder, signature, args):
        em = _Emitter(context, builder, signature, args)
        total = em.variables([em.constant(0.0)])
        for raws, errors, weights, _ in _each_chunk(em, *em.args):
            variances, _ = em.softplus(*raws)
            for variance, error, share in zip(variances, errors, weights, strict=True):
                square = em.div(em.mul(error, error), variance)
                loss = em.add(em.add(em.log(variance), em.constant(np.log(2 * np.pi))), square)
                em.increase(total[0], loss, em.mul(share, em.constant(0.5)))
        (result,) = em.sums(em.read(total))
        return builder.extract_element(result, _INT(0))

    return types.float32(_ARRAY, types.intp, types.intp, _ARRAY, _ARRAY, types.intp), generate


@intrinsic
def heads_backward(typing, units, s, g, chunks, theta, heads_at, out, out_at):
    """Turn hidden units into the derivative of the loss by their inputs, in place.

    ``theta[heads_at:]`` is u, v; ``out[out_at:]`` receives the gradient of b, u, v, c, e.
    """

    def generate(context, builder, signature, args):
        em = _Emitter(context, builder, signature, args)
        _, s, g, chunks, theta, heads_at, out, out_at = em.args
        b, hidden = builder, units.count
        totals = [None] * (3 * hidden + 2)
        # Three sums per unit: half as many units fit the registers.
        for start, stop in _groups(hidden, GROUP // 2):
            where = [part * hidden + h for h in range(start, stop) for part in range(3)]
            where += [3 * hidden, 3 * hidden + 1] if start == 0 else []
            slots = dict(zip(where, em.variables([em.constant(0.0)] * len(where)), strict=True))
            with cgutils.for_range(b, chunks) as loop:
                g_at = b.mul(loop.index, _INDEX(2 * CHUNK))
                s_at = b.mul(loop.index, _INDEX(hidden * CHUNK))
                for v in range(2):
                    by_mean = em.load(g, g_at, v * LANES)
                    by_raw = em.load(g, g_at, CHUNK + v * LANES)
                    if start == 0:
                        em.increase(slots[3 * hidden], by_mean)
                        em.increase(slots[3 * hidden + 1], by_raw)
                    for h in range(start, stop):
                        at = h * CHUNK + v * LANES
                        unit = em.load(s, s_at, at)
                        em.increase(slots[hidden + h], by_mean, unit)
                        em.increase(slots[2 * hidden + h], by_raw, unit)
                        u = em.broadcast(theta, heads_at, h)
                        w = em.broadcast(theta, heads_at, hidden + h)
                        by_unit = em.fma(by_raw, w, em.mul(by_mean, u))
                        by_input = em.mul(by_unit, em.sub(unit, em.mul(unit, unit)))
                        em.increase(slots[h], by_input)
                        em.store(by_input, s, s_at, at)
            for place, slot in slots.items():
                totals[place] = b.load(slot)
        em.store_sums(totals, out, out_at)
        return context.get_dummy_value()

    return types.void(units, _ARRAY, _ARRAY, types.intp, _ARRAY, types.intp, _ARRAY,
                      types.intp), generate  # fmt: skip


@intrinsic
def weight_gradient(typing, units, x, x_stride, x_step, rows, rows_at, pairs, s, chunks, out,
                    out_at):  # fmt: skip
    """Gradient of the input weights of one parent, or of two (``pairs`` of length 2).

    ``out[out_at + r * h + k] = sum over rows of x[:, rows[rows_at + r]] * s[:, k]``.
    """

    def generate(context, builder, signature, args):
        em = _Emitter(context, builder, signature, args)
        _, x, x_stride, x_step, rows, rows_at, _, s, chunks, out, out_at = em.args
        b, hidden, count = builder, units.count, pairs.count
        parents = []
        for r in range(count):
            row = b.zext(b.load(em.at(rows, rows_at, r)), _INDEX)
            parents.append(em.at(x, b.mul(row, x_step)))
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
                            em.increase(slots[r * size + h], values[r], unit)
            sums = em.read(slots)
            for r in range(count):
                totals[r][start:stop] = sums[r * size : (r + 1) * size]
        em.store_sums([total for row in totals for total in row], out, out_at)
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
            # Far below 1e-8 squared, and not zero.
            s = em.greatest(s, em.constant(1e-30))
            below = em.reciprocal(em.fma(em.sqrt(s), root, em.constant(1e-8)))
            em.store(em.sub(w, em.mul(em.mul(rate, m), below)), theta, here)
        return context.get_dummy_value()

    numbers = (types.intp,) * 3 + (types.float32,) * 4
    return types.void(_ARRAY, _ARRAY, _ARRAY, _ARRAY, *numbers), generate


@intrinsic
def scale_weights(typing, theta, at, size, scaled):
    """``scaled[:size] = UNIT_SCALE * theta[at : at + size]``, rounded up to vectors."""

    def generate(context, builder, signature, args):
        em = _Emitter(context, builder, signature, args)
        theta, at, size, scaled = em.args
        b = builder
        vectors = b.udiv(b.add(size, _INDEX(LANES - 1)), _INDEX(LANES))
        with cgutils.for_range(b, vectors) as loop:
            q = b.mul(loop.index, _INDEX(LANES))
            em.store(em.mul(em.load(theta, at, q), em.constant(UNIT_SCALE)), scaled, q)
        return context.get_dummy_value()

    return types.void(_ARRAY, types.intp, types.intp, _ARRAY), generate


@intrinsic
def penalty_gradient(typing, units, theta, at, parents, slope, out):
    """``out[e * h + k] += slope[e] * W[e, k]`` for the ``parents`` rows of W at ``theta[at]``."""

    def generate(context, builder, signature, args):
        em = _Emitter(context, builder, signature, args)
        _, theta, at, parents, slope, out = em.args
        b, kind = builder, ir.VectorType(_FLOAT, units.count)
        with cgutils.for_range(b, parents) as loop:
            q = b.mul(loop.index, _INDEX(units.count))
            factor = em.splat(b.load(em.at(slope, loop.index)), units.count)
            product = b.fmul(factor, em.load(theta, at, q, kind=kind))
            em.store(b.fadd(em.load(out, q, kind=kind), product), out, q)
        return context.get_dummy_value()

    return types.void(units, _ARRAY, types.intp, types.intp, _ARRAY, _ARRAY), generate


@intrinsic
def edge_norms(typing, units, theta, at, parents, out, out_at):
    """``out[out_at + e]`` = norm of row e of the ``parents`` rows of W at ``theta[at]``."""

    def generate(context, builder, signature, args):
        em = _Emitter(context, builder, signature, args)
        _, theta, at, parents, out, out_at = em.args
        b, kind = builder, ir.VectorType(_FLOAT, units.count)
        total = cgutils.get_or_insert_function(
            b.module, ir.FunctionType(_FLOAT, [_FLOAT, kind]),
            f"llvm.vector.reduce.fadd.v{units.count}f32",
        )  # fmt: skip
        root = cgutils.get_or_insert_function(
            b.module, ir.FunctionType(_FLOAT, [_FLOAT]), "llvm.sqrt.f32"
        )
        with cgutils.for_range(b, parents) as loop:
            row = em.load(theta, at, b.mul(loop.index, _INDEX(units.count)), kind=kind)
            square = b.call(total, [_FLOAT(0.0), b.fmul(row, row)], fastmath=("reassoc",))
            b.store(b.call(root, [square]), em.at(out, out_at, loop.index))
        return context.get_dummy_value()

    return types.void(units, _ARRAY, types.intp, types.intp, _ARRAY, types.intp), generate


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


@intrinsic
def gather_chunk(typing, values, width, order, order_at, panel, panel_at, step):
    """Copy ``CHUNK`` rows of ``values``, each ``width`` numbers, into a panel's chunk.

    The rows are ``order[order_at:]``; ``width`` is a multiple of ``LANES``.
    """

    def generate(context, builder, signature, args):
        em = _Emitter(context, builder, signature, args)
        values, width, order, order_at, panel, panel_at, step = em.args
        b = builder
        with cgutils.for_range(b, b.udiv(width, _INDEX(LANES))) as loop:
            column = b.mul(loop.index, _INDEX(LANES))
            at = b.add(panel_at, b.mul(column, step))
            for v in range(2):
                vectors = []
                for k in range(LANES):
                    row = b.zext(b.load(em.at(order, order_at, v * LANES + k)), _INDEX)
                    vectors.append(em.load(values, b.add(b.mul(row, width), column)))
                for k, vector in enumerate(em.transposed(vectors)):
                    em.store(vector, panel, at, b.mul(step, _INDEX(k)), v * LANES)
        return context.get_dummy_value()

    return types.void(
        _ARRAY, types.intp, _ROWS, types.intp, _ARRAY, types.intp, types.intp
    ), generate


@intrinsic
def dense_products(typing, left_matrix, right_matrix, d, stride, left, right, new_left, new_right,
                   left_shift, right_shift, sums):  # fmt: skip
    """``new = vector @ matrix + shift`` for both, d x d, with ``stride`` numbers a row.

    ``sums`` receives the sums of both new vectors, then of their squares.
    """

    def generate(context, builder, signature, args):
        em = _Emitter(context, builder, signature, args)
        matrices, (d, stride), vectors, outputs = (
            em.args[0:2], em.args[2:4], em.args[4:6], em.args[6:8],
        )  # fmt: skip
        shifts = [em.splat(shift) for shift in em.args[8:10]]
        b = builder
        zero = em.constant(0.0)
        totals = em.variables([zero] * 4)
        lane = ir.Constant(_INT_VECTOR, list(range(LANES)))
        with cgutils.for_range(b, b.udiv(stride, _INDEX(CHUNK))) as block:
            at = b.mul(block.index, _INDEX(CHUNK))
            slots = [em.variables([shift] * 2) for shift in shifts]
            with cgutils.for_range(b, d) as loop:
                row_at = b.add(b.mul(loop.index, stride), at)
                for matrix, vector, pair in zip(matrices, vectors, slots, strict=True):
                    value = em.broadcast(vector, loop.index)
                    for v, slot in enumerate(pair):
                        em.increase(slot, value, em.load(matrix, row_at, v * LANES))
            for side, output in enumerate(outputs):
                for v, slot in enumerate(slots[side]):
                    rest = b.trunc(b.sub(d, b.add(at, _INDEX(v * LANES))), _INT)
                    inside = b.icmp_signed("<", lane, em.splat(rest))
                    value = b.select(inside, b.load(slot), zero)
                    em.store(value, output, at, v * LANES)
                    em.increase(totals[side], value)
                    em.increase(totals[2 + side], value, value)
        em.store_sums(em.read(totals), em.args[10], 0)
        return context.get_dummy_value()

    return types.void(_ARRAY, _ARRAY, types.intp, types.intp, _ARRAY, _ARRAY, _ARRAY, _ARRAY,
                      types.float32, types.float32, _ARRAY), generate  # fmt: skip


class Data(NamedTuple):
    """Rows of values: training or validation."""

    values: np.ndarray
    """float32, n + 1 rows of ``width`` numbers: the d values, then zeros. The last row is zero:
    it pads batches to whole chunks."""
    width: int
    """A multiple of ``LANES``."""
    keep: np.ndarray
    """uint8 (t, n + 1): 0 where a row intervenes on the target and for padding; (0, 0): no such
    row."""
    batch_size: int


class Targets(NamedTuple):
    """Which targets there are, their candidate parents, and where their records lie."""

    variables: np.ndarray
    """int64 (t,): the variable that target k is."""
    indptr: np.ndarray
    """int64 (t + 1,): target k's edges are ``indptr[k]`` to ``indptr[k + 1] - 1``."""
    parents: np.ndarray
    """uint32 (E,): the parent of each edge."""
    offsets: np.ndarray
    """int64 (t + 1,): target k's record starts at ``offsets[k]``."""


class Parameters(NamedTuple):
    """What is optimised, with Adam's moments: records."""

    theta: np.ndarray
    first: np.ndarray
    second: np.ndarray


class Power(NamedTuple):
    """The power iteration's matrices, vectors and working memory, each thread its own."""

    penalised: bool
    """Whether there is a penalty; if not, nothing of this is used."""
    iterations: int
    dense: bool
    matrices: tuple
    """float32, two: A in rows of as many numbers as the vectors have, and its transpose; if
    dense."""
    forms: tuple
    """Two, of A's transpose and of A: see :func:`sliced_product`; if not dense."""
    values: tuple
    """float32, two: the numbers of these forms."""
    vectors: tuple
    """float32, two: left and right."""
    spare: tuple
    """float32, two: as long as the vectors."""
    sums: np.ndarray
    """float32 (4,)"""


class Work(NamedTuple):
    """A thread's working memory; float32 if nothing else is said."""

    order: np.ndarray
    """uint32 (rows of a batch, padded)"""
    panel: np.ndarray
    """A batch"""
    stride: int
    """From a chunk of the panel to the next"""
    step: int
    """From a variable to the next within a chunk of the panel"""
    weight: np.ndarray
    """(rows,): 1 / (rows of the batch), 0 for padding"""
    kept_weight: np.ndarray
    """(rows,): the same, times a target's keep mask"""
    scaled: np.ndarray
    """Input weights and bias of a target times ``UNIT_SCALE``"""
    s: np.ndarray
    """(rows, h): hidden units, then the derivative by their inputs"""
    g: np.ndarray
    """(2, rows): derivatives by the heads"""
    gradient: np.ndarray
    """One record"""
    slope: np.ndarray
    """Per candidate parent of a target, derivative of the penalty by A, over A"""


@_jit
def load_batch(data, order, work):
    """Copy the rows ``order`` into ``work.panel``; return the number of chunks."""
    rows = order.shape[0]
    chunks = (rows + CHUNK - 1) // CHUNK
    inverse = np.float32(1.0 / rows)
    for q in range(rows):
        work.order[q] = order[q]
        work.weight[q] = inverse
    for q in range(rows, chunks * CHUNK):
        work.order[q] = data.values.shape[0] // data.width - 1
        work.weight[q] = 0
    for c in range(chunks):
        gather_chunk(data.values, data.width, work.order, c * CHUNK, work.panel,
                     c * work.stride, work.step)  # fmt: skip
    return chunks


@_jit
def sliced_product(form, values, x, shift, y):
    """``y = A x + shift`` with A in slices of 8 rows of similar length, padded to the same length.

    Number k of row r of slice s is ``values[8 * (start[s] + k) + r]``, its column the same place of
    ``index``; ``source`` says which edge's it is, ``rows[8 * s + r]`` which row of A that is. Rows
    and columns that pad are d, edges that pad are E.
    """
    start, _, index, rows = form
    for s in range(start.shape[0] - 1):
        y0 = y1 = y2 = y3 = y4 = y5 = y6 = y7 = shift
        for k in range(8 * start[s], 8 * start[s + 1], 8):
            y0 += values[k] * x[index[k]]
            y1 += values[k + 1] * x[index[k + 1]]
            y2 += values[k + 2] * x[index[k + 2]]
            y3 += values[k + 3] * x[index[k + 3]]
            y4 += values[k + 4] * x[index[k + 4]]
            y5 += values[k + 5] * x[index[k + 5]]
            y6 += values[k + 6] * x[index[k + 6]]
            y7 += values[k + 7] * x[index[k + 7]]
        y[rows[8 * s]] = y0
        y[rows[8 * s + 1]] = y1
        y[rows[8 * s + 2]] = y2
        y[rows[8 * s + 3]] = y3
        y[rows[8 * s + 4]] = y4
        y[rows[8 * s + 5]] = y5
        y[rows[8 * s + 6]] = y6
        y[rows[8 * s + 7]] = y7


@_jit
def set_matrix(power, targets, A):
    """Put the weights of all edges where :func:`power_iteration` wants them."""
    if power.dense:
        stride = power.spare[0].shape[0]
        for k in range(targets.variables.shape[0]):
            j = targets.variables[k]
            for e in range(targets.indptr[k], targets.indptr[k + 1]):
                i = targets.parents[e]
                power.matrices[0][i * stride + j] = A[e]
                power.matrices[1][j * stride + i] = A[e]
    else:
        for side in range(2):
            source, values = power.forms[side][1], power.values[side]
            for q in range(source.shape[0]):
                values[q] = A[source[q]]


@_jit_sums
def power_iteration(power, d):
    """Power iterations on A + 1e-6 and its transpose, in place on ``power.vectors``.

    Normalised at least every third time: an all-zero A shrinks the vectors 1e-6 d times a step.
    Returns left . right.
    """
    left, right = power.vectors
    new_left, new_right = power.spare
    sums = power.sums
    small = np.float32(1e-6)
    sum_left = np.float32(0.0)
    sum_right = np.float32(0.0)
    for i in range(d):
        sum_left += left[i]
        sum_right += right[i]
    for step in range(power.iterations):
        if power.dense:
            dense_products(power.matrices[0], power.matrices[1], d, left.shape[0], left, right,
                           new_left, new_right, small * sum_left, small * sum_right,
                           sums)  # fmt: skip
            sum_left, sum_right, square_left, square_right = sums[0], sums[1], sums[2], sums[3]
        else:
            sliced_product(power.forms[0], power.values[0], left, small * sum_left, new_left)
            sliced_product(power.forms[1], power.values[1], right, small * sum_right, new_right)
            sum_left = square_left = sum_right = square_right = np.float32(0.0)
            for i in range(d):
                sum_left += new_left[i]
                square_left += new_left[i] * new_left[i]
                sum_right += new_right[i]
                square_right += new_right[i] * new_right[i]
        left, new_left = new_left, left
        right, new_right = new_right, right
        if step % 3 == 2 or step == power.iterations - 1:
            scale_left = np.float32(1.0) / np.sqrt(square_left)
            scale_right = np.float32(1.0) / np.sqrt(square_right)
            sum_left *= scale_left
            sum_right *= scale_right
            for i in range(left.shape[0]):
                left[i] *= scale_left
                right[i] *= scale_right
    product = np.float32(0.0)
    for i in range(d):
        product += left[i] * right[i]
    if power.iterations % 2:
        new_left[:] = left
        new_right[:] = right
    return product


@_jit
def mask_rows(keep, k, order, weight, rows, out):
    """Weights in the loss of a batch's rows for target k: ``weight`` * ``keep``."""
    for q in range(rows):
        out[q] = weight[q] * keep[k, order[q]]


@_jit
def step_targets(units, data, chunks, targets, first_target, last_target, parameters, now, later,
                 scale, power, work, alpha, decay, rate, root):  # fmt: skip
    """One optimisation step of targets first_target..last_target - 1 on the batch in ``work``.

    ``now`` are the edge weights; with a penalty, the next ones go to ``later``, and the gradient of
    gamma * h_rho is ``scale`` * left_i * right_j * W / A.
    """
    hidden = len(units)
    stride, step = work.stride, work.step
    theta, first, second = parameters
    left, right = power.vectors
    variables, indptr, rows, offsets = targets
    panel, s, g, gradient = work.panel, work.s, work.g, work.gradient
    slope, scaled = work.slope, work.scaled
    masked = data.keep.shape[0] > 0
    weight = work.kept_weight if masked else work.weight
    for k in range(first_target, last_target):
        parents = indptr[k + 1] - indptr[k]
        at = offsets[k]
        edges_at = indptr[k]
        heads_at = (parents + 1) * hidden
        own_at = variables[k] * step
        if masked:
            mask_rows(data.keep, k, work.order, work.weight, chunks * CHUNK, weight)
        scale_weights(theta, at, heads_at, scaled)
        for c in range(chunks):
            forward_chunk(units, panel, c * stride, step, rows, edges_at, parents, scaled, theta,
                          at + heads_at, s, c * hidden * CHUNK, g, 2 * c * CHUNK)  # fmt: skip
        likelihood_gradient(panel, own_at, stride, weight, g, chunks)
        heads_backward(units, s, g, chunks, theta, at + heads_at, gradient, parents * hidden)
        for r in range(0, parents - 1, 2):
            weight_gradient(units, panel, stride, step, rows, edges_at + r, (0, 0), s, chunks,
                            gradient, r * hidden)  # fmt: skip
        if parents % 2:
            last = parents - 1
            weight_gradient(units, panel, stride, step, rows, edges_at + last, (0,), s, chunks,
                            gradient, last * hidden)  # fmt: skip
        if power.penalised:
            factor = scale * right[np.uint64(variables[k])]
            for e in range(parents):
                norm = now[np.uint64(edges_at + e)]
                value = factor * left[rows[np.uint64(edges_at + e)]] / norm
                slope[e] = value if norm > 0 else np.float32(0.0)
            penalty_gradient(units, theta, at, parents, slope, gradient)
        length = offsets[k + 1] - at
        for q in range(heads_at + 2 * hidden + 2, length):
            gradient[np.uint64(q)] = 0
        adam(theta, first, second, gradient, at, parents * hidden, length, alpha, decay, rate,
             root)  # fmt: skip
        if power.penalised:
            edge_norms(units, theta, at, parents, later, edges_at)


@_jit
def epoch(units, data, order, targets, parameters, A, power, work, blocks, counter, threads, gamma,
          alpha, decay, learning_rate, step):  # fmt: skip
    """One thread's part of an epoch: see :class:`~sdcd.estimator.engine_numba.NumbaEngine`.

    Targets need each other only through the spectral penalty. Without it a block of targets, small
    enough for the cache, runs the whole epoch before the next; with it there is one block, and one
    barrier a step, after which every thread runs the power iteration for itself on the weights that
    all of them wrote in the step before (``A[step % 2]``: the next ones are written meanwhile).
    """
    if power.penalised:
        for k in range(blocks[0], blocks[-1]):
            edge_norms(units, parameters.theta, targets.offsets[k],
                       targets.indptr[k + 1] - targets.indptr[k], A[step % 2],
                       targets.indptr[k])  # fmt: skip
    arrived = 0
    for block in range(blocks.shape[0] - 1):
        t = step
        for start in range(0, order.shape[0], data.batch_size):
            now, later = A[t % 2], A[(t + 1) % 2]
            t += 1
            rate = np.float32(learning_rate / (1.0 - 0.9**t))
            root = np.float32(1.0 / np.sqrt(1.0 - 0.999**t))
            chunks = load_batch(data, order[start : start + data.batch_size], work)
            scale = np.float32(0.0)
            if power.penalised:
                if threads > 1:
                    arrived += threads
                    wait(counter, arrived)
                set_matrix(power, targets, now)
                product = power_iteration(power, targets.variables.shape[0])
                scale = gamma / (product + np.float32(1e-6))
            step_targets(units, data, chunks, targets, blocks[block], blocks[block + 1], parameters,
                         now, later, scale, power, work, alpha, decay, rate, root)  # fmt: skip


@_jit
def loss(units, data, targets, theta, work):
    """Sum over batches of ``data``'s rows, in order, of the batch mean of -score."""
    total = 0.0
    n = data.values.shape[0] // data.width - 1
    stride, step = work.stride, work.step
    weight = work.kept_weight if data.keep.shape[0] else work.weight
    for start in range(0, n, data.batch_size):
        chunks = load_batch(data, np.arange(start, min(n, start + data.batch_size)), work)
        for k in range(targets.variables.shape[0]):
            parents = targets.indptr[k + 1] - targets.indptr[k]
            at = targets.offsets[k]
            heads_at = (parents + 1) * len(units)
            own_at = targets.variables[k] * step
            if data.keep.shape[0]:
                mask_rows(data.keep, k, work.order, work.weight, chunks * CHUNK, weight)
            scale_weights(theta, at, heads_at, work.scaled)
            for c in range(chunks):
                forward_chunk(units, work.panel, c * stride, step, targets.parents,
                              targets.indptr[k], parents, work.scaled, theta, at + heads_at, work.s,
                              0, work.g, 2 * c * CHUNK)  # fmt: skip
            total += likelihood_loss(work.panel, own_at, stride, weight, work.g, chunks)
    return total


@_jit
def norms(units, targets, theta, out):
    """Norm of the weights of every edge, into ``out``."""
    for k in range(targets.variables.shape[0]):
        parents = targets.indptr[k + 1] - targets.indptr[k]
        edge_norms(units, theta, targets.offsets[k], parents, out, targets.indptr[k])


@_jit
def copy_records(units, targets, records, W, b, u, v, c, e, unpack):
    """Copy a StageState's arrays into records or, to ``unpack``, out of them; W is (E * h,)."""
    hidden = len(units)
    for k in range(targets.variables.shape[0]):
        record = records[targets.offsets[k] : targets.offsets[k + 1]]
        weights = W[targets.indptr[k] * hidden : targets.indptr[k + 1] * hidden]
        heads = record[weights.shape[0] :]
        if unpack:
            weights[:] = record[: weights.shape[0]]
            for h in range(hidden):
                b[k, h] = heads[h]
                u[k, h] = heads[hidden + h]
                v[k, h] = heads[2 * hidden + h]
            c[k], e[k] = heads[3 * hidden], heads[3 * hidden + 1]
        else:
            record[: weights.shape[0]] = weights
            for h in range(hidden):
                heads[h] = b[k, h]
                heads[hidden + h] = u[k, h]
                heads[2 * hidden + h] = v[k, h]
            heads[3 * hidden], heads[3 * hidden + 1] = c[k], e[k]
