"""SDCD as an estimator: parameters in, graph out; the two stages between."""

import importlib
import inspect
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np

from sdcd.errors import InputError
from sdcd.estimator import checkpoint as snapshots
from sdcd.estimator.fitting import NO_MATTER, STAGE_1_PARAMETERS, Problem, Run
from sdcd.estimator.stage_one import StageOne
from sdcd.graphs import dag_trim_edges
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
        problem = Problem.of(X, intervened, own).knowing(forbidden, required)
        if stage_1 is not None and not self.preselect:
            raise InputError("stage_1: given to a fit with preselect=False, which has no stage 1")
        if stage_1 is not None and stage_1.identity != problem.identity:
            raise InputError(
                "stage_1: learned from other data or with other settings than this fit's"
            )
        run = Run(own, problem, "fit")
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
        self._rows, self._generative = (X, intervened, problem.data), None
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
        problem = Problem.of(X, intervened, own)
        targets = np.arange(problem.d) if targets is None else np.unique(np.fromiter(targets, int))
        if not len(targets) or targets[0] < 0 or targets[-1] >= problem.d:
            raise InputError(f"targets: expected some of the variables 0 to {problem.d - 1}")
        run = Run(own, problem, f"stage 1 of {snapshots.digest(targets)}")
        result = run.stage_1(targets)
        run.end()
        self.resumed_after_ = run.resumed_after
        return result

    def stage_1_params(self) -> dict:
        """The parameters that :meth:`fit_stage_1` depends on, by name; empty without a stage 1."""
        return {name: getattr(self, name) for name in _FIT_STAGE_1} if self.preselect else {}

    def log_density(self, X: np.ndarray, intervened: np.ndarray | None = None) -> np.ndarray:
        """Log density of each value given its row's values of the parents: float64 (n, d).

        In nats, NaN where ``intervened``. The sum over a row is the log density of its values that
        no intervention set, given those that one did. See
        :meth:`sdcd.estimator.generative.GenerativeModel.log_density`, and :meth:`generative`.
        """
        return self.generative().log_density(X, intervened)

    def sample(self, n: int, do: Mapping | None = None, seed: int = 0) -> np.ndarray:
        """Draw rows, parents first: float64 (n, d), in the units of the data.

        ``do`` maps columns, or their names ``X0``, ``X1``, ..., to the values they are set to. See
        :meth:`sdcd.estimator.generative.GenerativeModel.sample`, and :meth:`generative`.
        """
        return self.generative().sample(n, do, seed)

    def effects(self, values=None, *, n: int = 4000, seed: int = 0):
        """How the mean of each variable moves if another one is set: ``shift``, ``shift_se``.

        ``values`` says to what, by default one standard deviation above the mean. See
        :meth:`sdcd.estimator.generative.GenerativeModel.effects`, and :meth:`generative`.
        """
        return self.generative().effects(values, n=n, seed=seed)

    def generative(self):
        """The model of the data along the graph: fitted at the first call, and kept.

        SDCD ends with a graph; the model is fitted to that graph, on the same rows, by
        :func:`sdcd.estimator.generative.fit_generative`. ``fit`` keeps a reference to the arrays it
        was given for this.

        Returns
        -------
        sdcd.estimator.generative.GenerativeModel

        Raises
        ------
        InputError
            If the arrays given to ``fit`` have been changed since.
        """
        self._fitted()
        if self._generative is None:
            # By name: a fit ends before this, and its result does not depend on it.
            generative = importlib.import_module("sdcd.estimator.generative")
            own = self._checked()
            X, intervened, data = self._rows
            if Problem.of(X, intervened, own).data != data:
                raise InputError("the arrays that SDCD was fitted to have changed since")
            self._generative = generative.fit_generative(
                self.adjacency_, X, intervened, seed=own.seed, threads=own.threads
            )
        return self._generative

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
_FIT_STAGE_1 = (*STAGE_1_PARAMETERS, "target_block", "engine", "device", "tf32", *NO_MATTER)
