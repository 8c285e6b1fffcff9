"""SDCD as an estimator: parameters in, graph out; the two stages between."""

import inspect
import re
import sys
import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple, TextIO

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
from sdcd.graphs import dag_trim_edges, is_acyclic
from sdcd.parameters import (
    Kind,
    anything,
    checked,
    closest,
    flag,
    integer,
    number,
    one_of,
    optional,
)

# Streams of random numbers, each a child of the seed: what one draws does not depend on the others.
_SPLIT, _INITIAL, _ORDER = 0, 1, 2


class Edges(NamedTuple):
    """A weighted graph as lists: edge k points from ``parents[k]`` to ``children[k]``."""

    parents: np.ndarray
    children: np.ndarray
    weights: np.ndarray
    in_graph: np.ndarray


class SDCD:
    """Stable Differentiable Causal Discovery.

    Learns a causal graph in two stages. With ``A[i, j] = ||W[i, j, :]||_2`` the dependence of
    variable j on variable i in a network that predicts j's mean and variance:

    1. *Edge preselection*: maximise the penalised log density of each variable given all others;
       keep the edges {A > tau_1}.
    2. *Causal discovery*: solve it anew on these edges, minus gamma * h_rho(A), the spectral
       radius, with gamma rising from 0; then add edges with A >= tau_2 by decreasing weight, except
       those that would close a cycle.

    The model and the loss are in :mod:`sdcd.estimator.model`. Defaults are those of the published
    runs.

    Parameters
    ----------
    alpha_1, alpha_2 : float, default 1e-2, 5e-4
        Weight of sum|W| (L1) in stage 1 and 2.
    beta_1, beta_2 : float, default 2e-4, 5e-3
        Weight of the sum of squares of all trainable parameters (L2).
    eta_1, eta_2 : float, default 2e-3, 1e-3
        Learning rates of Adam.
    tau_1, tau_2 : float, default 0.2, 0.1
        Thresholds on A at the end of stage 1 and of stage 2.
    epochs_1, epochs_2 : int, default 2000
        Epochs of each stage, at most.
    gamma_increment : float, default 0.005
        Rise of gamma per epoch of stage 2 (the paper's gamma^+). As in the published runs, gamma
        is linear from 0 in the first epoch to ``epochs_2 * gamma_increment`` in the last.
    freeze_threshold : float, default 0.01
        gamma stops rising while {A > freeze_threshold} is acyclic, until {A > tau_2} has a cycle.
        The paper's text has tau_2 here.
    penalty : {"spectral", "exp", "exp_squared", "log", "log_squared"}, default "spectral"
        Stage 2's acyclicity penalty: h_rho(A), h_exp(A), h_exp(A * A), h_log(A) or h_log(A * A).
    power_iterations : int, default 15
        Of h_rho, per optimisation step; the vectors are kept from step to step.
    preselect : bool, default True
        Whether there is a stage 1.
    warm_start : bool, default False
        Whether stage 2 starts from stage 1's W instead of zeros.
    mask : bool, default True
        Whether stage 2 is limited to the edges that stage 1 selected.
    hidden : int, default 10
        Hidden units per variable (h).
    batch_size : int, default 256
        Rows of an optimisation step; all training rows, if they are fewer (the published runs have
        thousands).
    validation_fraction : float, default 0.2
        Of the rows, drawn uniformly; not trained on.
    check_every : int, default 20
        Epochs between two looks at the validation loss (and, in stage 2, for cycles).
    patience : int, default 10
        Checks in a row without a new minimum of the validation loss that end a stage (stage 2:
        only while gamma is frozen), the best state then being used. A stage that reaches its last
        epoch uses the last state.
    target_block : int or None, default None
        Run stage 1 for this many targets at a time: memory then grows as d * target_block. The
        targets' problems are independent, so only the early stopping, then decided per block,
        differs. None is all targets together, or 250 at a time with more than 5,000 variables.
    seed : int, default 0
        Of all random draws. Global generators are neither read nor changed.
    engine : {"auto", "numba", "torch", "model"}, default "auto"
        Who computes: compiled kernels, torch with hand-written gradients, or autograd through the
        plain model. "auto" takes the fastest.
    device : str, default "cpu"
        "cpu", "cuda" or "cuda:k".
    tf32 : bool, default False
        Let CUDA round matrix products' inputs to TF32.
    threads : int or None, default None
        CPU threads; None is OMP_NUM_THREADS or, if that is not set, 1. Fewer are started than
        asked for where there are fewer cores, or too little to do. The result does not depend on
        it.
    checkpoint : path or None, default None
        File to save progress to. If it exists, ``fit`` goes on from it; it is deleted at the end.
    checkpoint_interval : float, default 120
        Seconds between two snapshots.
    progress : bool or text stream, default False
        Whether to report each check; True is on standard error. A terminal has one line a stage.

    Attributes
    ----------
    adjacency_ : int8 (d, d)
        The graph, a DAG: ``adjacency_[i, j] == 1`` is an edge i -> j.
    weights_ : float32 (d, d)
        ``A[i, j]`` at the end of stage 2; 0 where the edge was no candidate.
    selected_ : bool (d, d)
        The edges stage 2 was allowed to use.
    stage_1_weights_ : float32 (d, d) or None
        ``A[i, j]`` at the end of stage 1; None without a stage 1 or with more than 5,000 variables.
    edges_ : Edges
        The candidate edges of stage 2 as lists, by child, then parent: ``parents``, ``children``
        (int64), ``weights`` (float32), ``in_graph`` (bool). The matrices above are made from it
        on demand.
    epochs_ : dict
        Epochs run: ``{"stage1": int, "stage2": int}`` (stage 1: most of any block; 0 if skipped).
    stage_1_ : StageOne or None
        Stage 1's result.
    history_ : list of dict
        One record per check: ``stage``, ``block`` (first target; stage 1 only), ``epoch``,
        ``validation_loss``, ``gamma``, ``frozen``, ``n_edges`` (weights above tau_1, tau_2).
    log_domain_escapes_ : int
        Steps at which A was outside the domain of h_log (0 for the other penalties).
    batch_size_ : int
        Rows of an optimisation step: ``batch_size``, or the number of training rows.
    resumed_after_ : float
        Seconds of work in the checkpoint that the last fit went on from; 0 if there was none.
    n_features_in_ : int

    Notes
    -----
    Random draws come from numpy's PCG64, one stream per purpose, keyed by (seed, stage, purpose):
    the rows' permutation, whose first rows validate; for each stage b, u, v (d, h), c, e (d,),
    uniform on +-1/(d sqrt(h)) for b and +-1/sqrt(h) for the others; for each stage a permutation of
    the training rows per epoch. W starts at zero. Blocks of targets take their part of the same
    draws.
    """

    def __init__(
        self,
        *,
        alpha_1: float = 1e-2,
        beta_1: float = 2e-4,
        eta_1: float = 2e-3,
        tau_1: float = 0.2,
        epochs_1: int = 2000,
        alpha_2: float = 5e-4,
        beta_2: float = 5e-3,
        eta_2: float = 1e-3,
        tau_2: float = 0.1,
        epochs_2: int = 2000,
        gamma_increment: float = 0.005,
        freeze_threshold: float = 0.01,
        penalty: str = "spectral",
        power_iterations: int = 15,
        preselect: bool = True,
        warm_start: bool = False,
        mask: bool = True,
        hidden: int = 10,
        batch_size: int = 256,
        validation_fraction: float = 0.2,
        check_every: int = 20,
        patience: int = 10,
        target_block: int | None = None,
        seed: int = 0,
        engine: str = "auto",
        device: str = "cpu",
        tf32: bool = False,
        threads: int | None = None,
        checkpoint: str | Path | None = None,
        checkpoint_interval: float = 120.0,
        progress: bool | TextIO = False,
    ):
        for name, value in locals().items():
            if name != "self":
                setattr(self, name, value)

    def get_params(self, deep: bool = True) -> dict:
        """The parameters by name; ``deep`` is there for scikit-learn and changes nothing."""
        return {name: getattr(self, name) for name in _PARAMETERS}

    def set_params(self, **params) -> "SDCD":
        """Set parameters; :class:`InputError` if one is unknown, with the nearest."""
        for name, value in params.items():
            if name not in _PARAMETERS:
                raise InputError(
                    f"SDCD has no parameter {name!r}{closest(name, _PARAMETERS)} "
                    f"(known: {', '.join(_PARAMETERS)})"
                )
            setattr(self, name, value)
        return self

    def fit(
        self,
        X: np.ndarray,
        intervened: np.ndarray | None = None,
        *,
        stage_1: StageOne | None = None,
        forbidden: np.ndarray | None = None,
        required: np.ndarray | None = None,
    ) -> "SDCD":
        """Learn the graph.

        Parameters
        ----------
        X : float (n, d)
            Values, one row per sample; standardise them first.
        intervened : bool (n, d) or None
            Whether the sample's value of the variable was set by a (perfect) intervention.
        stage_1 : StageOne or None
            Stage 1's result, if it was computed before by :meth:`fit_stage_1` and gathered; not
            with edges that are forbidden or required.
        forbidden, required : bool (d, d) or None
            Edges that may not be, and edges that must be (``[i, j]`` is i -> j): the former are
            candidates in neither stage, the latter stay whatever their weight. Required edges must
            be acyclic and not forbidden. See :mod:`sdcd.data.knowledge`.

        Returns
        -------
        SDCD
            itself, with the attributes listed above.

        Raises
        ------
        InputError
            If a parameter or the data are not as they must be, or a checkpoint is of another fit.
        MethodFailure
            ``nan`` if the optimisation diverges; ``unavailable`` without the device asked for.
        """
        own = self._checked()
        problem = _Problem.of(X, intervened, own).knowing(forbidden, required)
        if stage_1 is not None and not self.preselect:
            raise InputError("stage_1: given to a fit with preselect=False, which has no stage 1")
        if stage_1 is not None and stage_1.identity != problem.identity:
            raise InputError(
                "stage_1: learned from other data or with other settings than this fit's"
            )
        run = _Run(own, problem, "fit")
        if stage_1 is None and self.preselect:
            stage_1 = run.stage_1(np.arange(problem.d))
        candidates = problem.candidates() if stage_1 is None else stage_1.candidates
        state = run.stage_2(candidates, stage_1)
        run.end()

        weights = state.edge_weights()
        ends = candidates.parents, candidates.children
        rank = weights
        if problem.required is not None:
            # First of all, so that no other edge can stand in their way.
            first = weights.max(initial=0.0) + own.tau_2 + 1
            rank = np.where(problem.required[ends], first, weights)
        kept = dag_trim_edges(*ends, rank, problem.d, threshold=own.tau_2)
        self.n_features_in_ = problem.d
        self.edges_ = Edges(*ends, weights, kept)
        self.stage_1_ = stage_1
        self.history_ = run.history
        self.epochs_ = {
            "stage1": 0 if stage_1 is None else int(stage_1.epochs.max()),
            "stage2": run.epochs_2,
        }
        self.log_domain_escapes_ = run.escapes
        self.batch_size_ = problem.batch_size
        self.resumed_after_ = run.resumed_after
        return self

    def fit_stage_1(
        self,
        X: np.ndarray,
        intervened: np.ndarray | None = None,
        targets: Iterable[int] | None = None,
    ) -> StageOne:
        """Run stage 1 for some targets only (default: all).

        The results for all targets, from whatever machines, go through
        :func:`~sdcd.estimator.stage_one.gather` into ``fit(..., stage_1=...)``. The targets given
        stop early together (or, if more than ``target_block``, block by block). Parameters, errors
        and ``checkpoint`` as for :meth:`fit`.
        """
        own = self._checked()
        problem = _Problem.of(X, intervened, own)
        targets = np.arange(problem.d) if targets is None else np.unique(np.fromiter(targets, int))
        if not len(targets) or targets[0] < 0 or targets[-1] >= problem.d:
            raise InputError(f"targets: expected some of the variables 0 to {problem.d - 1}")
        run = _Run(own, problem, f"stage 1 of {snapshots.digest(targets)}")
        result = run.stage_1(targets)
        run.end()
        self.resumed_after_ = run.resumed_after
        return result

    def stage_1_params(self) -> dict:
        """The parameters that :meth:`fit_stage_1` depends on, by name; empty without a stage 1."""
        return {name: getattr(self, name) for name in _FIT_STAGE_1} if self.preselect else {}

    def _fitted(self) -> Edges:
        if not hasattr(self, "edges_"):
            raise AttributeError("this SDCD is not fitted yet: call fit(X, intervened) first")
        return self.edges_

    @property
    def weights_(self) -> np.ndarray:
        """``A[i, j]`` at the end of stage 2: float32 (d, d)."""
        return self._matrix(self._fitted().weights)

    @property
    def adjacency_(self) -> np.ndarray:
        """The graph: int8 (d, d)."""
        return self._matrix(self._fitted().in_graph.astype(np.int8))

    @property
    def selected_(self) -> np.ndarray:
        """The edges stage 2 was allowed to use: bool (d, d)."""
        return self._matrix(np.ones(len(self._fitted().parents), dtype=bool))

    @property
    def stage_1_weights_(self) -> np.ndarray | None:
        """``A[i, j]`` at the end of stage 1, if there was one and it is kept: float32 (d, d)."""
        self._fitted()
        return None if self.stage_1_ is None else self.stage_1_.matrix

    def _matrix(self, values: np.ndarray) -> np.ndarray:
        matrix = np.zeros((self.n_features_in_, self.n_features_in_), dtype=values.dtype)
        matrix[self.edges_.parents, self.edges_.children] = values
        return matrix

    def _checked(self) -> "SDCD":
        """The same parameters as plain Python; :class:`InputError` if one is out of range."""
        return SDCD(
            **{
                name: checked("SDCD", name, value, RANGES[name])
                for name, value in self.get_params().items()
            }
        )


def _device(value: object) -> str:
    if not re.fullmatch(r"cpu|cuda(:\d+)?", str(value)):
        raise ValueError
    return str(value)


_PARAMETERS = tuple(name for name in inspect.signature(SDCD.__init__).parameters if name != "self")
RANGES = {
    **dict.fromkeys(("alpha_1", "beta_1", "eta_1", "tau_1"), number(0)),
    **dict.fromkeys(("alpha_2", "beta_2", "eta_2", "tau_2"), number(0)),
    **dict.fromkeys(("gamma_increment", "freeze_threshold", "checkpoint_interval"), number(0)),
    **dict.fromkeys(("epochs_1", "epochs_2", "power_iterations", "hidden"), integer(1)),
    **dict.fromkeys(("batch_size", "check_every", "patience"), integer(1)),
    **dict.fromkeys(("target_block", "threads"), optional(integer(1))),
    "seed": integer(0),
    "penalty": one_of("spectral", "exp", "exp_squared", "log", "log_squared"),
    "engine": one_of("auto", "numba", "torch", "model"),
    **dict.fromkeys(("preselect", "warm_start", "mask", "tf32"), flag()),
    "validation_fraction": number(above=0, below=1),
    "device": Kind("cpu, cuda or cuda:<index>", _device),
    **dict.fromkeys(("checkpoint", "progress"), anything()),
}
"""What each parameter of :class:`SDCD` may be."""
# What the arithmetic does not depend on, and what only says where and how it is done.
_NO_MATTER = ("threads", "checkpoint", "checkpoint_interval", "progress")
_STAGE_1 = (
    *("alpha_1", "beta_1", "eta_1", "tau_1", "epochs_1", "mask", "hidden", "batch_size"),
    *("validation_fraction", "check_every", "patience", "seed"),
)
_FIT_STAGE_1 = (*_STAGE_1, "target_block", "engine", "device", "tf32", *_NO_MATTER)


@dataclass(frozen=True)
class _Problem:
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

    def knowing(self, forbidden, required) -> "_Problem":
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
        return self.X_train.shape[1]

    @classmethod
    def of(cls, X: np.ndarray, intervened: np.ndarray | None, params: SDCD) -> "_Problem":
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
            f"{data} { ({name: getattr(params, name) for name in _STAGE_1}) }",
        )


class _Run:
    """One call of fit or fit_stage_1: the stages, with snapshots and reports between epochs."""

    def __init__(self, params: SDCD, problem: _Problem, task: str):
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
                name: value for name, value in params.get_params().items() if name not in _NO_MATTER
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
    """Where a stage starts: W at zero, the rest uniform (see :class:`SDCD`, Notes)."""
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
        engine = "numba" if kernels_can and _kernels_load(settings.hidden) else "torch"
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
def _kernels_load(hidden: int) -> bool:
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
