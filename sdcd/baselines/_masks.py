"""Random masks of inputs, drawn afresh for every row, with straight-through gradients.

Two kinds: an edge is there or not (DCDI), and a variable feeds a module, is fed by it, or neither
(DCD-FG). Both are the hard values of a relaxed (Gumbel-softmax) variable at temperature 1; the
gradient of the hard value is taken to be that of the relaxed one.

With u uniform on (0, 1), ``log u - log(1 - u)`` is a standard logistic, so with p = sigmoid(l) and
q = 1 - p the relaxed edge is the rational function of u

    sigmoid(l + log u - log(1 - u)) = p u / (p u + q (1 - u)),   above 1/2 where u > q.

Likewise for the three-way choice: only ratios of the exponentials behind three Gumbel variables
matter, and three exponentials over their sum are the spacings of two uniforms on (0, 1). So no
logarithm is ever taken, and every draw costs one uniform for an edge, two for a choice.

All arrays run over rows last, ``[..., b]``, which is what the inner loops vectorise over.
"""

import numpy as np
from numba import njit

LANES = 64
"""Generators that run side by side, so that one instruction advances many of them."""

FASTMATH = {"reassoc", "contract", "nsz"}  # NaN and infinity keep their meaning

_HALF_STEP = 2.0**-24


def generator_state(seed: int, stream: int) -> np.ndarray:
    """State of ``LANES`` xoshiro128++ generators: uint32 (4, LANES), changed by every draw."""
    words = np.random.SeedSequence([seed, stream]).generate_state(4 * LANES)
    return words.astype(np.uint32).reshape(4, LANES)


@njit(cache=True)
def fill_uniform(state, out):
    """Fill ``out`` with odd multiples of 2^-24: uniform on (0, 1), both ends excluded.

    xoshiro128++ (Blackman and Vigna 2021), the upper 23 bits of each word. Every call starts a new
    round of the lanes, so ``out`` uses up ``LANES * ceil(len(out) / LANES)`` words.
    """
    step = out.dtype.type(2 * _HALF_STEP)
    half = out.dtype.type(_HALF_STEP)
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


@njit(cache=True)
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


@njit(cache=True, error_model="numpy", fastmath=FASTMATH)
def draw_edges(state, p, q, x, first, inputs, slopes):
    """Mask the rows ``x[:, first : first + B]`` for every child by edges drawn for every row.

    Parameters
    ----------
    state : uint32 (4, LANES)
    p, q : (d, d)
        ``p[t, i]`` is the probability of i -> t, ``q = 1 - p``.
    x : (d, n), C-contiguous
    first : int
    inputs : (d, at least d, B), changed
        ``inputs[t, i, b]`` becomes x[i, first + b] if row b has the edge i -> t, else 0.
    slopes : (d, d, B), changed
        Derivative of the relaxed input by the logit of p[t, i].
    """
    d, B = len(p), inputs.shape[2]
    u = np.empty((B + LANES - 1) // LANES * LANES, x.dtype)
    one, zero = x.dtype.type(1), x.dtype.type(0)
    for t in range(d):
        for i in range(d):
            if i == t:
                inputs[t, i, :] = 0
                slopes[t, i, :] = 0
                continue
            fill_uniform(state, u)
            on, off = p[t, i], q[t, i]
            values = x[i, first : first + B]
            masked = inputs[t, i]
            slope = slopes[t, i]
            for b in range(B):
                a = on * u[b]
                c = off * (one - u[b])
                masked[b] = values[b] if u[b] > off else zero
                slope[b] = values[b] * a * c / ((a + c) * (a + c))


@njit(cache=True, error_model="numpy", fastmath=FASTMATH)
def draw_roles(state, pi, x, first, inputs, soft_in, soft_out, hard_out):
    """Draw for every row which variables feed a module and which it feeds; mask its inputs.

    Parameters
    ----------
    state : uint32 (4, LANES)
    pi : (m, d, 3)
        Probabilities that variable i feeds module f, is fed by it, or neither.
    x : (d, n), C-contiguous
    first : int
    inputs : (m, at least d, B), changed
        ``inputs[f, i, b]`` becomes x[i, first + b] if i feeds f in row b, else 0.
    soft_in, soft_out : (m, d, B), changed
        Relaxed indicators of the first two roles.
    hard_out : (m, d, B), changed
        1 where f feeds i in row b, else 0.
    """
    m, d, B = soft_in.shape
    u = np.empty((B + LANES - 1) // LANES * LANES, x.dtype)
    v = np.empty_like(u)
    one, zero, tiny = x.dtype.type(1), x.dtype.type(0), x.dtype.type(1e-30)
    for f in range(m):
        for i in range(d):
            fill_uniform(state, u)
            fill_uniform(state, v)
            w_in, w_out, w_none = pi[f, i, 0], pi[f, i, 1], pi[f, i, 2]
            values = x[i, first : first + B]
            masked = inputs[f, i]
            relaxed_in = soft_in[f, i]
            relaxed_out = soft_out[f, i]
            out = hard_out[f, i]
            for b in range(B):
                low = min(u[b], v[b])
                high = max(u[b], v[b])
                middle = high - low
                rest = one - high
                # Role c wins where pi_c / spacing_c is largest; times all three spacings.
                a_in = w_in * middle * rest
                a_out = w_out * low * rest
                a_none = w_none * low * middle
                scale = one / (a_in + a_out + a_none + tiny)
                relaxed_in[b] = a_in * scale
                relaxed_out[b] = a_out * scale
                masked[b] = values[b] if (a_in >= a_out) & (a_in >= a_none) else zero
                out[b] = one if (a_out > a_in) & (a_out >= a_none) else zero
