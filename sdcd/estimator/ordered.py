"""From data and a start to a causal order and its graph, with the gain of every edge.

Not in the paper. The rows are divided once at random into three parts: networks are *fitted* to the
first, every choice is made by the *scored* rows, and the gains that are reported are those of the
*judged* rows, by which nothing was chosen.

A search is: :func:`~sdcd.estimator.ordering.descend` from an order; the graph of the order found,
from *all* predecessors (:mod:`sdcd.estimator.order_graph`); if it has edges that were no
candidates, these become candidates, and both steps are done again. Restarts are further searches
from the best order, perturbed, or from random ones. The result of a restart counts if its graph's
score is better by the rule for a move: among orders that the data do not tell apart, the first
stays.

*Whether the data determine the order* is asked of the judged rows at the end. An edge is
*undetermined* if turning it round (:mod:`sdcd.estimator.directions`) loses less than a move has to
gain. Where that is so of more than half of the edges, an order can be better only by needing fewer
of them, and the graph of a wrong one has many that are false. A search that finds moves without end
is another sign: with few rows, among d (d - 1) moves there is always one that counts by chance. In
both cases the graph found stays only if it is better than that of the starting order and than the
start's own edges after held-out pruning (:mod:`sdcd.estimator.pruning`, on the rows that are not
judged), again by the rule for a move and on the judged rows; else the latter are the result.
"""

import time
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import TextIO

import numpy as np

from sdcd.data.checks import dense_values, intervention_mask
from sdcd.data.paths import reachable
from sdcd.errors import DataError, InputError
from sdcd.estimator.checkpoint import Checkpoint, digest, snapshot
from sdcd.estimator.directions import reversals
from sdcd.estimator.local_scores import Family, Fitting, LocalScores, Network, difference
from sdcd.estimator.order_graph import GraphRules, graph_of_order, least_gains, without
from sdcd.estimator.ordering import SearchRules, SearchState, complying, descend, perturbed
from sdcd.estimator.pruning import prune
from sdcd.graphs import is_acyclic, topological_order


@dataclass(frozen=True)
class Settings:
    """Everything that the result depends on but the data, the start and the seed.

    Attributes
    ----------
    scored_fraction, judged_fraction : float
        Of the rows; the rest is fitted to.
    fitting : Fitting
    search : SearchRules
    graph : GraphRules
    widenings : int
        How often candidates may grow in a search.
    blanket : float
        A variable is a candidate of another if, in networks that predict each variable from all
        others, setting its weights to zero loses so many nats per row.
    restarts : int or None
        Searches after the first; None: :func:`usual_restarts`.
    random_restarts : bool
        Whether these start from random orders, not from the perturbed best one.
    undetermined : float
        Share of edges that may be undetermined before the order is called so.
    """

    scored_fraction: float = 0.2
    judged_fraction: float = 0.1
    fitting: Fitting = field(default_factory=Fitting)
    search: SearchRules = field(default_factory=SearchRules)
    graph: GraphRules = field(default_factory=GraphRules)
    widenings: int = 3
    blanket: float = 0.3
    restarts: int | None = None
    random_restarts: bool = False
    undetermined: float = 0.5

    def restarts_of(self, d: int) -> int:
        """Restarts with d variables."""
        return usual_restarts(d) if self.restarts is None else self.restarts


def usual_restarts(d: int) -> int:
    """Restarts that cost what two do at d = 20: 2 (20 / d)^3, rounded down, at most 16.

    A round fits about 2 d^2 networks with about d / 2 parents.
    """
    return min(16, int(2 * (20 / d) ** 3))


@dataclass(frozen=True)
class Ordered:
    """What :func:`learn` found.

    Attributes
    ----------
    adjacency : int8 (d, d)
        The graph, a DAG.
    order : int64 (d,)
        The variables, causes first.
    gain, gain_se : float64 (d, d)
        Of each edge: nats per judged row that its child's score loses without it, and the standard
        error. NaN for other pairs.
    reversal, reversal_se : float64 (d, d)
        Of each edge: what its two ends lose if it is turned round, in nats per judged row, and its
        standard error (:mod:`sdcd.estimator.directions`). NaN for other pairs.
    undetermined : int
        Edges whose reversal is less than a move has to gain.
    ended : bool
        Whether the search that found the order came to an end before its last round.
    determined : bool
        Whether it did, and undetermined edges are no more than the part
        :attr:`Settings.undetermined` of all.
    from_start : bool
        Whether ``adjacency`` is the pruned graph of the start, and ``order`` one of its orders: see
        the module.
    search_gain, search_gain_se : float
        Where the order is not determined and there was a graph to start from: by how many nats per
        judged row the graph found is better than that of the starting order; else NaN.
    candidates : bool (d, d)
        At the end.
    history : list of dict
        A record per round, see :class:`~sdcd.estimator.ordering.SearchState`.
    searches : list of dict
        A record per search: ``score`` (nats per scored row) and ``edges`` of its graph, whether it
        ``ended`` before its last round and was ``kept``, and the ``seconds`` of processor time that
        all had taken by then.
    graphs : list of int8 (d, d)
        The graph of each search.
    fitted : int
        Networks fitted in all.
    """

    adjacency: np.ndarray
    order: np.ndarray
    gain: np.ndarray
    gain_se: np.ndarray
    reversal: np.ndarray
    reversal_se: np.ndarray
    undetermined: int
    ended: bool
    determined: bool
    from_start: bool
    search_gain: float
    search_gain_se: float
    candidates: np.ndarray
    history: list[dict]
    searches: list[dict]
    graphs: list[np.ndarray]
    fitted: int


def learn(
    X: np.ndarray,
    intervened: np.ndarray | None = None,
    *,
    start: np.ndarray | None = None,
    order: np.ndarray | None = None,
    candidates: np.ndarray | None = None,
    forbidden: np.ndarray | None = None,
    required: np.ndarray | None = None,
    seed: int = 0,
    settings: Settings | None = None,
    engine: str = "auto",
    threads: int | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_interval: float = 120.0,
    beside: dict | None = None,
    progress: TextIO | None = None,
) -> Ordered:
    """Find an order and its graph: see the module.

    Parameters
    ----------
    X : float (n, d)
        Values, one row per sample, standardised.
    intervened : bool (n, d) or None
        Whether the sample's value of the variable was set by a (perfect) intervention.
    start : (d, d) or None
        The DAG to start from, and to fall back on: its edges are candidates.
    order : int (d,) or None
        Where the search starts; None is a causal order of ``start``, or a random one.
    candidates : bool (d, d) or None
        Pairs that may be edges, in either direction, to start with. Those that
        :attr:`Settings.blanket` finds are added.
    forbidden, required : bool (d, d) or None
        Edges that may not be, and that must be: :class:`sdcd.data.knowledge.Knowledge`. ``start``
        and ``order`` are made to comply.
    seed : int, default 0
        Of the division of the rows, the networks' start, the order of rows, and perturbations.
    settings : Settings, optional
    engine, threads
        As :class:`~sdcd.estimator.SDCD` takes them; on the CPU. The result does not depend on
        ``threads``.
    checkpoint : path or None
        File to save progress to, between rounds. If it exists, the search goes on from it; it is
        deleted at the end.
    checkpoint_interval : float, default 120
        Seconds between two snapshots.
    beside : dict or None
        A tree that goes into every snapshot, for :func:`left_beside`.
    progress : text stream or None
        Gets a line a round.

    Returns
    -------
    Ordered

    Raises
    ------
    InputError
        If shapes differ, a value is not finite, a setting is out of range, a part of the rows has
        fewer than two, ``start`` or the required edges have a cycle, an edge is both required and
        forbidden, or the checkpoint is of another search.
    MethodFailure
        ``nan`` if a network's density is not finite.
    """
    settings = settings or Settings()
    X, intervened = _checked(X, intervened, order, candidates, seed, settings)
    start, forbidden, required = _checked_edges(X.shape[1], start, forbidden, required)
    if start is not None:
        candidates = start if candidates is None else (np.asarray(candidates) != 0) | start
        order = topological_order(start) if order is None else order
    run = _Run(X, intervened, (forbidden, required), seed, settings, engine, threads, progress)
    identity = {
        "task": _TASK,
        "seed": int(seed),
        "settings": asdict(settings),
        "data": digest(X, intervened),
        "start": digest(
            *(
                None if part is None else np.asarray(part)
                for part in (start, order, candidates, forbidden, required)
            )
        ),
    }
    file = None
    if checkpoint is not None:
        file = Checkpoint(checkpoint, checkpoint_interval, identity)
        run.save_to(file, beside or {})
    if file is None or (saved := file.load()) is None:
        run.start(order, candidates)
    else:
        run.restore(saved)
    run.searches()
    result = run.result(start)
    if file is not None:
        file.remove()
    return result


def left_beside(checkpoint: str | Path) -> dict | None:
    """``beside`` of the search whose snapshot the file is; None if it is none."""
    path = Path(checkpoint)
    if not path.exists():
        return None
    content, identity = snapshot(path)
    return content["beside"] if identity.get("task") == _TASK else None


_TASK = "order"


class _Run:
    """A call of :func:`learn`: what is fitted, the search in progress, the best so far."""

    def __init__(self, X, intervened, known_edges, seed, settings, engine, threads, progress):
        n, d = X.shape
        self.allowed, self.required = ~known_edges[0], known_edges[1]
        self.precedes = reachable(self.required)
        self.restarts = settings.restarts_of(d)
        self.settings, self.seed, self.progress = settings, seed, progress
        rows = np.random.default_rng([seed, _ROWS]).permutation(n)
        n_scored, n_judged = _sizes(n, settings)
        self.X, self.intervened, self.unjudged = X, intervened, np.sort(rows[: n - n_judged])
        parts = np.split(rows, [n - n_scored - n_judged, n - n_judged])
        self.engine, self.threads = engine, threads
        self.scores = LocalScores(
            *(X, intervened, *map(np.sort, parts)), settings.fitting, seed, engine, threads
        )
        free = np.full(d, n) if intervened is None else (~intervened).sum(axis=0)
        self.least = least_gains(free, settings.fitting.hidden)
        self.state: SearchState | None = None
        self.widened = 0
        self.best: _Best | None = None
        self.records: list[dict] = []
        self.graphs: list[np.ndarray] = []
        self.known: dict[Family, Family] = {}
        self.judged: dict[Family, Network] = {}
        """Of the families in ``known``."""
        self.seconds = -time.process_time()
        self.file: Checkpoint | None = None

    def save_to(self, file: Checkpoint, beside: dict) -> None:
        self.file, self.beside = file, beside

    def start(self, order, candidates) -> None:
        d, scores = self.scores.d, self.scores
        if order is None:
            order = np.random.default_rng([self.seed, _RANDOM_START]).permutation(d)
        pairs = np.zeros((d, d), dtype=bool) if candidates is None else np.asarray(candidates) != 0
        whole = [(j, tuple(i for i in range(d) if i != j)) for j in range(d)]
        scores.fit(((family, None) for family in whole), rough=True)
        for family in whole:
            pairs[list(family[1]), family[0]] |= (
                scores.losses_without(family) > self.settings.blanket
            )
        # Networks that lean on their children are a bad start for those that may not.
        scores.keep(())
        pairs |= pairs.T
        np.fill_diagonal(pairs, False)
        pairs = pairs & self.allowed | self.required
        self.state = SearchState(complying(np.asarray(order).tolist(), self.precedes), pairs)
        self.first_order = list(self.state.order)

    def searches(self) -> None:
        """All searches that are left."""
        settings, d = self.settings, self.scores.d
        while True:
            state = self.state
            descend(self.scores, state, settings.search, self._after_round, self.precedes)
            # A graph's families are not those of the search.
            kept = dict(self.scores.networks)
            graph = self._graph(state.order)
            new = [
                (i, j) for j, (_, parents) in graph.items() for i in parents
                if not state.candidates[i, j]
            ]  # fmt: skip
            if new and self.widened < settings.widenings:
                self.widened += 1
                for i, j in new:
                    state.candidates[i, j] = True
                    state.candidates[j, i] = self.allowed[j, i]
                for family in graph.values():
                    kept[family] = self.scores[family]
                self.scores.networks = kept
                state.done = False
                continue
            self._finished(graph)
            if state.search >= self.restarts:
                return
            random = np.random.default_rng([self.seed, _RESTART, state.search])
            moved = d if settings.random_restarts else max(2, d // 4)
            order = complying(perturbed(self.best.order, moved, random), self.precedes)
            self.state = SearchState(
                order, state.candidates, search=state.search + 1, history=state.history
            )
            self.widened = 0

    def _graph(self, order: list[int]) -> dict[int, Family]:
        """The order's graph; its families are then fitted."""
        self.scores.keep(())
        graph = graph_of_order(
            *(self.scores, order, self.least, self.settings.graph, self.known),
            *(self.allowed, self.required),
        )
        for family in graph.values():
            if family in self.scores.networks:
                self.judged[family] = self.scores[family]
            else:
                self.scores.networks[family] = self.judged[family]
        return graph

    def _finished(self, graph: dict[int, Family]) -> None:
        """Keep the search's result if it is the best."""
        scores = self.scores
        rows = np.sum([scores[family].rows for family in graph.values()], axis=0, dtype=np.float64)
        better = self.best is None
        if not better:
            better = self._counts(*difference(rows, self.best.rows))
        edges = sum(len(parents) for _, parents in graph.values())
        adjacency = np.zeros((scores.d, scores.d), dtype=np.int8)
        for j, (_, parents) in graph.items():
            adjacency[list(parents), j] = 1
        self.graphs.append(adjacency)
        seconds = round(self.seconds + time.process_time(), 3)
        self.records.append(
            {
                "score": float(rows.mean()),
                "edges": edges,
                "ended": self.state.done,
                "kept": better,
                "seconds": seconds,
            }
        )
        if better:
            self.best = _Best(list(self.state.order), graph, rows, self._needed(graph))

    def _needed(self, graph: dict[int, Family]) -> dict[Family, Network]:
        """The networks of a graph."""
        return {family: self.judged[family] for family in graph.values()}

    def result(self, start: np.ndarray | None) -> Ordered:
        """The best search's order and graph, judged, or those of the pruned start."""
        found, edges = self.best, self._judge(self.best.graph, self.best.networks)
        gained = float("nan"), float("nan")
        ended = [record["ended"] for record in self.records if record["kept"]][-1]
        determined, from_start = ended and self._determined(edges), False
        if not determined and start is not None:
            first = self._graph(self.first_order)
            gained = difference(self._total(found.graph), self._total(first))
            pruned = self._fitted(self._pruned(start))
            better = difference(self._total(found.graph), self._total(pruned))
            from_start = not (self._counts(*gained) and self._counts(*better))
            if from_start:
                edges = self._judge(pruned, self._needed(pruned))
        d = self.scores.d
        adjacency = np.zeros((d, d), dtype=np.int8)
        arrays = {name: np.full((d, d), np.nan) for name in _EDGE_ARRAYS}
        for edge, values in edges.items():
            adjacency[edge] = 1
            for name, value in zip(_EDGE_ARRAYS, values, strict=True):
                arrays[name][edge] = value
        order = topological_order(adjacency) if from_start else found.order
        return Ordered(
            adjacency=adjacency,
            order=np.array(order, dtype=np.int64),
            **arrays,
            undetermined=sum(not self._counts(*values[2:]) for values in edges.values()),
            ended=ended,
            determined=determined,
            from_start=from_start,
            search_gain=gained[0],
            search_gain_se=gained[1],
            candidates=self.state.candidates,
            history=self.state.history,
            searches=self.records,
            graphs=self.graphs,
            fitted=self.scores.fits,
        )

    def _judge(self, graph: dict[int, Family], networks: dict) -> dict[tuple[int, int], tuple]:
        """For each edge :data:`_EDGE_ARRAYS`, from the judged rows."""
        scores = self.scores
        # Nothing of a search, some of which was fitted for a short time only.
        scores.networks = dict(networks)
        turned = reversals(scores, graph)
        scores.networks = dict(networks)
        scores.fit(
            ((without(family, i), family) for family in graph.values() for i in family[1]),
            again=[family for family in graph.values() if family[1]],
        )
        return {
            (i, j): (
                *difference(scores.judged(family), scores.judged(without(family, i))),
                *turned[i, j],
            )
            for j, family in graph.items()
            for i in family[1]
        }

    def _pruned(self, start: np.ndarray) -> np.ndarray:
        """The graph's edges that help to predict unseen rows, by the rows that are not judged."""
        return prune(
            start,
            self.X[self.unjudged],
            None if self.intervened is None else self.intervened[self.unjudged],
            seed=self.seed,
            engine=self.engine,
            threads=self.threads,
            keep=self.required,
        ).adjacency

    def _fitted(self, adjacency: np.ndarray) -> dict[int, Family]:
        """The families of a graph that may be none of a search's; they are then fitted."""
        parents = np.asarray(adjacency) != 0
        graph = {j: (j, tuple(np.flatnonzero(parents[:, j]).tolist())) for j in range(len(parents))}
        new = [family for family in graph.values() if family not in self.judged]
        self.scores.keep(())
        self.scores.fit([], anew=new)
        self.judged |= {family: self.scores[family] for family in new}
        return graph

    def _total(self, graph: dict[int, Family]) -> np.ndarray:
        """Score of a graph, of each judged row."""
        self.scores.networks.update(self._needed(graph))
        rows = [self.scores.judged(family) for family in graph.values()]
        return np.sum(rows, axis=0, dtype=np.float64)

    def _determined(self, edges: dict[tuple[int, int], tuple]) -> bool:
        doubtful = sum(not self._counts(*values[2:]) for values in edges.values())
        return doubtful <= self.settings.undetermined * len(edges)

    def _counts(self, gain: float, se: float) -> bool:
        """The rule for a move."""
        rules = self.settings.search
        return gain >= rules.min_gain and gain > rules.min_z * se

    def _after_round(self) -> None:
        if self.progress is not None:
            last = self.state.history[-1]
            print(
                f"order: search {last['search'] + 1}/{self.restarts + 1}, "
                f"round {last['round']}: score {last['score']:.4f}, {last['fitted']} networks "
                f"fitted, {last['moves']} moves gain {last['gain']:.4f}",
                file=self.progress,
                flush=True,
            )
        if self.file is not None and self.file.due():
            self.file.save(self.tree())

    def tree(self) -> dict:
        """All that :meth:`restore` needs."""
        state, best = self.state, self.best
        tree = {
            "scores": self.scores.tree(),
            "state": {**vars(state), "order": np.array(state.order)},
            "first_order": self.first_order,
            "widened": self.widened,
            "records": self.records,
            "graphs": list(self.graphs),
            "seconds": self.seconds + time.process_time(),
            "beside": self.beside,
        }
        tree["judged"] = _only(self.scores, self.judged).tree()
        tree["known"] = [[j, list(pa), list(kept)] for (j, pa), (_, kept) in self.known.items()]
        if best is not None:
            tree["best"] = {"order": np.array(best.order)}
            tree["best"]["graph"] = [[j, list(best.graph[j][1])] for j in best.graph]
        return tree

    def restore(self, tree: dict) -> None:
        """Undo :meth:`tree`."""
        self.scores.restore(tree["judged"])
        self.judged = dict(self.scores.networks)
        self.known = {(j, tuple(pa)): (j, tuple(kept)) for j, pa, kept in tree["known"]}
        if "best" in tree:
            saved = tree["best"]
            graph = {j: (j, tuple(parents)) for j, parents in saved["graph"]}
            rows = [self.judged[family].rows for family in graph.values()]
            rows = np.sum(rows, axis=0, dtype=np.float64)
            self.best = _Best(saved["order"].tolist(), graph, rows, self._needed(graph))
        self.scores.restore(tree["scores"])
        self.state = SearchState(**{**tree["state"], "order": tree["state"]["order"].tolist()})
        self.widened, self.records = tree["widened"], tree["records"]
        self.graphs, self.first_order = tree["graphs"], tree["first_order"]
        self.seconds = tree["seconds"] - time.process_time()


@dataclass(frozen=True)
class _Best:
    order: list[int]
    graph: dict[int, Family]
    rows: np.ndarray
    networks: dict


_ROWS, _RANDOM_START, _RESTART = 0, 1, 2
_EDGE_ARRAYS = ("gain", "gain_se", "reversal", "reversal_se")


def _only(scores: LocalScores, networks: dict) -> LocalScores:
    import copy

    other = copy.copy(scores)
    other.networks = networks
    return other


def require_rows(n: int, settings: Settings) -> None:
    """Refuse data of too few rows to fit, score and judge; :class:`DataError`."""

    def least(n):
        scored, judged = _sizes(n, settings)
        return min(scored, judged, n - scored - judged)

    # A standard error needs two.
    if least(n) < 2:
        fewest = next(more for more in count(n) if least(more) >= 2)
        raise DataError(
            f"{n} rows, expected at least {fewest} for a search over orders, which scores "
            f"{settings.scored_fraction:.0%} of them, judges {settings.judged_fraction:.0%} and "
            "fits to the others"
        )


def _sizes(n: int, settings: Settings) -> tuple[int, int]:
    return int(settings.scored_fraction * n), int(settings.judged_fraction * n)


def _checked(X, intervened, order, candidates, seed, settings):
    X = dense_values(X)
    intervened = intervention_mask(intervened, X.shape)
    n, d = X.shape
    if order is not None and sorted(np.asarray(order).tolist()) != list(range(d)):
        raise InputError(f"order: expected the variables 0 to {d - 1}, each once")
    if candidates is not None and np.shape(candidates) != (d, d):
        raise InputError(f"candidates have shape {np.shape(candidates)}, expected {(d, d)}")
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"order: seed is {seed!r}, expected an integer not below 0")
    fractions = settings.scored_fraction, settings.judged_fraction
    if min(fractions) <= 0 or sum(fractions) >= 1:
        raise InputError(
            f"order: scored_fraction, judged_fraction are {fractions}, expected above 0, "
            "together below 1"
        )
    require_rows(n, settings)
    return X, intervened


def _checked_edges(d: int, start, forbidden, required):
    masks = []
    for name, mask in (("start", start), ("forbidden", forbidden), ("required", required)):
        mask = np.zeros((d, d), dtype=bool) if mask is None else np.asarray(mask) != 0
        if mask.shape != (d, d):
            raise InputError(f"order: {name} has shape {mask.shape}, expected {(d, d)}")
        masks.append(mask)
    begun, forbidden, required = masks
    both = np.argwhere(forbidden & required)
    if len(both):
        i, j = both[0]
        raise InputError(f"order: the edge {i} -> {j} is both required and forbidden")
    # What would close a cycle with required edges may not be.
    forbidden = forbidden | reachable(required).T
    begun = begun & ~forbidden | required
    for name, edges in (("required", required), ("start, with the required edges,", begun)):
        if not is_acyclic(edges):
            raise InputError(f"order: {name} has a cycle, expected a DAG")
    return None if start is None else begun, forbidden, required
