"""The engine for CPUs: the epochs of SDCD in kernels compiled by numba."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from sdcd.estimator import kernels
from sdcd.estimator.engine import StageSettings
from sdcd.estimator.state import Candidates, StageState

_CHUNK = kernels.CHUNK
_CACHE_BYTES = 256 * 1024
"""Parameters and moments of a block of targets that should stay in a core's own cache."""


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
        self._spectral = settings.penalty == "spectral"
        if self._spectral and len(candidates.targets) != d:
            raise NotImplementedError("the spectral penalty needs all targets in one block")
        self._settings = settings
        self._units = (0,) * settings.hidden
        self._candidates = candidates
        self._layout = _Layout(candidates, settings.hidden)
        self._theta = self._layout.pack(state.W, state.b, state.u, state.v, state.c, state.e)
        self._first = self._layout.pack(**state.first)
        self._second = self._layout.pack(**state.second)
        self._step = state.step
        # Two, for the present step's and the next one's.
        self._A = np.zeros((2, len(candidates.parents)), np.float32)

        n = len(X_train)
        self._n = n
        # One more row, of zeros, pads batches to whole chunks.
        self._values = np.zeros((d, n + 1), np.float32)
        self._values[:, :n] = X_train.T
        self._keep = _keep_rows(keep_train)
        self._weight = _row_weights(n, settings.batch_size)
        self._panels = _aligned(len(self._weight) * (d + 1))
        self._panels.reshape(-1, d + 1, _CHUNK)[:, d] = 1

        self._threads = threads = max(1, min(threads, len(candidates.targets)))
        self._left = np.tile(state.left, (threads, 1))
        self._right = np.tile(state.right, (threads, 1))
        self._counter = np.zeros(1, np.int64)
        self._scratch = [_Scratch(self._layout, settings, d) for _ in range(threads)]
        self._variables = np.arange(threads + 1) * d // threads
        self._blocks = self._split()
        self._pool = ThreadPoolExecutor(threads - 1) if threads > 1 else None

        self._validation = _Validation(X_validation, keep_validation, settings.batch_size)

    def _split(self):
        """Each thread's targets, as consecutive blocks: arrays of boundaries."""
        size = np.diff(self._layout.offsets) + 30 * self._settings.hidden
        done = np.concatenate([[0], np.cumsum(size)])
        shares = np.searchsorted(done, done[-1] * np.arange(1, self._threads) / self._threads)
        shares = np.concatenate([[0], shares, [len(size)]]).astype(np.int64)
        if self._spectral:
            return [shares[t : t + 2] for t in range(self._threads)]
        out = []
        for start, stop in pairwise(shares):
            edges, bytes_ = [start], 0
            for k in range(start, stop):
                here = 12 * (self._layout.offsets[k + 1] - self._layout.offsets[k])
                if bytes_ and bytes_ + here > _CACHE_BYTES:
                    edges.append(k)
                    bytes_ = 0
                bytes_ += here
            out.append(np.array([*edges, stop], np.int64))
        return out

    def epoch(self, order, gamma):
        """See :meth:`sdcd.estimator.engine.Engine.epoch`."""
        padded = _pad_order(order, self._n, self._settings.batch_size)
        self._counter[0] = 0
        others = [
            self._pool.submit(self._run, thread, padded, gamma)
            for thread in range(1, self._threads)
        ]
        self._run(0, padded, gamma)
        for other in others:
            other.result()
        self._step += -(-self._n // self._settings.batch_size)

    def _run(self, thread, order, gamma):
        settings, layout, scratch = self._settings, self._layout, self._scratch[thread]
        kernels.epoch(
            self._units, thread, self._threads, self._counter, self._values, self._keep, order,
            -(-settings.batch_size // _CHUNK), self._n, settings.batch_size, self._panels,
            self._weight, self._variables, self._blocks[thread], self._candidates.targets,
            self._candidates.indptr, layout.rows, layout.offsets, self._theta, self._first,
            self._second, self._A, self._left[thread], self._right[thread], self._spectral,
            settings.power_iterations, np.float32(gamma), np.float32(settings.alpha),
            np.float32(2 * settings.beta), settings.learning_rate, self._step, scratch.s, scratch.g,
            scratch.gradient, scratch.any, scratch.left, scratch.right,
        )  # fmt: skip

    def validation_loss(self):
        """See :meth:`sdcd.estimator.engine.Engine.validation_loss`."""
        data, scratch, layout = self._validation, self._scratch[0], self._layout
        return kernels.loss(
            self._units, data.panels, data.weight, data.keep, 1.0, data.width,
            self._candidates.targets, self._candidates.indptr, layout.rows, layout.offsets,
            self._theta, scratch.s, scratch.any, scratch.g,
        )  # fmt: skip

    def edge_weights(self):
        """See :meth:`sdcd.estimator.engine.Engine.edge_weights`."""
        return self.state().edge_weights()

    def state(self):
        """See :meth:`sdcd.estimator.engine.Engine.state`."""
        unpack = self._layout.unpack
        return StageState(
            candidates=self._candidates,
            **unpack(self._theta),
            first=unpack(self._first),
            second=unpack(self._second),
            step=self._step,
            left=self._left[0].copy(),
            right=self._right[0].copy(),
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
    """Where each target's record lies, and its rows in a panel: see :mod:`.kernels`."""

    def __init__(self, candidates, hidden):
        self.hidden = hidden
        counts = np.diff(candidates.indptr)
        self.counts = counts
        pad = kernels.PAD
        lengths = -(-((counts + 3) * hidden + 2) // pad) * pad
        self.offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        t = len(counts)
        self._bias = self.offsets[:-1] + counts * hidden
        # Edge e of target k lies e * hidden after the first of its target.
        target_of_edge = np.repeat(np.arange(t), counts)
        place = np.arange(len(candidates.parents)) - candidates.indptr[target_of_edge]
        self._edge = self.offsets[target_of_edge] + place * hidden
        self.rows = np.empty(len(candidates.parents) + t, np.int32)
        self.rows[np.arange(len(candidates.parents)) + target_of_edge] = candidates.parents
        self.rows[candidates.indptr[1:] + np.arange(t)] = candidates.d

    def _places(self):
        h = np.arange(self.hidden)
        yield "W", self._edge[:, None] + h
        for k, name in enumerate("buv"):
            yield name, self._bias[:, None] + k * self.hidden + h
        yield "c", self._bias + 3 * self.hidden
        yield "e", self._bias + 3 * self.hidden + 1

    def pack(self, W, b, u, v, c, e):
        arrays = {"W": W, "b": b, "u": u, "v": v, "c": c, "e": e}
        out = _aligned(self.offsets[-1])
        for name, places in self._places():
            out[places] = arrays[name]
        return out

    def unpack(self, records):
        return {name: records[places] for name, places in self._places()}


class _Scratch:
    """One thread's working memory."""

    def __init__(self, layout, settings, d):
        rows = -(-settings.batch_size // _CHUNK) * _CHUNK
        most = max(layout.counts, default=0)
        self.s = _aligned(rows * settings.hidden)
        self.g = _aligned(2 * rows)
        self.gradient = _aligned((most + 3) * settings.hidden + 2 + kernels.PAD)
        self.any = _aligned(max(rows, most))
        self.left = np.empty(d, np.float32)
        self.right = np.empty(d, np.float32)


class _Validation:
    """The validation rows in panels."""

    def __init__(self, X, keep, batch_size):
        n, d = X.shape
        self.width = d + 1
        self.weight = _row_weights(n, batch_size)
        order = _pad_order(np.arange(n), n, batch_size)
        values = np.zeros((n + 1, d + 1), np.float32)
        values[:n, :d] = X
        values[:, d] = 1
        self.panels = _aligned(len(order) * (d + 1))
        for chunk, panel in enumerate(self.panels.reshape(-1, d + 1, _CHUNK)):
            panel[:] = values[order[chunk * _CHUNK : (chunk + 1) * _CHUNK]].T
        self.keep = (
            np.ascontiguousarray(_keep_rows(keep)[:, order])
            if keep is not None
            else (_keep_rows(None))
        )


def _keep_rows(keep):
    """Keep mask, transposed, with one more row, of zeros, for padding; empty if there is none."""
    if keep is None:
        return np.zeros((0, 0), np.uint8)
    out = np.zeros((keep.shape[1], keep.shape[0] + 1), np.uint8)
    out[:, :-1] = keep.T
    return out


def _aligned(size):
    """Float32 zeros that start at a multiple of 64 bytes."""
    raw = np.zeros(int(size) + 16, np.float32)
    start = -raw.ctypes.data // 4 % 16
    return raw[start : start + int(size)]


def _pad_order(order, n, batch_size):
    """``order`` with each batch padded to whole chunks by row n."""
    padded = []
    for start in range(0, n, batch_size):
        batch = order[start : start + batch_size]
        padded += [batch, np.full(-len(batch) % _CHUNK, n)]
    return np.concatenate(padded).astype(np.int32)


def _row_weights(n, batch_size):
    """1 / (rows of the batch) for each row of the padded order, 0 for padding."""
    order = _pad_order(np.arange(n), n, batch_size)
    weight = _aligned(len(order))
    rows = np.where(order >= n - n % batch_size, max(n % batch_size, 1), batch_size)
    weight[:] = np.where(order < n, 1 / rows, 0)
    return weight
