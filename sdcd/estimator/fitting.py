"""How a fit runs: the data split, the two stages with their snapshots and reports, and the engine.

:class:`sdcd.estimator.SDCD` has what its user sees; this is what it does.
"""

import sys
import time
import warnings
from dataclasses import dataclass, replace
from functools import cache
from typing import Protocol, TextIO

import numpy as np

from sdcd.cores import useful_threads
from sdcd.data.checks import check_fittable, dense_values, intervention_mask
from sdcd.errors import DataError, InputError
from sdcd.estimator import checkpoint as snapshots
from sdcd.estimator.checkpoint import Checkpoint
from sdcd.estimator.engine import Engine, StageSettings
from sdcd.estimator.stage_one import DENSE_LIMIT, LARGE_BLOCK, StageOne, gather
from sdcd.estimator.stages import StageProgress, StageRules, run_stage
from sdcd.estimator.state import PARAMETERS, Candidates, StageState
from sdcd.graphs import is_acyclic

# Streams of random numbers, each a child of the seed: what one draws does not depend on the others.
_SPLIT, _INITIAL, _ORDER = 0, 1, 2

# What the arithmetic does not depend on, and what only says where and how it is done.
NO_MATTER = ("threads", "checkpoint", "checkpoint_interval", "progress")
STAGE_1_PARAMETERS = (
    *("alpha_1", "beta_1", "eta_1", "tau_1", "epochs_1", "mask", "hidden", "batch_size"),
    *("validation_fraction", "check_every", "patience", "seed"),
)


class Parameters(Protocol):
    """A checked :class:`~sdcd.estimator.SDCD`, whose attributes are its parameters."""

    def get_params(self, deep: bool = True) -> dict:
        """All parameters by name."""


@dataclass(frozen=True)
class Problem:
    """The data of a fit, split."""

    X_train: np.ndarray
    intervened_train: np.ndarray | None
    X_validation: np.ndarray
    intervened_validation: np.ndarray | None
    batch_size: int
    data: str
    identity: str
    forbidden: np.ndarray | None = None
    required: np.ndarray | None = None

    def knowing(self, forbidden, required) -> "Problem":
        """The problem with edges that may not be and edges that must be."""
        if forbidden is None and required is None:
            return self
        masks = []
        for name, mask in (("forbidden", forbidden), ("required", required)):
            mask = np.zeros((self.d, self.d), bool) if mask is None else np.asarray(mask)
            if mask.shape != (self.d, self.d) or mask.dtype != bool:
                raise InputError(
                    f"{name} is {mask.dtype} of shape {mask.shape}, expected bool "
                    f"{(self.d, self.d)}"
                )
            masks.append(mask)
        forbidden, required = masks
        if (forbidden & required).any() or not is_acyclic(required):
            raise InputError("required edges: expected a DAG without forbidden edges")
        known = snapshots.digest(forbidden, required)
        return replace(
            self,
            data=f"{self.data} {known}",
            identity=f"{self.identity} {known}",
            forbidden=forbidden,
            required=required,
        )

    def candidates(self, targets: np.ndarray | None = None) -> Candidates:
        """Every edge into the targets (default: all variables) that may be."""
        if self.forbidden is None:
            return Candidates.all(self.d, targets)
        targets = np.arange(self.d) if targets is None else np.asarray(targets)
        may = ~self.forbidden[:, targets]
        may[targets, np.arange(len(targets))] = False
        positions, parents = np.nonzero(may.T)
        sizes = np.bincount(positions, minlength=len(targets))
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        return Candidates(self.d, targets, indptr, parents)

    @property
    def d(self) -> int:
        """Number of variables."""
        return self.X_train.shape[1]

    @classmethod
    def of(cls, X: np.ndarray, intervened: np.ndarray | None, params: Parameters) -> "Problem":
        """Check the data and split their rows; :class:`InputError` or :class:`DataError`."""
        X = dense_values(X)
        intervened = intervention_mask(intervened, X.shape)
        check_fittable(None, X, intervened)
        n = len(X)
        n_validation = int(params.validation_fraction * n)
        if n_validation < 1:
            raise DataError(
                f"{n} rows, of which validation_fraction = {params.validation_fraction:g} is none "
                "to validate on, expected at least one"
            )
        order = _stream(params.seed, 0, _SPLIT).permutation(n)
        # In ascending order: the split is a set of rows, and neighbours in memory stay so.
        validation, train = np.sort(order[:n_validation]), np.sort(order[n_validation:])
        data = snapshots.digest(X, intervened)
        return cls(
            X[train],
            None if intervened is None else intervened[train],
            X[validation],
            None if intervened is None else intervened[validation],
            min(params.batch_size, n - n_validation),
            data,
            f"{data} { ({name: getattr(params, name) for name in STAGE_1_PARAMETERS}) }",
        )


class Run:
    """One call of fit or fit_stage_1: the stages, with snapshots and reports between epochs."""

    def __init__(self, params: Parameters, problem: Problem, task: str):
        self.params = params
        self.problem = problem
        self.history: list[dict] = []
        self.epochs_2 = 0
        self.escapes = 0
        self.finished: list[StageOne] = []
        self.checkpoint = self.saved = None
        self.started = time.monotonic()
        self.resumed_after = 0.0
        if params.checkpoint is not None:
            identity = {
                name: value for name, value in params.get_params().items() if name not in NO_MATTER
            }
            identity = {"task": task, **identity, "data": problem.data}
            self.checkpoint = Checkpoint(params.checkpoint, params.checkpoint_interval, identity)
            self.saved = self.checkpoint.load()
        if self.saved is not None:
            self.finished = [StageOne.of_tree(tree) for tree in self.saved["finished"]]
            self.history = self.saved["history"]
            self.resumed_after = self.saved["seconds"]

    def stage_1(self, targets: np.ndarray) -> StageOne:
        """Stage 1, block of targets by block."""
        p = self.params
        block = p.target_block
        if block is None:
            block = len(targets) if self.problem.d <= DENSE_LIMIT else LARGE_BLOCK
        for start in range(0, len(targets), block):
            if start // block >= len(self.finished):
                self.finished.append(self._stage_1_block(targets[start : start + block]))
        return gather(self.finished) if len(self.finished) > 1 else self.finished[0]

    def _stage_1_block(self, targets: np.ndarray) -> StageOne:
        p, d = self.params, self.problem.d
        settings = StageSettings(
            p.alpha_1, p.beta_1, p.eta_1, self.problem.batch_size, hidden=p.hidden
        )
        rules = StageRules(1, p.epochs_1, p.check_every, p.patience, count_threshold=p.tau_1)
        candidates = self.problem.candidates(targets)
        state, epochs = self._run(rules, settings, initial_state(candidates, p.hidden, p.seed, 1))
        A = state.edge_weights()
        kept = p.tau_1 < A if p.mask else np.ones(len(A), dtype=bool)
        if self.problem.required is not None:
            kept |= self.problem.required[candidates.parents, candidates.children]
        sizes = np.bincount(candidates.positions[kept], minlength=len(targets))
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        return StageOne(
            candidates=Candidates(d, targets, indptr, candidates.parents[kept]),
            weights=A[kept],
            W=state.W[kept],
            matrix=candidates.dense(A) if d <= DENSE_LIMIT else None,
            blocks=np.array([len(targets)]),
            epochs=np.array([epochs]),
            identity=self.problem.identity,
        )

    def stage_2(self, candidates: Candidates, stage_1: StageOne | None) -> StageState:
        """Stage 2 on the candidate edges."""
        p = self.params
        settings = StageSettings(
            *(p.alpha_2, p.beta_2, p.eta_2, self.problem.batch_size),
            penalty=p.penalty,
            power_iterations=p.power_iterations,
            hidden=p.hidden,
        )
        rules = StageRules(
            *(2, p.epochs_2, p.check_every, p.patience),
            count_threshold=p.tau_2,
            gamma_increment=p.gamma_increment,
            freeze_threshold=p.freeze_threshold,
            thaw_threshold=p.tau_2,
        )
        state = initial_state(candidates, p.hidden, p.seed, 2)
        if p.warm_start and stage_1 is not None:
            state.W[:] = stage_1.W
        state, self.epochs_2 = self._run(rules, settings, state)
        return state

    def end(self) -> None:
        """Delete the snapshot, now that the result is there."""
        if self.checkpoint is not None:
            self.checkpoint.remove()

    def _run(
        self, rules: StageRules, settings: StageSettings, state: StageState
    ) -> tuple[StageState, int]:
        p, problem, candidates = self.params, self.problem, state.candidates
        key = {"stage": rules.stage, "block": int(candidates.targets[0])}
        part = f" of targets {candidates.targets[0]} to {candidates.targets[-1]}"
        where = part if len(candidates.targets) < problem.d else ""
        progress, escapes_before = StageProgress(), 0
        random = _stream(p.seed, rules.stage, _ORDER)
        saved, self.saved = self.saved, None
        if saved is not None and saved["key"] == key:
            state = snapshots.state_of_tree(saved["state"], candidates)
            progress = snapshots.progress_of_tree(saved["progress"], candidates)
            random.bit_generator.state = saved["random"]
            escapes_before = saved["escapes"]
        keep = [
            None if rows is None else (~rows[:, candidates.targets]).astype(np.float32)
            for rows in (problem.intervened_train, problem.intervened_validation)
        ]
        engine = make_engine(
            *(p.engine, p.device, p.tf32, p.threads),
            *(problem.X_train, keep[0], problem.X_validation, keep[1], state, settings),
        )

        def escapes() -> int:
            return escapes_before + getattr(engine, "escapes", 0)

        def snapshot() -> dict:
            return {
                "key": key,
                "state": snapshots.state_tree(engine.state()),
                "progress": snapshots.progress_tree(progress),
                "random": random.bit_generator.state,
                "escapes": escapes(),
                "finished": [block.tree() for block in self.finished],
                "history": self.history,
                "seconds": self.resumed_after + time.monotonic() - self.started,
            }

        def after_epoch() -> None:
            if p.progress and (progress.epoch - 1) % p.check_every == 0:
                report.show(rules, progress, where)
            if self.checkpoint is not None and self.checkpoint.due():
                self.checkpoint.save(snapshot())

        n = len(problem.X_train)
        report = _Report(sys.stderr if p.progress is True else p.progress)
        try:
            state = run_stage(
                engine, candidates, rules, progress, lambda: random.permutation(n), after_epoch
            )
        finally:
            report.end()
        block = {"block": key["block"]} if rules.stage == 1 else {}
        self.history += [{**block, **record} for record in progress.history]
        self.escapes = escapes()
        return state, progress.epoch


_PRODUCTS_PER_THREAD = 400_000
"""Of an optimisation step. A thread with fewer waits longer for the others than it helps: on an AMD
EPYC, two threads are of no use at d = 10 (230,000 products in all), save a sixth of the time at
d = 20 (970,000) and 40 % at d = 40 (4,000,000)."""


def initial_state(candidates: Candidates, hidden: int, seed: int, stage: int) -> StageState:
    """Where a stage starts: W at zero, the rest uniform (:class:`.SDCD`, Notes)."""
    d, targets = candidates.d, candidates.targets
    random = _stream(seed, stage, _INITIAL)
    limit = 1 / np.sqrt(hidden)
    arrays = {"W": np.zeros((len(candidates.parents), hidden), dtype=np.float32)}
    for name, shape, bound in (
        ("b", (d, hidden), limit / d),
        ("u", (d, hidden), limit),
        ("v", (d, hidden), limit),
        ("c", (d,), limit),
        ("e", (d,), limit),
    ):
        arrays[name] = random.uniform(-bound, bound, shape).astype(np.float32)[targets]
    return StageState(
        candidates=candidates,
        **arrays,
        first={name: np.zeros_like(arrays[name]) for name in PARAMETERS},
        second={name: np.zeros_like(arrays[name]) for name in PARAMETERS},
        step=0,
        left=np.full(d, 1 / np.sqrt(d), dtype=np.float32),
        right=np.full(d, 1 / np.sqrt(d), dtype=np.float32),
    )


def make_engine(
    engine: str,
    device: str,
    tf32: bool,
    threads: int | None,
    X_train: np.ndarray,
    keep_train: np.ndarray | None,
    X_validation: np.ndarray,
    keep_validation: np.ndarray | None,
    state: StageState,
    settings: StageSettings,
) -> Engine:
    """The engine called ``engine``; "auto" is the fastest for this state and these settings."""
    problem = (X_train, keep_train, X_validation, keep_validation, state, settings)
    products = settings.batch_size * settings.hidden * len(state.candidates.parents)
    threads = useful_threads(threads, products, _PRODUCTS_PER_THREAD)
    kernels_can = device == "cpu" and settings.penalty in ("none", "spectral")
    if engine == "auto":
        engine = "numba" if kernels_can and kernels_load(settings.hidden) else "torch"
    if engine == "numba":
        if not kernels_can:
            raise InputError(
                f"SDCD: engine 'numba' has no penalty {settings.penalty!r} on device {device!r}, "
                "expected 'none' or 'spectral' on 'cpu'; choose engine 'auto' or 'torch'"
            )
        from sdcd.estimator.engine_numba import NumbaEngine

        return NumbaEngine(*problem, threads=threads)
    if engine == "torch":
        from sdcd.estimator.engine_torch import TorchEngine

        return TorchEngine(*problem, device=device, threads=threads, tf32=tf32)
    if device != "cpu":
        raise InputError(f"SDCD: engine 'model' runs on 'cpu', not on device {device!r}")
    from sdcd.estimator.model import ModelEngine

    return ModelEngine(*problem)


def _stream(seed: int, stage: int, purpose: int) -> np.random.Generator:
    sequence = np.random.SeedSequence(seed, spawn_key=(stage, purpose))
    return np.random.Generator(np.random.PCG64(sequence))


@cache
def kernels_load(hidden: int) -> bool:
    """Whether the compiled kernels can be had here; one warning if not.

    They use parts of numba that are not public, and so may fail with any error under another
    version of it.
    """
    try:
        from sdcd.estimator.engine_numba import warm_up

        warm_up(hidden)
    except Exception as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())
        warnings.warn(
            f"the compiled kernels cannot be used ({text[:200]}): torch computes instead, slower",
            RuntimeWarning,
            stacklevel=2,
        )
        return False
    return True


class _Report:
    """Says where a stage is: on a terminal always on the same line."""

    def __init__(self, stream: TextIO | bool):
        self.stream = stream
        self.open = False

    def show(self, rules: StageRules, progress: StageProgress, where: str) -> None:
        last = progress.history[-1]
        line = (
            f"stage {rules.stage}{where}, epoch {last['epoch']}/{rules.epochs}: "
            f"validation loss {last['validation_loss']:.4f}, gamma {last['gamma']:.3f}, "
            f"{last['n_edges']} edges" + (", frozen" if last["frozen"] else "")
        )
        self.open = self.stream.isatty()
        text = f"\r{line:<100}" if self.open else f"{line}\n"
        print(text, end="", file=self.stream, flush=True)

    def end(self) -> None:
        if self.open:
            print(file=self.stream, flush=True)
