"""SDCD's epochs with hand-written gradients in torch, on a CPU or a CUDA device.

The loss is that of :mod:`sdcd.estimator.model`; this file is its derivative, written out. For a
block of T targets with K inputs each and a batch of B rows, everything between the two matrix
products is laid out (T, h, B), rows of the batch contiguous:

    Z = W x                 W (T, h, K + 1): the last input is 1, its weight b
    H = sigmoid(Z)
    O = UV H + ce           UV (T, 2, h): u and v;  ce (T, 2): c and e;  O: mean, raw variance
    var = softplus(O[1])
    dO[0] = (mean - x) / var * keep / B
    dO[1] = (1 / var - (mean - x)^2 / var^2) / 2 * sigmoid(O[1]) * keep / B
    dH = UV^T dO,  dUV = dO H^T,  dce = sum(dO)
    dZ = dH * H * (1 - H)
    dW = dZ x^T + alpha sign(W) + gamma dh/dA W / A

L2 enters as Adam's weight decay 2 beta, which is its gradient. A *dense* block multiplies by all
variables; a *gathered* one by each target's own candidates, padded to a common number with an
input that is always 0, so that a padding weight gets no gradient and stays 0.

A block's arithmetic is done by one CPU thread and does not depend on what the others do, so that
results do not depend on the number of threads. On CUDA an optimisation step is captured once as a
graph and replayed: the batch number, gamma and Adam's step count live on the device, and an epoch
needs no answer from it.
"""

import contextlib
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import torch
from torch.optim.adam import adam

from sdcd.errors import MethodFailure
from sdcd.estimator.engine import StageSettings
from sdcd.estimator.penalties_torch import PENALTIES
from sdcd.estimator.state import Candidates, StageState

_DENSE_FRACTION = 0.5
_BLOCK = 50
_BLOCK_CUDA = 1000
_CHUNK_BATCHES = 8
_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input


class TorchEngine:
    """See the module's text, and :class:`~sdcd.estimator.engine.Engine` for the protocol.

    Parameters
    ----------
    X_train, keep_train, X_validation, keep_validation, state, settings
        As the protocol has them.
    device : str
        ``"cpu"`` or a CUDA device, which then holds the whole data set.
    threads : int
        CPU threads that share the blocks.
    tf32 : bool
        Let CUDA round matrix products' inputs to TF32.

    Attributes
    ----------
    escapes : int
        Steps at which A was outside the domain of h_log.

    Raises
    ------
    MethodFailure
        ``unavailable`` if the device is not there.
    """

    def __init__(
        self,
        X_train: np.ndarray,
        keep_train: np.ndarray | None,
        X_validation: np.ndarray,
        keep_validation: np.ndarray | None,
        state: StageState,
        settings: StageSettings,
        *,
        device: str = "cpu",
        threads: int = 1,
        tf32: bool = False,
    ):
        self.settings = settings
        self.candidates = state.candidates
        self._device = _checked_device(device)
        self._tf32 = tf32
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self._train = _Rows(X_train, keep_train, self._device)
        self._validation = _Rows(X_validation, keep_validation, self._device)
        with self._contained():
            self._blocks = [
                _Block(state, positions, settings, self._device)
                for positions in _partition(state.candidates, self._device)
            ]
            kind = PENALTIES[settings.penalty]
            self._penalty = kind(state, self._blocks, settings, self._device)
        self._step = state.step
        self._repeated: dict[int, _Repeated] = {}

    @property
    def escapes(self) -> int:
        """Steps at which A was outside the domain of h_log."""
        return self._penalty.escapes

    def epoch(self, order: np.ndarray, gamma: float) -> None:
        """One pass over the training rows: see the protocol."""
        size = self.settings.batch_size
        with self._contained():
            rows = torch.from_numpy(order).to(self._device)
            if self._device.type == "cuda" and self.settings.penalty in ("none", "spectral"):
                self._epoch_by_number(rows, gamma)
            else:
                for chunk in rows.split(size * _CHUNK_BATCHES):
                    self._steps(self._train.gather(chunk).split(size), gamma)
        self._step += -(-len(order) // size)

    def validation_loss(self) -> float:
        """Sum over batches of batch means of -score: see the protocol."""
        size = self.settings.batch_size
        total = 0.0
        with self._contained():
            rows = torch.arange(len(self._validation), device=self._device)
            for chunk in rows.split(size * _CHUNK_BATCHES):
                batches = self._validation.gather(chunk).split(size)
                losses = self._map(lambda block, b=batches: block.losses(b), self._blocks)
                total = total + sum(losses)
            return float(total)

    def edge_weights(self) -> np.ndarray:
        """Current A of each candidate edge."""
        A = np.empty(len(self.candidates.parents), dtype=np.float32)
        with self._contained():
            for block in self._blocks:
                A[_span(block.edges)] = block.edge_weights().cpu().numpy()
        return A

    def state(self) -> StageState:
        """A copy of everything needed to go on from here."""
        first = self._gathered("first")
        return replace(self.parameters(), first=first, second=self._gathered("second"))

    def parameters(self) -> StageState:
        """A copy of the state without Adam's moments."""
        left, right = (vector.cpu().numpy().copy() for vector in self._penalty.vectors())
        theta = self._gathered("theta")
        return StageState(
            self.candidates, **theta, first={}, second={}, step=self._step, left=left, right=right
        )

    def _gathered(self, which: str) -> dict[str, np.ndarray]:
        """Parameters or moments of all blocks, in the state's arrays."""
        E, t, h = len(self.candidates.parents), len(self.candidates.targets), self.settings.hidden
        shapes = {"W": (E, h), "b": (t, h), "u": (t, h), "v": (t, h), "c": (t,), "e": (t,)}
        arrays = {name: np.empty(shape, dtype=np.float32) for name, shape in shapes.items()}
        with self._contained():
            for block in self._blocks:
                block.write(getattr(block, which), arrays)
        return arrays

    def _steps(self, batches: list["_Batch"], gamma: float) -> None:
        """Optimisation steps on these batches, in order."""
        if self.settings.penalty == "none":
            # Nothing connects the blocks: each goes through the batches on its own.
            self._map(lambda block: [block.step(batch, None) for batch in batches], self._blocks)
            return
        for batch in batches:
            pulls = self._penalty.pulls(gamma)
            self._map(
                lambda pair, b=batch: pair[0].step(b, pair[1]),
                zip(self._blocks, pulls, strict=True),
            )

    def _epoch_by_number(self, rows: torch.Tensor, gamma: float) -> None:
        """An epoch as full batches and then the short one, each kind a :class:`_Repeated` step."""
        size = self.settings.batch_size
        full = len(rows) - len(rows) % size
        for part, length in ((rows[:full], size), (rows[full:], len(rows) - full)):
            if len(part):
                if length not in self._repeated:
                    self._repeated[length] = _Repeated(self, len(part) // length, length)
                self._repeated[length].run(part, gamma)

    def _moved(self) -> list[torch.Tensor]:
        """Every tensor that a step changes."""
        blocks = [(b.theta, b.first, b.second, b.steps) for b in self._blocks]
        return [tensor for group in (*blocks, self._penalty.vectors()) for tensor in group]

    def _map(self, function: Callable, items) -> list:
        if self._pool is None or self._device.type == "cuda":
            return [function(item) for item in items]
        return list(self._pool.map(_on_one_thread(function), items))

    @contextlib.contextmanager
    def _contained(self) -> Iterator[None]:
        """Torch's settings for our arithmetic, given back to the caller as they were."""
        threads = torch.get_num_threads()
        flushes = bool((torch.tensor([1e-39]) * 0.5 == 0).item())
        cuda_precision = _matmul_precision(None)
        try:
            torch.set_num_threads(1)
            torch.set_flush_denormal(True)
            _matmul_precision("tf32" if self._tf32 else "ieee")
            with torch.no_grad():
                yield
        finally:
            torch.set_num_threads(threads)
            torch.set_flush_denormal(flushes)
            _matmul_precision(cuda_precision)


class _Rows:
    """Samples on the device, with two further inputs: d is always 1, d + 1 always 0."""

    def __init__(self, X: np.ndarray, keep: np.ndarray | None, device: torch.device):
        n, d = X.shape
        self.X = torch.zeros((n, d + 2), device=device)
        self.X[:, :d] = torch.from_numpy(X)
        self.X[:, d] = 1
        self.keep = None if keep is None else torch.from_numpy(keep).to(device)

    def __len__(self) -> int:
        return len(self.X)

    def gather(self, rows: torch.Tensor) -> "_Batch":
        """These rows, in this order."""
        keep = None if self.keep is None else self.keep.index_select(0, rows).T.contiguous()
        return _Batch(self.X.index_select(0, rows).T.contiguous(), keep)


class _Batch:
    """Rows of a minibatch, transposed: ``x`` (d + 2, B), ``keep`` (t, B) or None."""

    def __init__(self, x: torch.Tensor, keep: torch.Tensor | None):
        self.x = x
        self.keep = keep

    def split(self, size: int) -> list["_Batch"]:
        """Batches of ``size`` rows, the last one with what is left."""
        x = self.x.split(size, dim=1)
        keep = [None] * len(x) if self.keep is None else self.keep.split(size, dim=1)
        return [_Batch(*pair) for pair in zip(x, keep, strict=True)]


class _Block:
    """Some targets: their parameters, one after another in flat arrays, and their steps.

    Attributes
    ----------
    positions : int64 (T,)
        Which of the candidates' targets they are.
    inputs : int64 (T, K)
        The variable behind each input; d + 1 where it is padding.
    edges : int64 (e,)
        Which candidate edges end here.
    slots : int64 tensor (e,)
        Where each of them lies in a (T, K) array.
    """

    def __init__(
        self,
        state: StageState,
        positions: np.ndarray,
        settings: StageSettings,
        device: torch.device,
    ):
        candidates = state.candidates
        self.settings = settings
        self.positions = positions
        self.dense, self.inputs, self.edges, slots = _layout(candidates, positions)
        T, K, h = *self.inputs.shape, settings.hidden
        self.shape = T, K, h
        self.slots = torch.from_numpy(slots).to(device)
        self.targets = torch.from_numpy(candidates.targets[positions]).to(device)
        self.where = torch.from_numpy(positions).to(device)
        if self.dense:
            used = np.zeros((T, K), dtype=np.float32)
            used.reshape(-1)[slots] = 1
            self.used = torch.from_numpy(used).to(device)[:, None, :]
            # A run of targets that lack only themselves: zeroing a diagonal is enough.
            offset = int(self.targets[0])
            only_diagonal = (used.sum(1) == K - 1).all() and used.trace(offset) == 0
            contiguous = np.array_equal(candidates.targets[positions], offset + np.arange(T))
            self.diagonal = offset if only_diagonal and contiguous else None
        else:
            index = np.concatenate(
                [self.inputs, np.full((T, 1), candidates.d)], axis=1, dtype=np.int64
            )
            self.index = torch.from_numpy(index.reshape(-1)).to(device)
        size = T * h * (K + 1) + T * 2 * h + T * 2
        self.theta, self.gradient, self.first, self.second = (
            torch.zeros(size, device=device) for _ in range(4)
        )
        self.W, self.UV, self.ce = self._views(self.theta)
        self.dW, self.dUV, self.dce = self._views(self.gradient)
        self.steps = torch.tensor(float(state.step), device=device)
        self.buffers: dict[int, _Buffers] = {}
        self._read(state)

    def step(self, batch: _Batch, pull: torch.Tensor | None) -> None:
        """One optimisation step; ``pull`` (T, K) times W is the penalty's gradient."""
        self.differentiate(batch, pull)
        adam(
            *([self.theta], [self.gradient], [self.first], [self.second], [], [self.steps]),
            fused=True,
            capturable=self.theta.is_cuda,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=self.settings.learning_rate,
            weight_decay=2 * self.settings.beta,
            eps=1e-8,
            maximize=False,
        )

    def differentiate(self, batch: _Batch, pull: torch.Tensor | None) -> None:
        """Gradient of the loss but for its L2 term, into ``self.gradient``."""
        T, K, h = self.shape
        B = batch.x.shape[1]
        b = self._buffers(B)
        inputs = self._forward(batch, b)
        mean, raw = b.O[:, 0], b.O[:, 1]
        torch.sub(mean, batch.x.index_select(0, self.targets), out=b.residual)
        torch.nn.functional.softplus(raw, out=b.variance)
        torch.sigmoid(raw, out=b.slope)
        b.residual.div_(b.variance)
        b.dO[:, 0] = b.residual
        b.variance.reciprocal_().addcmul_(b.residual, b.residual, value=-1)
        torch.mul(b.variance, b.slope, out=b.slope)
        torch.mul(b.slope, 0.5, out=b.dO[:, 1])
        if batch.keep is not None:
            b.dO.mul_(batch.keep.index_select(0, self.where)[:, None, :])
        b.dO.mul_(1 / B)
        torch.sum(b.dO, dim=2, out=self.dce)
        torch.bmm(b.dO, b.H.transpose(1, 2), out=self.dUV)
        torch.bmm(self.UV.transpose(1, 2), b.dO, out=b.dZ)
        _sigmoid_backward(b.dZ, b.H, grad_input=b.dZ)

        torch.sign(self.W, out=self.dW)
        self.dW[:, :, K] = 0
        alpha = self.settings.alpha
        if pull is not None:
            self.dW[:, :, :K].mul_(alpha).addcmul_(self.W[:, :, :K], pull[:, None, :])
            alpha = 1.0
        if self.dense:
            flat = self.dW.view(T * h, K + 1)
            flat.addmm_(b.dZ.view(T * h, B), inputs.T, beta=alpha)
            if self.diagonal is None:
                self.dW[:, :, :K].mul_(self.used)
            else:
                self.dW.diagonal(self.diagonal, 0, 2).zero_()
        else:
            self.dW.baddbmm_(b.dZ, inputs.transpose(1, 2), beta=alpha)

    def losses(self, batches: list[_Batch]) -> torch.Tensor:
        """Sum over batches of the batch mean of -score: float64 scalar."""
        total = torch.zeros((), dtype=torch.float64, device=self.theta.device)
        for batch in batches:
            B = batch.x.shape[1]
            b = self._buffers(B)
            self._forward(batch, b)
            residual = b.O[:, 0] - batch.x.index_select(0, self.targets)
            variance = torch.nn.functional.softplus(b.O[:, 1])
            loss = 0.5 * (math.log(2 * math.pi) + variance.log() + residual**2 / variance)
            if batch.keep is not None:
                loss = loss * batch.keep.index_select(0, self.where)
            total += loss.sum(dtype=torch.float64) / B
        return total

    def weights(self) -> torch.Tensor:
        """A of each input: (T, K)."""
        return torch.linalg.vector_norm(self.W[:, :, : self.shape[1]], dim=1)

    def edge_weights(self) -> torch.Tensor:
        """A of each of ``edges``."""
        return self.weights().view(-1).index_select(0, self.slots)

    def write(self, flat: torch.Tensor, arrays: dict[str, np.ndarray]) -> None:
        """Write parameters or moments to where they belong in a state's arrays."""
        W, UV, ce = self._views(flat)
        T, K, h = self.shape
        inputs_first = W[:, :, :K].transpose(1, 2).reshape(T * K, h)
        arrays["W"][_span(self.edges)] = inputs_first.index_select(0, self.slots).cpu()
        positions = _span(self.positions)
        arrays["b"][positions] = W[:, :, K].cpu()
        arrays["u"][positions], arrays["v"][positions] = UV.cpu().unbind(1)
        arrays["c"][positions], arrays["e"][positions] = ce.cpu().unbind(1)

    def _read(self, state: StageState) -> None:
        device = self.theta.device
        T, K, h = self.shape

        def take(array: np.ndarray, index: np.ndarray) -> torch.Tensor:
            return torch.from_numpy(array[_span(index)]).to(device)

        theta = {name: getattr(state, name) for name in state.first}
        sources = ((self.theta, theta), (self.first, state.first), (self.second, state.second))
        for flat, arrays in sources:
            W, UV, ce = self._views(flat)
            inputs_first = torch.zeros((T * K, h), device=device)
            inputs_first[self.slots] = take(arrays["W"], self.edges)
            W[:, :, :K] = inputs_first.view(T, K, h).transpose(1, 2)
            W[:, :, K] = take(arrays["b"], self.positions)
            for i, name in enumerate("uv"):
                UV[:, i] = take(arrays[name], self.positions)
            for i, name in enumerate("ce"):
                ce[:, i] = take(arrays[name], self.positions)

    def _views(self, flat: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        T, K, h = self.shape
        W, UV, ce = flat.split([T * h * (K + 1), T * 2 * h, T * 2])
        return W.view(T, h, K + 1), UV.view(T, 2, h), ce.view(T, 2)

    def _buffers(self, B: int) -> "_Buffers":
        if B not in self.buffers:
            T, K, h = self.shape
            self.buffers[B] = _Buffers(T, 0 if self.dense else K + 1, h, B, self.theta.device)
        return self.buffers[B]

    def _forward(self, batch: _Batch, b: "_Buffers") -> torch.Tensor:
        """Fill ``b.H`` and ``b.O``; the inputs as the matrix product took them."""
        T, K, h = self.shape
        if self.dense:
            inputs = batch.x[: K + 1]
            torch.mm(self.W.view(T * h, K + 1), inputs, out=b.H.view(T * h, -1))
        else:
            inputs = torch.index_select(batch.x, 0, self.index, out=b.inputs).view(T, K + 1, -1)
            torch.bmm(self.W, inputs, out=b.H)
        torch.sigmoid(b.H, out=b.H)
        torch.bmm(self.UV, b.H, out=b.O)
        b.O.add_(self.ce[:, :, None])
        return inputs


class _Buffers:
    """Work space of a block for one batch size."""

    def __init__(self, T: int, inputs: int, h: int, B: int, device: torch.device):
        def empty(*shape: int) -> torch.Tensor:
            return torch.empty(shape, device=device)

        self.inputs = empty(T * inputs, B)
        self.H, self.dZ = empty(T, h, B), empty(T, h, B)
        self.O, self.dO = empty(T, 2, B), empty(T, 2, B)
        self.residual, self.variance, self.slope = empty(T, B), empty(T, B), empty(T, B)


class _Repeated:
    """The same optimisation step for batch after batch of one size, without a word from the host.

    What differs between the steps is read from the device: the rows, the number of the batch,
    gamma. So on CUDA the step is captured once, as a graph, and replayed.
    """

    def __init__(self, engine: TorchEngine, n_batches: int, size: int):
        device = engine._device
        self.engine = engine
        self.rows = torch.zeros((n_batches, size), dtype=torch.int64, device=device)
        self.number = torch.zeros(1, dtype=torch.int64, device=device)
        self.gamma = torch.zeros((), device=device)
        self.step = self._step if device.type == "cpu" else _captured(self._step, engine._moved())

    def run(self, rows: torch.Tensor, gamma: float) -> None:
        """Steps on all batches of ``rows``."""
        self.rows.copy_(rows.view(self.rows.shape))
        self.number.zero_()
        self.gamma.fill_(gamma)
        for _ in range(len(self.rows)):
            self.step()

    def _step(self) -> None:
        rows = self.rows.index_select(0, self.number)[0]
        self.engine._steps([self.engine._train.gather(rows)], self.gamma)
        self.number.add_(1)


def _captured(step: Callable[[], None], moved: list[torch.Tensor]) -> Callable[[], None]:
    """A CUDA graph of ``step``, as a function; ``moved`` keeps the values it has."""
    values = [tensor.clone() for tensor in moved]
    device = moved[0].device
    with torch.cuda.device(device):
        # Capture needs a first run on a stream of its own, which allocates and takes a real step.
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
    for tensor, value in zip(moved, values, strict=True):
        tensor.copy_(value)
    return graph.replay


def _checked_device(device: str) -> torch.device:
    chosen = torch.device(device)
    if chosen.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (chosen.index or 0) >= count:
            raise MethodFailure(
                "unavailable", f"device {device!r} asked for, {count} CUDA devices found"
            )
    return chosen


def _matmul_precision(value: str | None) -> str:
    """Get (with None) or set the precision of CUDA's single-precision matrix products."""
    matmul = torch.backends.cuda.matmul
    if hasattr(matmul, "fp32_precision"):
        old = matmul.fp32_precision
        if value is not None:
            matmul.fp32_precision = value
        return old
    old = "tf32" if matmul.allow_tf32 else "ieee"
    if value is not None:
        matmul.allow_tf32 = value == "tf32"
    return old


def _on_one_thread(function: Callable) -> Callable:
    def run(item):
        torch.set_num_threads(1)
        torch.set_flush_denormal(True)
        with torch.no_grad():
            return function(item)

    return run


def _partition(candidates: Candidates, device: torch.device) -> list[np.ndarray]:
    """Blocks of targets: a function of the problem alone, never of the number of threads."""
    t = len(candidates.targets)
    sizes = np.diff(candidates.indptr)
    size = _BLOCK if device.type == "cpu" else _BLOCK_CUDA
    number = max(1, round(t / size))
    if len(candidates.parents) >= _DENSE_FRACTION * t * candidates.d:
        order = np.arange(t)
    else:
        # Targets with similar numbers of candidates together: less padding.
        order = np.argsort(sizes, kind="stable")
    return [np.sort(part) for part in np.array_split(order, number)]


def _layout(
    candidates: Candidates, positions: np.ndarray
) -> tuple[bool, np.ndarray, np.ndarray, np.ndarray]:
    """A block's inputs: dense?, inputs (T, K), edges (e,), slots (e,); see :class:`_Block`."""
    d, T = candidates.d, len(positions)
    sizes = np.diff(candidates.indptr)[positions]
    starts = candidates.indptr[positions]
    rank = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    edges = np.repeat(starts, sizes) + rank
    row = np.repeat(np.arange(T), sizes)
    parents = candidates.parents[edges]
    dense = len(edges) >= _DENSE_FRACTION * T * d
    if dense:
        return True, np.broadcast_to(np.arange(d), (T, d)), edges, row * d + parents
    K = int(sizes.max(initial=0))
    inputs = np.full((T, K), d + 1)
    inputs[row, rank] = parents
    return False, inputs, edges, row * K + rank


def _span(index: np.ndarray) -> np.ndarray | slice:
    """The same selection as a slice, if it is one: no copy, and faster."""
    if len(index) and index[-1] - index[0] == len(index) - 1:
        return slice(int(index[0]), int(index[-1]) + 1)
    return index
