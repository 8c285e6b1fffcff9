"""Every method with a search over causal orders after it: ``NAME+order``, and ``SDCD-ordered``.

Not in the paper. The registry asks :func:`ordered_methods` for them, so a method that is registered
has its ordered twin without a line of code; see :mod:`sdcd.estimator.ordered` for what is done.
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from sdcd.data.knowledge import Knowledge
from sdcd.errors import InputError
from sdcd.estimator.order_graph import GraphRules
from sdcd.estimator.ordered import Ordered, Settings, learn, left_beside, require_rows
from sdcd.methods.contract import FirstStage, Graph, Method
from sdcd.methods.dag import as_dag
from sdcd.parameters import flag, integer, number, one_of, optional

SUFFIX = "+order"
"""Of a method's name, with the search after it."""

OWN_NAMES = MappingProxyType({"SDCD-ordered": "SDCD"})
"""Ordered methods that also have a name of their own, with the method they start from."""

DEFAULTS = MappingProxyType(
    {
        "start": "graph",
        "restarts": None,
        "random_restarts": Settings().random_restarts,
        "min_z": GraphRules().min_z,
        "price": GraphRules().price,
    }
)
"""Settings of the search that a user may want to change; how they were chosen is in
``docs/order-protocol.md``. ``start``: "graph" or "random", see :func:`order_graph`; ``restarts``:
``None`` is :func:`sdcd.estimator.ordered.usual_restarts`."""

RANGES = MappingProxyType(
    {
        "start": one_of("graph", "random"),
        "restarts": optional(integer(0)),
        "random_restarts": flag(),
        "min_z": number(0),
        "price": number(0),
    }
)
"""What each of these settings may be."""

PRELOAD = ("sdcd.methods.ordered:warm_up",)

_PREFIX = "order_"


def warm_up() -> None:
    """Compile, or load from the cache, what a search and SDCD before it use."""
    from sdcd.estimator.engine_numba import warm_up

    warm_up()
    warm_up(Settings().fitting.hidden)


def base_of(name: str) -> str | None:
    """The method that an ordered method starts from; None if it is no ordered method."""
    return OWN_NAMES.get(name) or (name.removesuffix(SUFFIX) if name.endswith(SUFFIX) else None)


def ordered_methods(known: Mapping[str, Method]) -> dict[str, Method]:
    """The ordered twins of all methods in ``known``, those with a name of their own first."""
    names = {name: base for name, base in OWN_NAMES.items() if base in known}
    for name in known:
        # Not after a twin of another kind, such as NAME+prune.
        if "+" not in name and base_of(name) is None:
            names[name + SUFFIX] = name
    return {name: _ordered(known[base], name) for name, base in names.items()}


def order_graph(
    graph: Graph,
    X: np.ndarray,
    intervened: np.ndarray,
    *,
    seed: int,
    start: str = DEFAULTS["start"],
    restarts: int | None = DEFAULTS["restarts"],
    random_restarts: bool = DEFAULTS["random_restarts"],
    min_z: float = DEFAULTS["min_z"],
    price: float = DEFAULTS["price"],
    knowledge: Knowledge | None = None,
    **how,
) -> Graph:
    """Search for the causal order from what a method returned, and take the graph of that order.

    Parameters
    ----------
    graph : Graph
        Made a DAG first by :func:`sdcd.methods.dag.as_dag`, where it is none. Candidates to
        start with are its edges, and those of the array ``selected`` if it has one (SDCD: the
        edges that stage 1 left).
    X, intervened, seed
        As :func:`sdcd.estimator.ordered.learn` takes them.
    start : {"graph", "random"}
        The order to start from: the DAG's, or a random one (the graph then only gives candidates,
        and is not what the search falls back on).
    restarts, random_restarts
        See :class:`sdcd.estimator.ordered.Settings`.
    min_z, price
        See :class:`sdcd.estimator.order_graph.GraphRules`.
    knowledge : Knowledge, optional
        Edges that may not be, and that must be.
    **how
        ``checkpoint``, ``checkpoint_interval``, ``beside``, ``progress`` and ``threads`` of
        :func:`sdcd.estimator.ordered.learn`.

    Returns
    -------
    Graph
        ``weights`` are the gains of the edges (least positive where a gain is not), 0 elsewhere.
        ``arrays`` are the method's, its DAG ``unordered``, and those of
        :class:`~sdcd.estimator.ordered.Ordered`: ``order``, ``gain``, ``gain_se``, ``reversal``,
        ``reversal_se``.
        Among the diagnostics are ``edges_undetermined``, the number of edges whose direction the
        data do not tell; ``order_determined``, whether these are few enough and the search came to
        an end; ``order_from``, "search" or, where the search came to nothing because the data do
        not tell, "start" (its graph after held-out pruning); and then ``warnings``, a list of one
        sentence.
    """
    if start not in ("graph", "random"):
        raise InputError(f"order: start is {start!r}, expected 'graph' or 'random'")
    before = as_dag(graph)
    candidates = before != 0
    if "selected" in graph.arrays:
        candidates = candidates | np.asarray(graph.arrays["selected"], dtype=bool)
    settings = Settings(
        restarts=restarts,
        random_restarts=random_restarts,
        graph=GraphRules(min_z=min_z, price=price),
    )
    clock = time.perf_counter()
    result = learn(
        X,
        intervened,
        start=before if start == "graph" else None,
        candidates=candidates,
        forbidden=None if knowledge is None else knowledge.forbidden,
        required=None if knowledge is None else knowledge.required,
        seed=seed,
        settings=settings,
        **how,
    )
    seconds = time.perf_counter() - clock
    return Graph(
        adjacency=result.adjacency,
        weights=_weights(result),
        diagnostics={
            **{key: value for key, value in graph.diagnostics.items() if key != "threshold"},
            "threshold": 0.0,
            "edges_before_order": int(np.count_nonzero(before)),
            "edges_undetermined": result.undetermined,
            "order_determined": result.determined,
            "order_from": "start" if result.from_start else "search",
            "order_searches": result.searches,
            "order_rounds": result.history,
            "order_networks": result.fitted,
            "order_seconds": round(seconds, 3),
            **({} if result.determined else {"warnings": [warning(result)]}),
        },
        arrays={
            **graph.arrays,
            "unordered": before,
            "order": result.order,
            "gain": result.gain,
            "gain_se": result.gain_se,
            "reversal": result.reversal,
            "reversal_se": result.reversal_se,
        },
    )


def warning(result: Ordered) -> str:
    """What is said where the data do not determine the order."""
    edges = int(np.count_nonzero(result.adjacency))
    kept = "the start's graph, pruned" if result.from_start else "the graph found"
    which = f"{result.undetermined} of {edges} edges"
    if result.from_start:
        # Those counted are of the graph that is kept; it was the other one that was judged.
        which = "more than half of the edges found"
    reason = f"{which} can be turned round at no loss on unseen rows"
    if not result.ended:
        reason = "the search found better orders without end, as it does with too few rows"
    return (
        f"the data do not determine the causal order: {reason}; this is {kept}, see docs/order.md"
    )


def _weights(result: Ordered) -> np.ndarray:
    least = np.finfo(np.float64).tiny
    gain = np.maximum(np.nan_to_num(result.gain, nan=0.0), least)
    return np.where(result.adjacency != 0, gain, 0.0)


def _ordered(base: Method, name: str) -> Method:
    def fit(X, intervened, names, seed, *, progress=False, **params) -> Graph:
        # Before the method has worked in vain.
        require_rows(len(X), Settings())
        own = {key: params.pop(_PREFIX + key) for key in DEFAULTS}
        how = {key: params[key] for key in _SHARED if key in params}
        path = params.get("checkpoint")
        left = None if path is None else left_beside(path)
        if left is None:
            if base.reports:
                params["progress"] = progress
            graph = base.fit(X, intervened, names, seed, **params)
        else:
            graph = _graph_of_tree(left)
        how["beside"] = _tree_of_graph(graph)
        if params.get("knowledge"):
            how["knowledge"] = Knowledge.of(params["knowledge"], names)
        stream = None if progress is False else progress
        return order_graph(graph, X, intervened, seed=seed, progress=stream, **own, **how)

    if hasattr(base.fit, "spec"):
        fit.spec = base.fit.spec
    own_defaults = {_PREFIX + key: value for key, value in DEFAULTS.items()}
    own_ranges = {_PREFIX + key: kind for key, kind in RANGES.items()}
    return replace(
        base,
        name=name,
        defaults=MappingProxyType({**base.defaults, **own_defaults}),
        ranges=MappingProxyType({**base.ranges, **own_ranges}),
        source=f"not in the paper: {base.name}, then a search over causal orders",
        fit=fit,
        module=__name__,
        first_stage=_first_stage(base.first_stage),
        reports=True,
        base=base,
    )


_SHARED = ("checkpoint", "checkpoint_interval", "threads")
"""Parameters that, where a method has them, the search takes too."""


def _tree_of_graph(graph: Graph) -> dict:
    tree = {"adjacency": graph.adjacency, "diagnostics": graph.diagnostics, "arrays": graph.arrays}
    return tree if graph.weights is None else {**tree, "weights": graph.weights}


def _graph_of_tree(tree: dict) -> Graph:
    return Graph(tree["adjacency"], tree.get("weights"), tree["diagnostics"], tree["arrays"])


def _first_stage(base: FirstStage | None) -> FirstStage | None:
    if base is None:
        return None

    def parameters(params):
        return base.parameters({k: v for k, v in params.items() if not k.startswith(_PREFIX)})

    return FirstStage(base.fit, parameters)
