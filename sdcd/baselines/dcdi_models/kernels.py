"""Compiled kernels of DCDI and DCD-FG.

Layout
------
Rows of data come last in every array, so that neighbours in memory are the same quantity in
different rows. A batch is copied into a *panel* (d, R), where R is its number of rows rounded up
to whole :data:`LANES`; rows that fill up are zero and have weight zero in the loss.

A network's weights of one layer are (outputs, inputs + 1): a bias is the weight of a further input
that is always one. All networks' weights lie in one vector ``theta``, layer after layer, and in it
network after network; the gradient and RMSprop's averages lie likewise.

A network's *activations* are its inputs, the hidden units of each layer and its outputs, one array
(units, R) after the other, each but the last with a further row of ones.

The matrix products, RMSprop and the sigmoidal flow are written in LLVM's vector instructions
(``intrinsic``), which keep sums in registers and, in the flow, evaluate exponentials and logarithms
of whole registers. The rest is loops over rows that compilers vectorise by themselves.

Everything compiled is in this one file because numba's cache on disk notices changes of no other.
"""

import math
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic, overload

from sdcd.compiled import compiled

LANES = 64
"""Generators of random numbers that run side by side; rows come in multiples of this."""

SLOPE = 0.01
"""Slope of the leaky ReLU for negative arguments."""

SQUEEZE = 1e-6
"""How far a sigmoidal layer's values are kept from 0 and 1, and its slopes from 0."""

VARIANCE_FLOOR = 1e-4
"""Of DCD-FG's variances."""

_OPTIONS = {"nogil": True, "error_model": "numpy"}
# Reordered, products of multipliers could leave float32's range.
_jit = compiled(**_OPTIONS, fastmath={"contract"})
# NaN and infinity keep their meaning.
_jit_sums = compiled(**_OPTIONS, fastmath={"contract", "reassoc", "nsz"})


# Vectors


def _register_bytes() -> int:
    # What numba compiles for: NUMBA_CPU_NAME and NUMBA_CPU_FEATURES may differ from the machine.
    _, _, features = cpu_target.target_context.codegen().magic_tuple()
    features = features.split(",")
    return 64 if "+avx512f" in features else 32 if "+avx" in features else 16


_BYTES = _register_bytes()
_INDEX = ir.IntType(64)

_TILES = {8: 2, 4: 4, 2: 4, 1: 4} if _BYTES == 64 else {4: 2, 2: 4, 1: 4}
"""How many registers of rows a product handles at once for so many units."""

# e^r for |r| <= log(2) / 2, and log((1 + s) / (1 - s)) / s in s^2 for s <= tan(pi / 8)^2: Chebyshev
# approximations, errors below 1e-17.
_EXP = (1.0, 1.0, 0.5000000000000019, 0.1666666666666668, 0.04166666666648666,
        0.00833333333331949, 0.0013888888952696516, 0.00019841269890340666,
        2.4801485074105115e-05, 2.7557240604663896e-06, 2.763279054211718e-07,
        2.511015364692893e-08)  # fmt: skip
_LOG = (2.0, 0.6666666666666766, 0.39999999999293767, 0.2857142876258225, 0.22222196849572817,
        0.18183642936322222, 0.1531222700310839, 0.14812856548517345)  # fmt: skip
_LOG2_HIGH = 0.693147180369123816490  # 32 bits: its product with an exponent is exact
_LOG2_LOW = 1.9082149292705877e-10


class _Emitter:
    """Vector arithmetic on an LLVM builder, in float32 or float64."""

    def __init__(self, context, builder, signature, args, real):
        self.builder = builder
        self.real = ir.FloatType() if real == types.float32 else ir.DoubleType()
        self.width = 4 if real == types.float32 else 8
        self.lanes = _BYTES // self.width
        self.vector = ir.VectorType(self.real, self.lanes)
        self.integers = ir.VectorType(ir.IntType(8 * self.width), self.lanes)
        self.args = [
            context.make_array(kind)(context, builder, value).data
            if isinstance(kind, types.Array)
            else value
            for kind, value in zip(signature.args, args, strict=True)
        ]

    def constant(self, value):
        return ir.Constant(self.vector, [float(value)] * self.lanes)

    def integer(self, value):
        return ir.Constant(self.integers, [value] * self.lanes)

    def at(self, pointer, *offsets):
        for offset in offsets:
            pointer = self.builder.gep(pointer, [_INDEX(offset) if type(offset) is int else offset])
        return pointer

    def load(self, pointer, *offsets):
        """Consecutive numbers, of the emitter's kind whatever the array's."""
        pointer = self.at(pointer, *offsets)
        real = pointer.type.pointee
        kind = ir.VectorType(real, self.lanes)
        value = self.builder.load(
            self.builder.bitcast(pointer, kind.as_pointer()), align=self._bytes(real)
        )
        return value if real == self.real else self.builder.fpext(value, self.vector)

    def store(self, value, pointer, *offsets):
        pointer = self.at(pointer, *offsets)
        real = pointer.type.pointee
        if real != self.real:
            value = self.builder.fptrunc(value, ir.VectorType(real, self.lanes))
        pointer = self.builder.bitcast(pointer, value.type.as_pointer())
        self.builder.store(value, pointer, align=self._bytes(real))

    @staticmethod
    def _bytes(real):
        return 4 if isinstance(real, ir.FloatType) else 8

    def splat(self, scalar):
        one = self.builder.insert_element(
            ir.Constant(self.vector, ir.Undefined), scalar, ir.IntType(32)(0)
        )
        return self.shuffle(one, one, [0] * self.lanes)

    def broadcast(self, pointer, *offsets):
        return self.splat(self.builder.load(self.at(pointer, *offsets)))

    def shuffle(self, a, b, lanes):
        mask = ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes)
        return self.builder.shuffle_vector(a, b, mask)

    def _intrinsic(self, name, *operands):
        kind = ir.FunctionType(self.vector, [self.vector] * len(operands))
        suffix = f"v{self.lanes}f{8 * self.width}"
        function = cgutils.get_or_insert_function(
            self.builder.module, kind, f"llvm.{name}.{suffix}"
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
        return self.builder.fdiv(a, b)

    def polynomial(self, coefficients, *numbers):
        """The polynomial at each of ``numbers``, in step, so that none waits for its own result."""
        values = [self.constant(coefficients[-1])] * len(numbers)
        for coefficient in coefficients[-2::-1]:
            constant = self.constant(coefficient)
            values = [self.fma(v, x, constant) for v, x in zip(values, numbers, strict=True)]
        return values

    def exp(self, *numbers):
        """e^x of each x, clamped to +-700; float64, relative error 3e-16. NaN gives NaN."""
        b = self.builder
        low, high = self.constant(-700.0), self.constant(700.0)
        # Not minnum: that would turn NaN into a number.
        numbers = [b.select(b.fcmp_ordered("<", x, low), low, x) for x in numbers]
        numbers = [b.select(b.fcmp_ordered(">", x, high), high, x) for x in numbers]
        # Adding 1.5 * 2^52 rounds to an integer and leaves it in the low bits of the sum.
        shifter = self.constant(6755399441055744.0)
        scale = self.constant(1 / math.log(2))
        shifted = [self.fma(x, scale, shifter) for x in numbers]
        whole = [self.sub(x, shifter) for x in shifted]
        high, low = self.constant(-_LOG2_HIGH), self.constant(-_LOG2_LOW)
        rest = [self.fma(n, high, x) for x, n in zip(numbers, whole, strict=True)]
        rest = [self.fma(n, low, x) for x, n in zip(rest, whole, strict=True)]
        power = self.polynomial(_EXP, *rest)
        exponent = [b.shl(b.bitcast(x, self.integers), self.integer(52)) for x in shifted]
        bits = [b.add(b.bitcast(p, self.integers), e) for p, e in zip(power, exponent, strict=True)]
        return [b.bitcast(x, self.vector) for x in bits]

    def log_of_ratio(self, *pairs):
        """log((a + b) / (a - b)) of each pair (b, a), abs(b) <= 0.172 a; float64."""
        quotients = [self.div(b, a) for b, a in pairs]
        series = self.polynomial(_LOG, *(self.mul(s, s) for s in quotients))
        return [self.mul(s, p) for s, p in zip(quotients, series, strict=True)]

    def log1p(self, *numbers):
        """log(1 + x) of each x in [0, 1]; float64."""
        b = self.builder
        one, two, three = self.constant(1.0), self.constant(2.0), self.constant(3.0)
        pairs, large = [], []
        for x in numbers:
            above = b.fcmp_ordered(">", x, self.constant(math.sqrt(2) - 1))
            # log(1 + x) or log((1 + x) / 2), each a ratio (a + b) / (a - b).
            top = b.select(above, self.sub(x, one), x)
            pairs.append((top, self.add(x, b.select(above, three, two))))
            large.append(b.select(above, self.constant(math.log(2)), self.constant(0.0)))
        logs = self.log_of_ratio(*pairs)
        return [self.add(x, y) for x, y in zip(logs, large, strict=True)]

    def log(self, *numbers):
        """Log of each positive normal number; float64. NaN gives NaN."""
        b = self.builder
        one = self.constant(1.0)
        pairs, exponents = [], []
        for x in numbers:
            bits = b.bitcast(x, self.integers)
            # From sqrt(1/2)'s bits on: the mantissa then lies in [sqrt(1/2), sqrt(2)).
            offset = b.sub(bits, self.integer(0x3FE6A09E667F3BCD))
            exponent = b.ashr(offset, self.integer(52))
            mantissa = b.bitcast(b.sub(bits, b.shl(exponent, self.integer(52))), self.vector)
            pairs.append((self.sub(mantissa, one), self.add(mantissa, one)))
            exponents.append(b.sitofp(exponent, self.vector))
        logs = self.log_of_ratio(*pairs)
        log2 = self.constant(math.log(2))
        logs = [self.fma(e, log2, x) for e, x in zip(exponents, logs, strict=True)]
        nan = self.constant(math.nan)
        return [
            b.select(b.fcmp_unordered("uno", x, x), nan, y)
            for x, y in zip(numbers, logs, strict=True)
        ]

    def sums(self, vectors):
        """Sum the lanes of each of ``lanes`` vectors: one vector, in order."""
        segments, width = 1, self.lanes
        while width > 1:
            half = width // 2
            starts = [side * self.lanes + s * width for side in (0, 1) for s in range(segments)]
            low = [start + k for start in starts for k in range(half)]
            high = [lane + half for lane in low]
            vectors = [
                self.add(self.shuffle(a, b, low), self.shuffle(a, b, high))
                for a, b in zip(vectors[::2], vectors[1::2], strict=True)
            ]
            segments, width = 2 * segments, half
        return vectors[0]

    def variables(self, values):
        """Mutable copies of vectors, for loops; LLVM keeps them in registers."""
        slots = [cgutils.alloca_once(self.builder, self.vector) for _ in values]
        for slot, value in zip(slots, values, strict=True):
            self.builder.store(value, slot)
        return slots

    def increase(self, slot, a, b=None):
        """Add ``a``, or ``a * b``, to a variable."""
        old = self.builder.load(slot)
        self.builder.store(self.add(old, a) if b is None else self.fma(a, b, old), slot)

    def read(self, slots):
        return [self.builder.load(slot) for slot in slots]

    def each(self, count, step):
        """Loop over 0, step, 2 step, ... below ``count``, a multiple of ``step``."""
        with cgutils.for_range(self.builder, self.builder.udiv(count, _INDEX(step))) as loop:
            yield self.builder.mul(loop.index, _INDEX(step))


# Matrix products of small networks


def _product_tile(after):
    """``y[u] = sum_k weights[u, k] x[k]`` for a tile of units u and all rows.

    ``after`` says what becomes of the sums: "nothing"; "leaky", the leaky ReLU; or "slope", times
    the leaky ReLU's derivative where units with the signs of ``sign`` came out of it.
    """

    @intrinsic
    def tile(typing, units, weights, first, by_unit, by_input, inputs, x, x_at, y, y_at, sign,
             sign_at, rows):  # fmt: skip
        def generate(context, builder, signature, args):
            em = _Emitter(context, builder, signature, args, weights.dtype)
            _, w, first, by_unit, by_input, inputs, x, x_at, y, y_at, sign, sign_at, rows = em.args
            b, size, registers = builder, units.count, _TILES[units.count]
            w_units = [em.at(w, first, b.mul(by_unit, _INDEX(u))) for u in range(size)]
            zero, one, slope = em.constant(0.0), em.constant(1.0), em.constant(SLOPE)
            for row in em.each(rows, registers * em.lanes):
                slots = em.variables([zero] * (size * registers))
                with cgutils.for_range(b, inputs) as loop:
                    source = em.at(x, x_at, b.mul(loop.index, rows), row)
                    values = [em.load(source, v * em.lanes) for v in range(registers)]
                    place = b.mul(loop.index, by_input)
                    for u in range(size):
                        weight = em.broadcast(w_units[u], place)
                        for v in range(registers):
                            em.increase(slots[u * registers + v], weight, values[v])
                for u in range(size):
                    place = b.add(b.mul(rows, _INDEX(u)), row)
                    for v in range(registers):
                        value = b.load(slots[u * registers + v])
                        if after == "leaky":
                            value = em.greatest(value, em.mul(value, slope))
                        elif after == "slope":
                            unit = em.load(sign, sign_at, place, v * em.lanes)
                            positive = b.fcmp_ordered(">", unit, zero)
                            value = em.mul(value, b.select(positive, one, slope))
                        em.store(value, y, y_at, place, v * em.lanes)
            return context.get_dummy_value()

        array, intp = types.Array(weights.dtype, 1, "C"), types.intp
        return types.void(units, array, intp, intp, intp, intp, array, intp, array, intp, array,
                          intp, intp), generate  # fmt: skip

    return tile


_linear_tile = _product_tile("nothing")
_leaky_tile = _product_tile("leaky")
_slope_tile = _product_tile("slope")


@intrinsic
def _gradient_tile(typing, outs, ins, delta, delta_at, x, x_at, rows, out, out_at, stride):
    """``out[o, k] = sum_b delta[o, b] x[k, b]`` for a tile of o and k, and all rows b."""

    def generate(context, builder, signature, args):
        em = _Emitter(context, builder, signature, args, delta.dtype)
        _, _, delta_, delta_at, x_, x_at, rows, out_, out_at, stride = em.args
        b, height, width = builder, outs.count, ins.count
        lefts = [em.at(delta_, delta_at, b.mul(rows, _INDEX(o))) for o in range(height)]
        rights = [em.at(x_, x_at, b.mul(rows, _INDEX(k))) for k in range(width)]
        zero = em.constant(0.0)
        slots = em.variables([zero] * (height * width))
        for row in em.each(rows, em.lanes):
            left = [em.load(pointer, row) for pointer in lefts]
            right = [em.load(pointer, row) for pointer in rights]
            for o in range(height):
                for k in range(width):
                    em.increase(slots[o * width + k], left[o], right[k])
        totals = em.read(slots)
        run = min(width, em.lanes)
        for start in range(0, len(totals), em.lanes):
            part = totals[start : start + em.lanes]
            sums = em.sums(part + [zero] * (em.lanes - len(part)))
            for lane in range(0, len(part), run):
                o, k = divmod(start + lane, width)
                piece = em.shuffle(sums, sums, list(range(lane, lane + run)))
                pointer = em.at(out_, out_at, b.mul(stride, _INDEX(o)), k)
                pointer = b.bitcast(pointer, piece.type.as_pointer())
                b.store(piece, pointer, align=em.width)
        return context.get_dummy_value()

    array, intp = types.Array(delta.dtype, 1, "C"), types.intp
    return types.void(outs, ins, array, intp, array, intp, intp, array, intp, intp), generate


_1, _2, _4, _8 = (0,), (0,) * 2, (0,) * 4, (0,) * 8
_WIDE = 8 in _TILES


@_jit
def _linear(weights, first, by_unit, by_input, units, inputs, x, x_at, y, y_at, rows):
    """``y = weights x``: see :func:`_product_tile`."""
    u = 0
    while _WIDE and u + 8 <= units:
        _linear_tile(_8, weights, first + u * by_unit, by_unit, by_input, inputs, x, x_at, y,
                     y_at + u * rows, x, 0, rows)  # fmt: skip
        u += 8
    while u + 4 <= units:
        _linear_tile(_4, weights, first + u * by_unit, by_unit, by_input, inputs, x, x_at, y,
                     y_at + u * rows, x, 0, rows)  # fmt: skip
        u += 4
    while u + 2 <= units:
        _linear_tile(_2, weights, first + u * by_unit, by_unit, by_input, inputs, x, x_at, y,
                     y_at + u * rows, x, 0, rows)  # fmt: skip
        u += 2
    if u < units:
        _linear_tile(_1, weights, first + u * by_unit, by_unit, by_input, inputs, x, x_at, y,
                     y_at + u * rows, x, 0, rows)  # fmt: skip


@_jit
def _leaky(weights, first, by_unit, by_input, units, inputs, x, x_at, y, y_at, rows):
    """``y = leaky ReLU(weights x)``."""
    u = 0
    while _WIDE and u + 8 <= units:
        _leaky_tile(_8, weights, first + u * by_unit, by_unit, by_input, inputs, x, x_at, y,
                    y_at + u * rows, x, 0, rows)  # fmt: skip
        u += 8
    while u + 4 <= units:
        _leaky_tile(_4, weights, first + u * by_unit, by_unit, by_input, inputs, x, x_at, y,
                    y_at + u * rows, x, 0, rows)  # fmt: skip
        u += 4
    while u < units:
        _leaky_tile(_1, weights, first + u * by_unit, by_unit, by_input, inputs, x, x_at, y,
                    y_at + u * rows, x, 0, rows)  # fmt: skip
        u += 1


@_jit
def _through_leaky(weights, first, by_unit, by_input, units, inputs, x, x_at, y, y_at, sign,
                   sign_at, rows):  # fmt: skip
    """``y = weights x``, times the leaky ReLU's derivative at units with the signs of ``sign``."""
    u = 0
    while _WIDE and u + 8 <= units:
        _slope_tile(_8, weights, first + u * by_unit, by_unit, by_input, inputs, x, x_at, y,
                    y_at + u * rows, sign, sign_at + u * rows, rows)  # fmt: skip
        u += 8
    while u + 4 <= units:
        _slope_tile(_4, weights, first + u * by_unit, by_unit, by_input, inputs, x, x_at, y,
                    y_at + u * rows, sign, sign_at + u * rows, rows)  # fmt: skip
        u += 4
    while u < units:
        _slope_tile(_1, weights, first + u * by_unit, by_unit, by_input, inputs, x, x_at, y,
                    y_at + u * rows, sign, sign_at + u * rows, rows)  # fmt: skip
        u += 1


@_jit
def _weight_gradient(delta, delta_at, outs, x, x_at, ins, rows, out, out_at):
    """``out = delta x^T``, (outs, ins)."""
    o = 0
    while o + 4 <= outs:
        k = 0
        while k + 4 <= ins:
            _gradient_tile(_4, _4, delta, delta_at + o * rows, x, x_at + k * rows, rows, out,
                           out_at + o * ins + k, ins)  # fmt: skip
            k += 4
        while k < ins:
            _gradient_tile(_4, _1, delta, delta_at + o * rows, x, x_at + k * rows, rows, out,
                           out_at + o * ins + k, ins)  # fmt: skip
            k += 1
        o += 4
    while o < outs:
        k = 0
        while k + 4 <= ins:
            _gradient_tile(_1, _4, delta, delta_at + o * rows, x, x_at + k * rows, rows, out,
                           out_at + o * ins + k, ins)  # fmt: skip
            k += 4
        while k < ins:
            _gradient_tile(_1, _1, delta, delta_at + o * rows, x, x_at + k * rows, rows, out,
                           out_at + o * ins + k, ins)  # fmt: skip
            k += 1
        o += 1


class Networks(NamedTuple):
    """Perceptrons of one shape; int64."""

    sizes: np.ndarray
    """Inputs, hidden units of each layer, outputs"""
    weights_at: np.ndarray
    """Where each layer's weights start in ``theta``"""
    units_at: np.ndarray
    """Which row of a network's activations each layer starts at; then their number"""


@_jit
def forward(networks, t, theta, units, at, rows):
    """Hidden units and outputs of network t from the inputs in ``units[at:]``."""
    sizes = networks.sizes
    last = len(sizes) - 2
    for level in range(last + 1):
        ins, outs = sizes[level] + 1, sizes[level + 1]
        first = networks.weights_at[level] + t * outs * ins
        x_at = at + networks.units_at[level] * rows
        y_at = at + networks.units_at[level + 1] * rows
        if level < last:
            _leaky(theta, first, ins, 1, outs, ins, units, x_at, units, y_at, rows)
        else:
            _linear(theta, first, ins, 1, outs, ins, units, x_at, units, y_at, rows)


@_jit
def backward(networks, t, theta, units, at, delta, rows, gradient):
    """Set the gradient of network t's weights, and of its inputs: the first rows of ``delta``.

    In ``units[at:]``, the gradient of the outputs stands in place of these.
    """
    sizes = networks.sizes
    last = len(sizes) - 2
    source, source_at = units, at + networks.units_at[last + 1] * rows
    for level in range(last, -1, -1):
        ins, outs = sizes[level] + 1, sizes[level + 1]
        first = networks.weights_at[level] + t * outs * ins
        x_at = at + networks.units_at[level] * rows
        below = networks.units_at[level] * rows
        _weight_gradient(source, source_at, outs, units, x_at, ins, rows, gradient, first)
        if level:
            _through_leaky(theta, first, 1, ins, ins - 1, outs, source, source_at, delta, below,
                           units, x_at, rows)  # fmt: skip
        else:
            _linear(theta, first, 1, ins, ins - 1, outs, source, source_at, delta, below, rows)
        source, source_at = delta, below


@_jit
def rmsprop(theta, gradient, squares, rate):
    """``v = 0.99 v + 0.01 g^2``, then ``theta -= rate * g / (sqrt(v) + 1e-8)``, in place."""
    keep, take = theta.dtype.type(0.99), theta.dtype.type(0.01)
    epsilon = theta.dtype.type(1e-8)
    for k in range(len(theta)):
        g = gradient[k]
        v = keep * squares[k] + take * g * g
        squares[k] = v
        theta[k] -= rate * g / (np.sqrt(v) + epsilon)


# Batches


class Data(NamedTuple):
    """Rows of data."""

    x: np.ndarray
    """(d, n)"""
    observed: np.ndarray
    """(d, n): 1 where the variable was not intervened on, else 0"""


class Work(NamedTuple):
    """Working memory; of the parameters' dtype if nothing else is said."""

    panel: np.ndarray
    """A batch: values"""
    weight: np.ndarray
    """A batch: ``observed`` / (d * rows), 0 in rows that fill up"""
    u: np.ndarray
    """Uniforms of one draw"""
    units: np.ndarray
    """Activations"""
    delta: np.ndarray
    """Gradients of activations"""
    relaxed: np.ndarray
    """What the gradients of draws need"""
    flow: np.ndarray
    """float64, of length :func:`flow_numbers`"""
    log_density: np.ndarray
    """float64: of one child in a batch"""


@_jit
def load(data, order, work):
    """Copy the rows ``order`` into the panel and the weights of ``work``; return R."""
    d, B = len(data.x), len(order)
    rows = (B + LANES - 1) // LANES * LANES
    share = data.x.dtype.type(1 / (d * B))
    panel, weight = (
        work.panel[: d * rows].reshape(d, rows),
        work.weight[: d * rows].reshape(d, rows),
    )
    for j in range(d):
        values, observed, to, to_weight = data.x[j], data.observed[j], panel[j], weight[j]
        for b in range(B):
            to[b] = values[order[b]]
            to_weight[b] = observed[order[b]] * share
        to[B:] = 0
        to_weight[B:] = 0
    return rows


@_jit
def _ones(networks, units, at, rows):
    """Set the rows of a network's activations that are always one."""
    for level in range(1, len(networks.units_at) - 1):
        end = at + networks.units_at[level] * rows
        units[end - rows : end] = 1


# Random draws


@_jit
def fill_uniform(state, out):
    """Fill ``out`` with odd multiples of 2^-24: uniform on (0, 1), both ends excluded.

    xoshiro128++ (Blackman and Vigna 2021), the upper 23 bits of each word. Every call starts a new
    round of the lanes, so ``out`` uses up ``LANES * ceil(len(out) / LANES)`` words.
    """
    step = out.dtype.type(2.0**-23)
    half = out.dtype.type(2.0**-24)
    n = len(out)
    for begin in range(0, n, LANES):
        for lane in range(LANES):
            s0 = state[0, lane]
            s1 = state[1, lane]
            s2 = state[2, lane]
            s3 = state[3, lane]
            total = np.uint32(s0 + s3)
            word = np.uint32(np.uint32(total << np.uint32(7)) | (total >> np.uint32(25)))
            word = np.uint32(word + s0)
            shifted = np.uint32(s1 << np.uint32(9))
            s2 = s2 ^ s0
            s3 = s3 ^ s1
            s1 = s1 ^ s2
            s0 = s0 ^ s3
            s2 = s2 ^ shifted
            s3 = np.uint32(np.uint32(s3 << np.uint32(11)) | (s3 >> np.uint32(21)))
            state[0, lane] = s0
            state[1, lane] = s1
            state[2, lane] = s2
            state[3, lane] = s3
            if begin + lane < n:
                out[begin + lane] = np.int32(word >> np.uint32(9)) * step + half


@_jit
def edge_probabilities(logits, p, q):
    """Set ``p = sigmoid(logits)`` and ``q = 1 - p``, accurate at both ends; on the diagonal 0, 1.

    All three are (d, d).
    """
    one = p.dtype.type(1)
    for t in range(logits.shape[0]):
        for i in range(logits.shape[1]):
            e = np.exp(-abs(logits[t, i]))
            large, small = one / (one + e), e / (one + e)
            if logits[t, i] >= 0:
                p[t, i], q[t, i] = large, small
            else:
                p[t, i], q[t, i] = small, large
        p[t, t], q[t, t] = 0, 1


class _Generators:
    """Some of the generators' lanes, their state in registers: the words of :func:`fill_uniform`.

    Two vectors of lanes at a time, so that neither waits for its own last word.
    """

    VECTORS = 2
    WIDTH = _BYTES // 4
    STEP = VECTORS * WIDTH

    def __init__(self, em, state, lane):
        self.em, self.state, self.lane = em, state, lane
        self.kind = ir.VectorType(ir.IntType(32), self.WIDTH)
        self.slots = [[self._slot(word, v) for word in range(4)] for v in range(self.VECTORS)]

    def _place(self, word, v):
        pointer = self.em.at(self.state, word * LANES + v * self.WIDTH, self.lane)
        return self.em.builder.bitcast(pointer, self.kind.as_pointer())

    def _slot(self, word, v):
        slot = cgutils.alloca_once(self.em.builder, self.kind)
        value = self.em.builder.load(self._place(word, v), align=4)
        self.em.builder.store(value, slot)
        return slot

    def save(self):
        """Put the state back to where it came from."""
        for v, slots in enumerate(self.slots):
            for word, slot in enumerate(slots):
                value = self.em.builder.load(slot)
                self.em.builder.store(value, self._place(word, v), align=4)

    def uniforms(self):
        """The next uniforms of all these lanes, in vectors of the emitter's kind."""
        em, b = self.em, self.em.builder
        numbers = []
        for slots in self.slots:
            s0, s1, s2, s3 = (b.load(slot) for slot in slots)
            word = b.add(self._rotated(b.add(s0, s3), 7), s0)
            shifted = b.shl(s1, self._splat(9))
            s2 = b.xor(s2, s0)
            s3 = b.xor(s3, s1)
            s1 = b.xor(s1, s2)
            s0 = b.xor(s0, s3)
            s2 = b.xor(s2, shifted)
            for value, slot in zip((s0, s1, s2, self._rotated(s3, 11)), slots, strict=True):
                b.store(value, slot)
            word = b.lshr(word, self._splat(9))
            for first in range(0, self.WIDTH, em.lanes):
                part = em.shuffle(word, word, list(range(first, first + em.lanes)))
                number = b.sitofp(part, em.vector)
                numbers.append(em.fma(number, em.constant(2.0**-23), em.constant(2.0**-24)))
        return numbers

    def _splat(self, value):
        return ir.Constant(self.kind, [value] * self.WIDTH)

    def _rotated(self, x, bits):
        b = self.em.builder
        return b.or_(b.shl(x, self._splat(bits)), b.lshr(x, self._splat(32 - bits)))


@intrinsic
def _draw_edges(typing, state, on, off, t, d, x, rows, inputs, slopes):
    """All but the zeros of :func:`draw_edges`."""

    def generate(context, builder, signature, args):
        em = _Emitter(context, builder, signature, args, x.dtype)
        state_, on_, off_, t, d, x_, rows, inputs_, slopes_ = em.args
        b, zero, one = builder, em.constant(0.0), em.constant(1.0)
        for lane in em.each(_INDEX(LANES), _Generators.STEP):
            generators = _Generators(em, state_, lane)
            with cgutils.for_range(b, b.sub(d, _INDEX(1))) as loop:
                beyond = b.icmp_signed(">=", loop.index, t)
                i = b.add(loop.index, b.zext(beyond, _INDEX))
                p, q = em.broadcast(on_, i), em.broadcast(off_, i)
                for first in em.each(rows, LANES):
                    at = b.add(b.add(b.mul(i, rows), first), lane)
                    for k, u in enumerate(generators.uniforms()):
                        value = em.load(x_, at, k * em.lanes)
                        drawn = b.fcmp_ordered(">", u, q)
                        em.store(b.select(drawn, value, zero), inputs_, at, k * em.lanes)
                        yes, no = em.mul(p, u), em.mul(q, em.sub(one, u))
                        total = em.add(yes, no)
                        slope = em.div(em.mul(em.mul(value, yes), no), em.mul(total, total))
                        em.store(slope, slopes_, at, k * em.lanes)
            generators.save()
        return context.get_dummy_value()

    array, intp = types.Array(x.dtype, 1, "C"), types.intp
    state = types.Array(types.uint32, 2, "C")
    return types.void(state, array, array, intp, intp, array, intp, array, array), generate


@_jit
def draw_edges(state, p, q, t, d, x, rows, inputs, slopes):
    """Mask all rows for child t by edges drawn for every row.

    The uniforms are those of :func:`fill_uniform` on R numbers for each parent in turn but t.

    Parameters
    ----------
    state : uint32 (4, LANES)
    p, q : (d, d)
        ``p[t, i]`` is the probability of i -> t, ``q = 1 - p``.
    t, d, rows : int
        ``rows`` is R, a multiple of ``LANES``.
    x : (d * R,) or longer
    inputs : (d * R,) or longer, changed
        ``inputs[i * R + b]`` becomes ``x[i * R + b]`` if row b has the edge i -> t, else 0.
    slopes : (d * R,) or longer, changed
        Derivative of the relaxed input by the logit of p[t, i].
    """
    inputs[t * rows : (t + 1) * rows] = 0
    slopes[t * rows : (t + 1) * rows] = 0
    _draw_edges(state, p[t], q[t], t, d, x, rows, inputs, slopes)


@intrinsic
def _draw_roles(typing, state, pi, d, x, rows, inputs, inputs_at, soft_in, soft_out, hard_out, at,
                u):  # fmt: skip
    """See :func:`draw_roles`."""

    def generate(context, builder, signature, args):
        em = _Emitter(context, builder, signature, args, x.dtype)
        state_, pi_, d, x_, rows, inputs_, inputs_at, soft_in, soft_out, hard_out, at, u_ = em.args
        b, zero, one = builder, em.constant(0.0), em.constant(1.0)
        for lane in em.each(_INDEX(LANES), _Generators.STEP):
            generators = _Generators(em, state_, lane)
            with cgutils.for_range(b, d) as loop:
                first_role = b.mul(loop.index, _INDEX(3))
                p_in, p_out, p_none = (em.broadcast(pi_, first_role, role) for role in range(3))
                for first in em.each(rows, LANES):
                    for k, number in enumerate(generators.uniforms()):
                        em.store(number, u_, first, k * em.lanes)
                for first in em.each(rows, LANES):
                    row = b.add(b.add(b.mul(loop.index, rows), first), lane)
                    here = b.add(row, at)
                    for k, v in enumerate(generators.uniforms()):
                        u = em.load(u_, first, k * em.lanes)
                        low, high = em.least(u, v), em.greatest(u, v)
                        middle, rest = em.sub(high, low), em.sub(one, high)
                        # Role c wins where pi_c / spacing_c is largest; times all three spacings.
                        a_in = em.mul(em.mul(p_in, middle), rest)
                        a_out = em.mul(em.mul(p_out, low), rest)
                        a_none = em.mul(em.mul(p_none, low), middle)
                        total = em.add(em.add(em.add(a_in, a_out), a_none), em.constant(1e-30))
                        scale = em.div(one, total)
                        em.store(em.mul(a_in, scale), soft_in, here, k * em.lanes)
                        em.store(em.mul(a_out, scale), soft_out, here, k * em.lanes)
                        feeds = b.and_(
                            b.fcmp_ordered(">=", a_in, a_out), b.fcmp_ordered(">=", a_in, a_none)
                        )
                        value = b.select(feeds, em.load(x_, row, k * em.lanes), zero)
                        em.store(value, inputs_, inputs_at, row, k * em.lanes)
                        fed = b.and_(
                            b.fcmp_ordered(">", a_out, a_in), b.fcmp_ordered(">=", a_out, a_none)
                        )
                        em.store(b.select(fed, one, zero), hard_out, here, k * em.lanes)
            generators.save()
        return context.get_dummy_value()

    array, intp = types.Array(x.dtype, 1, "C"), types.intp
    state = types.Array(types.uint32, 2, "C")
    pi = types.Array(x.dtype, 2, "C")
    return types.void(state, pi, intp, array, intp, array, intp, array, array, array, intp,
                      array), generate  # fmt: skip


@_jit
def draw_roles(state, pi, d, x, rows, inputs, inputs_at, soft_in, soft_out, hard_out, at, u):
    """Draw for every row which variables feed a module and which it feeds; mask its inputs.

    For each variable in turn two uniforms per row: those of two calls of :func:`fill_uniform`.

    Parameters
    ----------
    state : uint32 (4, LANES)
    pi : (d, 3)
        Probabilities that variable i feeds the module, is fed by it, or neither.
    d, rows : int
        ``rows`` is R, a multiple of ``LANES``.
    x : (d * R,) or longer
    inputs, inputs_at : changed
        ``inputs[inputs_at + i * R + b]`` becomes ``x[i * R + b]`` if i feeds the module in row b,
        else 0.
    soft_in, soft_out, at : changed
        From ``at`` on, the relaxed indicators of the first two roles.
    hard_out : changed
        From ``at`` on, 1 where the module feeds i in row b, else 0.
    u : (R,) or longer, changed
    """
    _draw_roles(state, pi, d, x, rows, inputs, inputs_at, soft_in, soft_out, hard_out, at, u)


# The constraint

_DEGREE = 16
_COEFFICIENTS = 1 / np.cumprod(np.concatenate([[1.0], np.arange(1.0, _DEGREE + 1)]))


@_jit
def expm(A):
    """Exponential of a matrix with non-negative entries, in the matrix' own precision.

    The Taylor polynomial of degree 16 of A / 2^k, squared k times. No terms cancel, so rounding
    errors stay relative; the truncation error is below 1e-8 in float32 and 1e-16 in float64.
    Entries that overflow become infinite or NaN.

    Parameters
    ----------
    A : float32 or float64 (d, d), C-contiguous

    Returns
    -------
    (d, d), of the same dtype
    """
    d = len(A)
    radius = 2.5 if A.itemsize == 4 else 0.5
    norm = 0.0
    for i in range(d):
        row = 0.0
        for j in range(d):
            row += A[i, j]
        norm = max(norm, row)
    squarings = 0
    while norm > radius and squarings < 64:
        norm /= 2
        squarings += 1
    scale = A.dtype.type(0.5**squarings)
    A1 = A * scale
    A2 = np.dot(A1, A1)
    A3 = np.dot(A2, A1)
    A4 = np.dot(A2, A2)
    one = A.dtype.type(1)
    total = A4 * A.dtype.type(_COEFFICIENTS[_DEGREE])
    for block in range(_DEGREE // 4 - 1, -1, -1):
        if block < _DEGREE // 4 - 1:
            total = np.dot(total, A4)
        c0 = A.dtype.type(_COEFFICIENTS[4 * block])
        c1 = A.dtype.type(_COEFFICIENTS[4 * block + 1])
        c2 = A.dtype.type(_COEFFICIENTS[4 * block + 2])
        c3 = A.dtype.type(_COEFFICIENTS[4 * block + 3])
        for i in range(d):
            for j in range(d):
                total[i, j] += c1 * A1[i, j] + c2 * A2[i, j] + c3 * A3[i, j]
            total[i, i] += c0 * one
    for _ in range(squarings):
        total = np.dot(total, total)
    return total


@_jit
def exponential_constraint(P):
    """``tr exp(P) - d`` and ``exp(P)``, whose transpose is its gradient, in P's own precision.

    The subtraction is done last, in that precision: in float32 the value of a nearly acyclic P
    rounds to zero or to a unit in the last place of d, which is how the authors' runs saw it.
    """
    E = expm(P)
    trace = 0.0
    for i in range(len(P)):
        trace += E[i, i]
    real = P.dtype.type
    return real(real(trace) - real(len(P))), E


class Multipliers(NamedTuple):
    """Of the augmented Lagrangian; all numbers of the parameters' dtype."""

    regularisation: float
    """lambda"""
    gamma: float
    mu: float
    scale: float
    """What the constraint is divided by"""


# DCDI-G: Gaussian densities


class Gaussian(NamedTuple):
    """Gaussian density of each child."""

    log_sd_at: int
    """Where the logarithms of the standard deviations start in ``theta``"""


@_jit_sums
def _gaussian_gradient(density, t, x, weight, units, out_at, rows, theta, gradient):
    real = theta.dtype.type
    one = real(1)
    precision = real(np.exp(real(-2) * theta[density.log_sd_at + t]))
    out = units[out_at : out_at + rows]
    total = real(0)
    for b in range(rows):
        r = x[b] - out[b]
        out[b] = -weight[b] * r * precision
        total += weight[b] * (one - r * r * precision)
    gradient[density.log_sd_at + t] = total


@_jit_sums
def _gaussian_nll(density, t, x, weight, units, out_at, rows, theta):
    log_sd = np.float64(theta[density.log_sd_at + t])
    precision = math.exp(-2.0 * log_sd)
    constant = log_sd + 0.5 * math.log(2 * math.pi)
    out = units[out_at : out_at + rows]
    total = 0.0
    for b in range(rows):
        r = x[b] - out[b]
        total += weight[b] * (constant + 0.5 * r * r * precision)
    return total


# DCDI-DSF: deep sigmoidal flows


class Flow(NamedTuple):
    """Deep sigmoidal flow of each child."""

    layers: int
    units: int


_FLOW_REGISTERS = 2
_FLOW_ROWS = _FLOW_REGISTERS * _BYTES // 8
"""Rows that a flow handles at once: what of them the way back needs stays in the cache."""

_UNIT_PARTS = 5
"""Stored per unit of a flow: exp(raw w), a, s, s (1 - s), the derivative of the softplus."""

_LAYER_PARTS = 4
"""Stored per layer: its argument z, 1 / sum of exp(raw w), q, sum of the units' derivatives."""


@intrinsic
def _flow_forward(typing, raw, raw_at, rows, units, z, keep, keep_at, log_density):
    """One layer of a flow on ``_FLOW_ROWS`` rows.

    ``raw[raw_at:]`` are the layer's raw a, b and w, each (units, rows). ``z`` becomes the layer's
    value, and ``log_density`` grows by the logarithm of its derivative. ``keep[keep_at:]`` receives
    ``_LAYER_PARTS`` numbers per row, then ``_UNIT_PARTS`` per unit and row.
    """

    def generate(context, builder, signature, args):
        em = _Emitter(context, builder, signature, args, types.float64)
        raw_, raw_at, rows, units, z_, keep_, keep_at, log_density_ = em.args
        b, lanes, each = builder, em.lanes, range(_FLOW_REGISTERS)
        one, zero = em.constant(1.0), em.constant(0.0)
        group = b.mul(units, rows)
        raw_a = em.at(raw_, raw_at)
        raw_b = em.at(raw_a, group)
        raw_w = em.at(raw_b, group)
        kept = em.at(keep_, keep_at)
        z = [em.load(z_, v * lanes) for v in each]
        top = em.variables([em.load(raw_w, v * lanes) for v in each])
        with cgutils.for_range(b, units) as loop:
            at = b.mul(loop.index, rows)
            for v in each:
                b.store(em.greatest(b.load(top[v]), em.load(raw_w, at, v * lanes)), top[v])
        top = em.read(top)
        total, value, slope = (em.variables([zero] * len(each)) for _ in range(3))
        with cgutils.for_range(b, units) as loop:
            at = b.mul(loop.index, rows)
            a = [em.load(raw_a, at, v * lanes) for v in each]
            w = [em.sub(em.load(raw_w, at, v * lanes), top[v]) for v in each]
            small = [em.sub(zero, em.magnitude(x)) for x in a]
            powers = em.exp(*w, *small)
            w, e_a = powers[: len(each)], powers[len(each) :]
            soft = em.log1p(*e_a)
            bend_top = [b.select(b.fcmp_ordered(">=", x, zero), one, e)
                        for x, e in zip(a, e_a, strict=True)]  # fmt: skip
            squeeze = em.constant(SQUEEZE)
            a = [em.add(em.add(em.greatest(x, zero), s), squeeze)
                 for x, s in zip(a, soft, strict=True)]  # fmt: skip
            y = [em.fma(a[v], z[v], em.load(raw_b, at, v * lanes)) for v in each]
            e_y = em.exp(*(em.sub(zero, em.magnitude(x)) for x in y))
            unit_at = b.add(
                _INDEX(_LAYER_PARTS * _FLOW_ROWS),
                b.mul(loop.index, _INDEX(_UNIT_PARTS * _FLOW_ROWS)),
            )
            for v in each:
                # Both 1 / (1 + e) from one division.
                below_a, below_y = em.add(one, e_a[v]), em.add(one, e_y[v])
                inverse = em.div(one, em.mul(below_a, below_y))
                bend = em.mul(bend_top[v], em.mul(inverse, below_y))
                inverse_y = em.mul(inverse, below_a)
                positive = b.fcmp_ordered(">=", y[v], zero)
                s = em.mul(b.select(positive, one, e_y[v]), inverse_y)
                ds = em.mul(em.mul(e_y[v], inverse_y), inverse_y)
                em.increase(total[v], w[v])
                em.increase(value[v], w[v], s)
                em.increase(slope[v], em.mul(w[v], a[v]), ds)
                for part, number in enumerate((w[v], a[v], s, ds, bend)):
                    em.store(number, kept, unit_at, part * _FLOW_ROWS + v * lanes)
        shrink, margin = em.constant(1 - SQUEEZE), em.constant(SQUEEZE / 2)
        inverses = [em.div(one, x) for x in em.read(total)]
        q = [em.fma(em.mul(x, i), shrink, margin)
             for x, i in zip(em.read(value), inverses, strict=True)]  # fmt: skip
        slopes = [em.fma(x, i, em.constant(1e-300))
                  for x, i in zip(em.read(slope), inverses, strict=True)]  # fmt: skip
        rests = [em.sub(one, x) for x in q]
        logs = em.log(*q, *rests, *slopes)
        constant = em.constant(math.log1p(-SQUEEZE) - 2 * SQUEEZE)
        for v in each:
            log_q, log_rest, log_slope = logs[v :: len(each)]
            parts = (z[v], inverses[v], q[v], slopes[v])
            for part, number in enumerate(parts):
                em.store(number, kept, part * _FLOW_ROWS + v * lanes)
            density = em.add(em.load(log_density_, v * lanes), em.add(log_slope, constant))
            density = em.sub(density, em.add(log_q, log_rest))
            em.store(density, log_density_, v * lanes)
            em.store(em.sub(log_q, log_rest), z_, v * lanes)
        return context.get_dummy_value()

    array, intp = types.Array(types.float64, 1, "C"), types.intp
    raw = types.Array(raw.dtype, 1, "C")
    return types.void(raw, intp, intp, intp, array, array, intp, array), generate


@intrinsic
def _flow_backward(typing, raw, raw_at, rows, units, keep, keep_at, g, g_z):
    """The way back through :func:`_flow_forward`: gradients in place of ``raw``.

    ``g`` is the loss' gradient by the rows' log densities, ``g_z`` that by the layer's value;
    ``g_z`` becomes the gradient by its argument.
    """

    def generate(context, builder, signature, args):
        em = _Emitter(context, builder, signature, args, types.float64)
        raw_, raw_at, rows, units, keep_, keep_at, g_, g_z_ = em.args
        b, lanes, each = builder, em.lanes, range(_FLOW_REGISTERS)
        one, two = em.constant(1.0), em.constant(2.0)
        shrink, margin = em.constant(1 - SQUEEZE), em.constant(SQUEEZE / 2)
        group = b.mul(units, rows)
        raw_a = em.at(raw_, raw_at)
        raw_b = em.at(raw_a, group)
        raw_w = em.at(raw_b, group)
        kept = em.at(keep_, keep_at)
        z, inverse, g_q, by_part, by_all = [], [], [], [], []
        for v in each:
            z_v, inverse_v, p, slope = (em.load(kept, part * _FLOW_ROWS + v * lanes)
                                        for part in range(_LAYER_PARTS))  # fmt: skip
            g = em.load(g_, v * lanes)
            top = em.fma(g, em.sub(em.mul(two, p), one), em.load(g_z_, v * lanes))
            q = em.div(em.mul(shrink, top), em.mul(p, em.sub(one, p)))
            z.append(z_v)
            inverse.append(inverse_v)
            # Each unit's weight is exp(raw w) times ``inverse``.
            g_q.append(em.mul(q, inverse_v))
            by_part.append(em.mul(em.div(g, slope), inverse_v))
            by_all.append(em.mul(em.add(g, em.div(em.mul(q, em.sub(p, margin)), shrink)),
                                 inverse_v))  # fmt: skip
        by_z = em.variables([em.constant(0.0)] * len(each))
        with cgutils.for_range(b, units) as loop:
            at = b.mul(loop.index, rows)
            unit_at = b.add(
                _INDEX(_LAYER_PARTS * _FLOW_ROWS),
                b.mul(loop.index, _INDEX(_UNIT_PARTS * _FLOW_ROWS)),
            )
            for v in each:
                w, a, s, ds, bend = (em.load(kept, unit_at, part * _FLOW_ROWS + v * lanes)
                                     for part in range(_UNIT_PARTS))  # fmt: skip
                value = em.mul(em.mul(g_q[v], w), s)
                slope = em.mul(em.mul(by_part[v], w), ds)  # by the derivative, over a
                part = em.mul(slope, a)
                rest = em.sub(one, s)
                g_y = em.fma(part, em.sub(rest, s), em.mul(value, rest))
                em.store(em.mul(em.fma(g_y, z[v], slope), bend), raw_a, at, v * lanes)
                em.store(g_y, raw_b, at, v * lanes)
                to_w = em.sub(em.add(value, part), em.mul(w, by_all[v]))
                em.store(to_w, raw_w, at, v * lanes)
                em.increase(by_z[v], g_y, a)
        for v in each:
            em.store(b.load(by_z[v]), g_z_, v * lanes)
        return context.get_dummy_value()

    array, intp = types.Array(types.float64, 1, "C"), types.intp
    raw = types.Array(raw.dtype, 1, "C")
    return types.void(raw, intp, intp, intp, array, intp, array, array), generate


_SPREAD = 2 * math.e + 1e-5  # twice the variance of the flow's target
_TARGET_CONSTANT = -0.5 - 0.5 * math.log(2 * math.pi)


def flow_numbers(layers: int, units: int) -> int:
    """Length of ``Work.flow``."""
    return 4 * _FLOW_ROWS + layers * (_LAYER_PARTS + _UNIT_PARTS * units) * _FLOW_ROWS


@_jit
def flow_rows(density, x, weight, units, out_at, rows, work, log_density, with_gradient):
    """Log densities (R,) of one child; its outputs' gradient in their place.

    float64 throughout, whatever the parameters' dtype.
    """
    z, g, g_z = work[:_FLOW_ROWS], work[_FLOW_ROWS : 2 * _FLOW_ROWS], work[2 * _FLOW_ROWS :]
    value, keep = work[3 * _FLOW_ROWS :], work[4 * _FLOW_ROWS :]
    stride = (_LAYER_PARTS + _UNIT_PARTS * density.units) * _FLOW_ROWS
    for row in range(0, rows, _FLOW_ROWS):
        for b in range(_FLOW_ROWS):
            z[b] = x[row + b]
            value[b] = 0
        for layer in range(density.layers):
            raw_at = out_at + layer * 3 * density.units * rows + row
            _flow_forward(units, raw_at, rows, density.units, z, keep, layer * stride, value)
        for b in range(_FLOW_ROWS):
            log_density[row + b] = value[b] + _TARGET_CONSTANT - z[b] * z[b] / _SPREAD
        if with_gradient:
            for b in range(_FLOW_ROWS):
                g[b] = -weight[row + b]
                g_z[b] = g[b] * z[b] * (-2 / _SPREAD)
            for layer in range(density.layers - 1, -1, -1):
                raw_at = out_at + layer * 3 * density.units * rows + row
                _flow_backward(units, raw_at, rows, density.units, keep, layer * stride, g, g_z)


# DCDI


class DCDI(NamedTuple):
    """The model's shape; the edges' logits (d, d), child by parent, come first in ``theta``."""

    networks: Networks
    density: Gaussian | Flow


def _density_gradient(density, t, x, weight, units, out_at, rows, theta, gradient, work):
    """Replace a child's outputs by the loss' gradient by them; set that of free parameters."""


def _density_nll(density, t, x, weight, units, out_at, rows, theta, work):
    """Part of the loss of one child."""


@overload(_density_gradient)
def _implement_gradient(density, t, x, weight, units, out_at, rows, theta, gradient, work):
    if density.instance_class is Gaussian:

        def implementation(density, t, x, weight, units, out_at, rows, theta, gradient, work):
            _gaussian_gradient(density, t, x, weight, units, out_at, rows, theta, gradient)
    else:

        def implementation(density, t, x, weight, units, out_at, rows, theta, gradient, work):
            flow_rows(density, x, weight, units, out_at, rows, work.flow, work.log_density, True)

    return implementation


@overload(_density_nll)
def _implement_nll(density, t, x, weight, units, out_at, rows, theta, work):
    if density.instance_class is Gaussian:

        def implementation(density, t, x, weight, units, out_at, rows, theta, work):
            return _gaussian_nll(density, t, x, weight, units, out_at, rows, theta)
    else:

        def implementation(density, t, x, weight, units, out_at, rows, theta, work):
            flow_rows(density, x, weight, units, out_at, rows, work.flow, work.log_density, False)
            total = 0.0
            for b in range(rows):
                total -= weight[b] * work.log_density[b]
            return total

    return implementation


@_jit
def _start_child(model, t, theta, noise, p, q, rows, work):
    """Draw a child's masks and evaluate its network; returns where its outputs are."""
    draw_edges(noise, p, q, t, len(p), work.panel, rows, work.units, work.relaxed)
    networks = model.networks
    forward(networks, t, theta, work.units, 0, rows)
    return networks.units_at[len(networks.sizes) - 1] * rows


@_jit
def dcdi_nll(model, data, order, theta, noise, work):
    """The loss on the rows ``order``, without penalties, with edges drawn from ``noise``."""
    d = len(data.x)
    rows = load(data, order, work)
    _ones(model.networks, work.units, 0, rows)
    p = np.empty((d, d), theta.dtype)
    q = np.empty_like(p)
    edge_probabilities(theta[: d * d].reshape(d, d), p, q)
    total = 0.0
    for t in range(d):
        out_at = _start_child(model, t, theta, noise, p, q, rows, work)
        x, weight = work.panel[t * rows : (t + 1) * rows], work.weight[t * rows : (t + 1) * rows]
        total += _density_nll(model.density, t, x, weight, work.units, out_at, rows, theta, work)
    return total


@_jit_sums
def _dot(a, b):
    total = a.dtype.type(0)
    for k in range(len(a)):
        total += a[k] * b[k]
    return total


@_jit
def dcdi_gradient(model, data, order, theta, gradient, noise, multipliers, work):
    """Set the gradient of the augmented Lagrangian on the rows ``order``."""
    d = len(data.x)
    real = theta.dtype.type
    rows = load(data, order, work)
    _ones(model.networks, work.units, 0, rows)
    p = np.empty((d, d), theta.dtype)
    q = np.empty_like(p)
    edge_probabilities(theta[: d * d].reshape(d, d), p, q)
    h, E = exponential_constraint(p)
    by_h = (multipliers.gamma + multipliers.mu * (h / multipliers.scale)) / multipliers.scale
    by_p = multipliers.regularisation / real(d * d)
    for t in range(d):
        out_at = _start_child(model, t, theta, noise, p, q, rows, work)
        x, weight = work.panel[t * rows : (t + 1) * rows], work.weight[t * rows : (t + 1) * rows]
        _density_gradient(model.density, t, x, weight, work.units, out_at, rows, theta, gradient,
                          work)  # fmt: skip
        backward(model.networks, t, theta, work.units, 0, work.delta, rows, gradient)
        for i in range(d):
            here, end = i * rows, (i + 1) * rows
            total = _dot(work.delta[here:end], work.relaxed[here:end])
            gradient[t * d + i] = total + (by_h * E[i, t] + by_p) * (p[t, i] * q[t, i])


@_jit
def dcdi_descend(model, data, order, batch_size, theta, gradient, squares, rate, noise,
                 multipliers, work):  # fmt: skip
    """One RMSprop step on each batch of consecutive entries of ``order``."""
    for first in range(0, len(order), batch_size):
        batch = order[first : first + batch_size]
        dcdi_gradient(model, data, batch, theta, gradient, noise, multipliers, work)
        rmsprop(theta, gradient, squares, rate)


# DCD-FG


class DCDFG(NamedTuple):
    """The model's shape; the roles' logits (m, d, 3) come first in ``theta``."""

    networks: Networks
    """Of the modules"""
    decoder_at: int
    """(d, m)"""
    offsets_at: int
    """(d,)"""
    log_variances_at: int
    """(d,)"""
    radius: float
    """Spectral radius of the soft edges at the start, in the parameters' dtype"""


class Roles(NamedTuple):
    """Working memory of a batch's draws, each m * d * R numbers, and its residuals, d * R."""

    soft_in: np.ndarray
    soft_out: np.ndarray
    hard_out: np.ndarray
    residuals: np.ndarray


@_jit
def role_probabilities(logits):
    """Softmax over the last axis of (m, d, 3)."""
    pi = np.empty_like(logits)
    m, d, _ = logits.shape
    for f in range(m):
        for i in range(d):
            a, b, c = logits[f, i, 0], logits[f, i, 1], logits[f, i, 2]
            top = max(a, b, c)
            a, b, c = np.exp(a - top), np.exp(b - top), np.exp(c - top)
            total = a + b + c
            pi[f, i, 0], pi[f, i, 1], pi[f, i, 2] = a / total, b / total, c / total
    return pi


@_jit
def _start_modules(model, data, order, theta, pi, noise, work, roles):
    """Draw roles, evaluate the modules; ``roles.residuals`` become x - mean. Returns R."""
    m, d, _ = pi.shape
    networks = model.networks
    rows = load(data, order, work)
    panel = work.panel[: d * rows].reshape(d, rows)
    levels = len(networks.sizes)
    height, out_row = networks.units_at[levels], networks.units_at[levels - 1]
    for f in range(m):
        at, here = f * height * rows, f * d * rows
        _ones(networks, work.units, at, rows)
        draw_roles(noise, pi[f], d, work.panel, rows, work.units, at, roles.soft_in,
                   roles.soft_out, roles.hard_out, here, work.u)  # fmt: skip
        forward(networks, f, theta, work.units, at, rows)
    for j in range(d):
        row = roles.residuals[j * rows : (j + 1) * rows]
        values = panel[j]
        offset = theta[model.offsets_at + j]
        for b in range(rows):
            row[b] = values[b] - offset
        for f in range(m):
            weight = theta[model.decoder_at + j * m + f]
            fed = roles.hard_out[(f * d + j) * rows : (f * d + j + 1) * rows]
            out_at = (f * height + out_row) * rows
            value = work.units[out_at : out_at + rows]
            for b in range(rows):
                row[b] -= weight * fed[b] * value[b]
    return rows


@_jit_sums
def dcdfg_nll(model, data, order, theta, noise, work, roles, modules):
    """The loss on the rows ``order``, without penalties, with roles drawn from ``noise``."""
    d = len(data.x)
    pi = role_probabilities(theta[: modules * d * 3].reshape(modules, d, 3))
    rows = _start_modules(model, data, order, theta, pi, noise, work, roles)
    total = 0.0
    for j in range(d):
        variance = math.exp(np.float64(theta[model.log_variances_at + j])) + VARIANCE_FLOOR
        row = roles.residuals[j * rows : (j + 1) * rows]
        weight = work.weight[j * rows : (j + 1) * rows]
        squares = 0.0
        count = 0.0
        for b in range(rows):
            squares += weight[b] * row[b] * row[b]
            count += weight[b]
        total += 0.5 * (squares / variance + count * math.log(2 * math.pi * variance))
    return total


@_jit_sums
def _means_gradient(model, theta, gradient, rows, work, roles, d, m):
    """Turn residuals into the gradient of the means, modules' outputs into their gradients.

    Sets the gradients of the decoder, offsets and variances; ``work.delta`` keeps the outputs.
    """
    real = theta.dtype.type
    one, half = real(1), real(0.5)
    levels = len(model.networks.sizes)
    height, out_row = model.networks.units_at[levels], model.networks.units_at[levels - 1]
    for f in range(m):
        out_at = (f * height + out_row) * rows
        work.delta[f * rows : (f + 1) * rows] = work.units[out_at : out_at + rows]
        work.units[out_at : out_at + rows] = 0
    for j in range(d):
        row = roles.residuals[j * rows : (j + 1) * rows]
        weights = work.weight[j * rows : (j + 1) * rows]
        scale = real(np.exp(theta[model.log_variances_at + j]))
        precision = one / (scale + real(VARIANCE_FLOOR))
        by_variance = real(0)
        by_mean = real(0)
        for b in range(rows):
            r, weight = row[b], weights[b]
            by_variance += weight * half * precision * (one - r * r * precision)
            row[b] = -weight * r * precision
            by_mean += row[b]
        gradient[model.log_variances_at + j] = by_variance * scale
        gradient[model.offsets_at + j] = by_mean
        for f in range(m):
            out_at = (f * height + out_row) * rows
            value = work.delta[f * rows : (f + 1) * rows]
            upstream = work.units[out_at : out_at + rows]
            fed = roles.hard_out[(f * d + j) * rows : (f * d + j + 1) * rows]
            weight = theta[model.decoder_at + j * m + f]
            total = real(0)
            for b in range(rows):
                masked = row[b] * fed[b]
                total += masked * value[b]
                upstream[b] += weight * masked
            gradient[model.decoder_at + j * m + f] = total


@_jit_sums
def _roles_gradient(by_masked, values, by_mean, value, weight, relaxed_in, relaxed_out):
    """Gradient by a pair's three logits through the relaxed indicators."""
    real = by_mean.dtype.type
    one = real(1)
    g_in, g_out, g_none = real(0), real(0), real(0)
    for b in range(len(values)):
        y_in, y_out = relaxed_in[b], relaxed_out[b]
        by_in = by_masked[b] * values[b]
        by_out = weight * value[b] * by_mean[b]
        mean = by_in * y_in + by_out * y_out
        g_in += y_in * (by_in - mean)
        g_out += y_out * (by_out - mean)
        g_none -= (one - y_in - y_out) * mean
    return g_in, g_out, g_none


@_jit
def dcdfg_gradient(model, data, order, theta, gradient, noise, multipliers, work, roles, modules):
    """Set the gradient of the augmented Lagrangian on the rows ``order``."""
    d, m = len(data.x), modules
    real = theta.dtype.type
    pi = role_probabilities(theta[: m * d * 3].reshape(m, d, 3))
    rows = _start_modules(model, data, order, theta, pi, noise, work, roles)
    _means_gradient(model, theta, gradient, rows, work, roles, d, m)

    pi_in, pi_out = pi[:, :, 0].copy(), pi[:, :, 1].copy()
    P = np.dot(pi_in.T, pi_out)
    for i in range(d):
        P[i, i] = 0
    h, E = exponential_constraint(P / model.radius)
    by_h = (multipliers.gamma + multipliers.mu * (h / multipliers.scale)) / multipliers.scale
    by_P = E * (by_h / model.radius)  # transposed
    for i in range(d):
        by_P[i, i] = 0
    by_pi_in, by_pi_out = np.dot(pi_out, by_P), np.dot(pi_in, by_P.T)
    by_pi = multipliers.regularisation / real(2 * d * m)

    levels = len(model.networks.sizes)
    height = model.networks.units_at[levels]
    for f in range(m):
        delta = work.delta[m * rows :]
        value = work.delta[f * rows : (f + 1) * rows]
        backward(model.networks, f, theta, work.units, f * height * rows, delta, rows, gradient)
        for i in range(d):
            here = (f * d + i) * rows
            g_in, g_out, g_none = _roles_gradient(
                delta[i * rows : (i + 1) * rows],
                work.panel[i * rows : (i + 1) * rows],
                roles.residuals[i * rows : (i + 1) * rows],
                value,
                theta[model.decoder_at + i * m + f],
                roles.soft_in[here : here + rows],
                roles.soft_out[here : here + rows],
            )
            into, out = by_pi_in[f, i] + by_pi, by_pi_out[f, i] + by_pi
            mean = pi[f, i, 0] * into + pi[f, i, 1] * out
            at = 3 * (f * d + i)
            gradient[at] = g_in + pi[f, i, 0] * (into - mean)
            gradient[at + 1] = g_out + pi[f, i, 1] * (out - mean)
            gradient[at + 2] = g_none - pi[f, i, 2] * mean


@_jit
def dcdfg_descend(model, data, order, batch_size, theta, gradient, squares, rate, noise,
                  multipliers, work, roles, modules):  # fmt: skip
    """One RMSprop step on each batch of consecutive entries of ``order``."""
    for first in range(0, len(order), batch_size):
        batch = order[first : first + batch_size]
        dcdfg_gradient(model, data, batch, theta, gradient, noise, multipliers, work, roles,
                       modules)  # fmt: skip
        rmsprop(theta, gradient, squares, rate)
