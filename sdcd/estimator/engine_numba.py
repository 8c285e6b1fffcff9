"""The engine for CPUs: the epochs of SDCD in kernels compiled by numba."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import numpy as np

from sdcd.estimator import kernels
from sdcd.estimator.engine import StageSettings
from sdcd.estimator.state import PARAMETERS, Candidates, StageState

_CACHE_BYTES = 256 * 1024
"""Parameters and moments of a block of targets that should stay in a core's own cache."""
_LEAST_BLOCK = 128
"""Targets for which it does not matter that each block copies the batches anew."""


class NumbaEngine:
    """Hand-written gradients, one target at a time, in compiled kernels.

    Minimises what :class:`~sdcd.estimator.engine.StageSettings` states, for the penalties "none"
    and "spectral". It is the same computation as the plain model's: L2 is added to the gradient,
    the gradient of ``sum|W|`` and of ``||W[i, j, :]||`` is 0 at 0, and weights that are not
    candidates do not exist.

    Parameters
    ----------
    X_train, X_validation : float32 (n, d)
        Rows of values.
    keep_train, keep_validation : float32 (n, t) or None
        0 where the row intervenes on the target, else 1; None when nothing is intervened.
    state : StageState
        Where to start; copied. With the spectral penalty its targets must be all d variables.
    settings : StageSettings
        The problem and the step sizes.
    threads : int, default 1
        Threads that share the targets; the result does not depend on it.

    Raises
    ------
    NotImplementedError
        For another penalty, or the spectral penalty on a part of the targets.
    """

    def __init__(
        self, X_train, keep_train, X_validation, keep_validation, state, settings, threads=1
    ):
        if settings.penalty not in ("none", "spectral"):
            raise NotImplementedError(f"NumbaEngine has no penalty {settings.penalty!r}")
        candidates = state.candidates
        d = candidates.d
        spectral = settings.penalty == "spectral"
        if spectral and len(candidates.targets) != d:
            raise NotImplementedError("the spectral penalty needs all targets in one block")
        self._settings = settings
        self._units = (0,) * settings.hidden
        self._candidates = candidates
        self._layout = _Layout(candidates, settings.hidden)
        self._targets = self._layout.targets
        self._parameters = kernels.Parameters(
            theta=self._layout.pack(state.W, state.b, state.u, state.v, state.c, state.e),
            first=self._layout.pack(**state.first),
            second=self._layout.pack(**state.second),
        )
        self._step = state.step
        # Two, for the present step and the next; the last entry, 0, is padding's.
        self._A = np.zeros((2, len(candidates.parents) + 1), np.float32)
        self._train = _data(X_train, keep_train, settings.batch_size)
        self._validation = _data(X_validation, keep_validation, settings.batch_size)

        threads = max(1, min(threads, len(candidates.targets)))
        self._counter = np.zeros(1, np.int64)
        self._pool = ThreadPoolExecutor(threads - 1) if threads > 1 else None
        self._power = [
            _power(candidates, state, settings.power_iterations, spectral) for _ in range(threads)
        ]
        self._work = [_work(self._layout, self._train.width, settings) for _ in range(threads)]
        self._blocks = self._layout.split(threads, in_blocks=not spectral)

    def epoch(self, order, gamma):
        """See :meth:`sdcd.estimator.engine.Engine.epoch`."""
        order = np.require(order, np.int64, "CW")
        self._counter[0] = 0
        threads = len(self._work)
        others = [self._pool.submit(self._run, k, order, gamma) for k in range(1, threads)]
        self._run(0, order, gamma)
        for other in others:
            other.result()
        self._step += -(-len(order) // self._settings.batch_size)

    def _run(self, thread, order, gamma):
        settings = self._settings
        kernels.epoch(
            self._units, self._train, order, self._targets, self._parameters, self._A,
            self._power[thread], self._work[thread], self._blocks[thread], self._counter,
            len(self._work), np.float32(gamma), np.float32(settings.alpha),
            np.float32(2 * settings.beta), settings.learning_rate, self._step,
        )  # fmt: skip

    def validation_loss(self):
        """See :meth:`sdcd.estimator.engine.Engine.validation_loss`."""
        return kernels.loss(
            self._units, self._validation, self._targets, self._parameters.theta, self._work[0]
        )

    def edge_weights(self):
        """See :meth:`sdcd.estimator.engine.Engine.edge_weights`."""
        norms = np.empty(len(self._candidates.parents), np.float32)
        kernels.norms(self._units, self._targets, self._parameters.theta, norms)
        return norms

    def state(self):
        """See :meth:`sdcd.estimator.engine.Engine.state`."""
        moments = self._parameters.first, self._parameters.second
        first, second = map(self._layout.unpack, moments)
        return replace(self.parameters(), first=first, second=second)

    def parameters(self):
        """See :meth:`sdcd.estimator.engine.Engine.parameters`."""
        left, right = (vector[: self._candidates.d].copy() for vector in self._power[0].vectors)
        return StageState(
            candidates=self._candidates,
            **self._layout.unpack(self._parameters.theta),
            first={},
            second={},
            step=self._step,
            left=left,
            right=right,
        )


def warm_up(hidden: int = 10) -> None:
    """Compile, or load from the cache, all that an engine with ``hidden`` units uses."""
    d = 2
    candidates = Candidates(d, np.arange(d), np.arange(d + 1), np.array([1, 0]))
    zeros = {name: np.zeros((d, hidden), np.float32) for name in "Wbuv"}
    zeros |= {name: np.zeros(d, np.float32) for name in "ce"}
    ones = np.full(d, np.sqrt(0.5), np.float32)
    state = StageState(
        candidates, **zeros, first=zeros, second=zeros, step=0, left=ones, right=ones
    )
    settings = StageSettings(0.0, 0.0, 1e-3, batch_size=4, hidden=hidden, penalty="spectral")
    X = np.zeros((4, d), np.float32)
    engine = NumbaEngine(X, None, X, None, state, settings)
    engine.epoch(np.arange(4), 0.0)
    engine.validation_loss()


class _Layout:
    """Where each target's record lies: see :mod:`.kernels`."""

    def __init__(self, candidates, hidden):
        self.hidden = hidden
        self.counts = counts = np.diff(candidates.indptr)
        lengths = _whole((counts + 3) * hidden + 2, kernels.PAD)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self.targets = kernels.Targets(
            np.array(candidates.targets, np.int64),
            np.array(candidates.indptr, np.int64),
            candidates.parents.astype(np.uint32),
            offsets,
        )

    def pack(self, W, b, u, v, c, e):
        """One array of all targets' records."""
        records = _aligned(self.targets.offsets[-1])
        self._copy(records, [W, b, u, v, c, e], unpack=False)
        return records

    def unpack(self, records):
        """The arrays of :class:`StageState` that ``records`` holds."""
        t, h = len(self.counts), self.hidden
        shapes = [(self.counts.sum(), h), (t, h), (t, h), (t, h), (t,), (t,)]
        arrays = [np.empty(shape, np.float32) for shape in shapes]
        self._copy(records, arrays, unpack=True)
        return dict(zip(PARAMETERS, arrays, strict=True))

    def _copy(self, records, arrays, unpack):
        # Read-only arrays have a type of their own, which is not compiled for.
        arrays = [np.require(array, np.float32, "CW") for array in arrays]
        units = (0,) * self.hidden
        kernels.copy_records(
            units, self.targets, records, arrays[0].reshape(-1), *arrays[1:], unpack
        )

    def split(self, threads, in_blocks):
        """Boundaries of consecutive blocks of targets, for each thread.

        ``in_blocks`` that a core's cache can hold, or one block each.
        """
        lengths = np.diff(self.targets.offsets)
        # Activations cost about as much as 10 parents.
        done = np.concatenate([[0], np.cumsum(lengths + 10 * self.hidden)])
        shares = np.searchsorted(done, done[-1] * np.arange(1, threads) / threads)
        shares = np.concatenate([[0], shares, [len(lengths)]]).astype(np.int64)
        out = []
        for start, stop in pairwise(shares):
            edges, size = [start], 0
            for k in range(start, stop):
                size += 12 * lengths[k]
                if in_blocks and size > _CACHE_BYTES and k >= edges[-1] + _LEAST_BLOCK:
                    edges.append(k)
                    size = 12 * lengths[k]
            out.append(np.array([*edges, stop], np.int64))
        return out


def _data(X, keep, batch_size):
    n, d = X.shape
    width = _whole(d, kernels.LANES)
    values = _aligned((n + 1) * width)
    table = values.reshape(n + 1, width)
    table[:n, :d] = X
    kept = np.zeros((0, 0), np.uint8)
    if keep is not None:
        kept = np.zeros((keep.shape[1], n + 1), np.uint8)
        kept[:, :n] = keep.T
    return kernels.Data(values=values, width=width, keep=kept, batch_size=batch_size)


def _work(layout, width, settings):
    hidden = settings.hidden
    rows = _whole(settings.batch_size, kernels.CHUNK)
    if 4 * layout.counts.sum() < width * len(layout.counts):
        # The few parents of a target lie far apart: each in one piece.
        stride, step = kernels.CHUNK, rows + kernels.CHUNK
    else:
        # A target reads a chunk of most variables: these side by side.
        stride, step = width * kernels.CHUNK, kernels.CHUNK
    record = int(np.diff(layout.targets.offsets).max())
    return kernels.Work(
        order=np.empty(rows, np.uint32),
        panel=_aligned(width * max(step, rows)),
        stride=stride,
        step=step,
        weight=_aligned(rows),
        kept_weight=_aligned(rows),
        scaled=_aligned(record + kernels.LANES),
        s=_aligned(rows * hidden),
        g=_aligned(2 * rows),
        gradient=_aligned(record),
        slope=_aligned(max(layout.counts)),
    )


def _power(candidates, state, iterations, penalised):
    """Memory of the power iteration, as a dense or a sparse matrix, whichever is faster."""
    d, edges = candidates.d, len(candidates.parents)
    length = _whole(d + 1, kernels.CHUNK)
    # Both in cycles of a product on the machine this was measured on.
    dense = d * length / kernels.LANES <= 1.3 * edges + 2 * d
    vectors = [_aligned(length), _aligned(length)]
    vectors[0][:d], vectors[1][:d] = state.left, state.right
    size = d * length if dense and penalised else 0
    ends = (candidates.children, candidates.parents)
    if dense or not penalised:
        ends = tuple(end[:0] for end in ends)
    forms = _sliced(d, edges, *ends), _sliced(d, edges, *ends[::-1])
    return kernels.Power(
        penalised=penalised,
        iterations=iterations,
        dense=dense,
        matrices=(_aligned(size), _aligned(size)),
        forms=forms,
        values=tuple(_aligned(len(form[1])) for form in forms),
        vectors=tuple(vectors),
        spare=(_aligned(length), _aligned(length)),
        sums=_aligned(kernels.LANES),
    )


def _sliced(d, edges, rows, columns):
    """The matrix with these entries as :func:`.kernels.sliced_product` wants it, without values."""
    count = np.bincount(rows, minlength=d)
    order = np.argsort(-count, kind="stable")
    padded = np.full(_whole(d, 8), d)
    padded[:d] = order
    heights = count[order[::8]]
    start = np.concatenate([[0], np.cumsum(heights)])
    source = np.full(8 * start[-1], edges)
    index = np.full(8 * start[-1], d)
    by_row = np.argsort(rows, kind="stable")
    first = np.concatenate([[0], np.cumsum(count)])[:-1]
    place = np.empty(d, int)
    place[order] = np.arange(d)
    here = place[rows[by_row]]
    number = np.arange(len(rows)) - first[rows[by_row]]
    q = 8 * (start[here // 8] + number) + here % 8
    source[q] = by_row
    index[q] = columns[by_row]
    return tuple(array.astype(np.uint32) for array in (start, source, index, padded))


def _whole(size, unit):
    """The next multiple of ``unit``."""
    return -(-size // unit) * unit


def _aligned(size):
    """Float32 zeros that start at a multiple of 64 bytes."""
    raw = np.zeros(int(size) + 16, np.float32)
    start = -raw.ctypes.data // 4 % 16
    return raw[start : start + int(size)]
