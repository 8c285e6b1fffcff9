"""Every registered method with held-out pruning after it: ``NAME+prune``, and ``SDCD-pruned``.

Not in the paper. The registry asks :func:`pruned_methods` for them, so a method that is registered
has its pruned twin without a line of code; see :mod:`sdcd.estimator.pruning` for what pruning does.
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from sdcd.data.knowledge import Knowledge
from sdcd.estimator.pruning import DEFAULTS, RANGES, Pruned, prune
from sdcd.methods.contract import FirstStage, Graph, Method
from sdcd.methods.dag import as_dag

SUFFIX = "+prune"
"""Of a method's name, with pruning after it."""

OWN_NAMES = MappingProxyType({"SDCD-pruned": "SDCD"})
"""Pruned methods that also have a name of their own, with the method that is pruned."""

PRELOAD = ("sdcd.estimator.engine_numba:warm_up",)

_PREFIX = "prune_"


def base_of(name: str) -> str | None:
    """The method that a pruned method prunes; None if it is no pruned method."""
    return OWN_NAMES.get(name) or (name.removesuffix(SUFFIX) if name.endswith(SUFFIX) else None)


def pruned_methods(known: Mapping[str, Method]) -> dict[str, Method]:
    """The pruned twins of all methods in ``known``, those with a name of their own first."""
    names = {name: base for name, base in OWN_NAMES.items() if base in known}
    for name in known:
        if base_of(name) is None:
            names[name + SUFFIX] = name
    return {name: _pruned(known[base], name) for name, base in names.items()}


def ranked(result: Pruned, weights: np.ndarray | None) -> np.ndarray:
    """Weights that rank the edges which stay above all other pairs.

    The method's own weights, those of edges that stay raised by the largest of all; for a method
    without weights, the gains where they are positive.

    Returns
    -------
    float64 (d, d)
    """
    if weights is None:
        return np.maximum(np.nan_to_num(result.gain, nan=0.0), 0.0)
    own = np.abs(weights).astype(np.float64)
    return own + own.max(initial=0.0) * (result.adjacency != 0)


def prune_graph(
    graph: Graph, X: np.ndarray, intervened: np.ndarray, *, seed: int, **settings
) -> Graph:
    """Prune what a method returned.

    Parameters
    ----------
    graph : Graph
        Made a DAG first by :func:`sdcd.methods.dag.as_dag`, where it is none.
    X, intervened, seed, **settings
        As :func:`sdcd.estimator.pruning.prune` takes them.

    Returns
    -------
    Graph
        With the method's diagnostics and arrays, and those of pruning: ``unpruned`` int8 (d, d),
        ``gain`` and ``gain_se`` float64 (d, d).

    Raises
    ------
    MethodFailure
        As :func:`sdcd.methods.dag.as_dag` and :func:`sdcd.estimator.pruning.prune` do.
    """
    before = as_dag(graph)
    start = time.perf_counter()
    result = prune(before, X, intervened, seed=seed, **settings)
    seconds = time.perf_counter() - start
    own = {key: value for key, value in graph.diagnostics.items() if key != "threshold"}
    if graph.weights is not None:
        # Of the weights as ranked: the least above those of all pairs without an edge.
        own["threshold"] = float(np.nextafter(np.abs(graph.weights).max(initial=0.0), np.inf))
    return Graph(
        adjacency=result.adjacency,
        weights=ranked(result, graph.weights),
        diagnostics={
            **own,
            "edges_before_pruning": int(np.count_nonzero(before)),
            "pruning_rounds": result.rounds,
            "pruning_seconds": round(seconds, 3),
        },
        arrays={
            **graph.arrays,
            "unpruned": before,
            "gain": result.gain,
            "gain_se": result.gain_se,
        },
    )


def _pruned(base: Method, name: str) -> Method:
    def fit(X, intervened, names, seed, **params) -> Graph:
        own = {key: params.pop(_PREFIX + key) for key in DEFAULTS}
        graph = base.fit(X, intervened, names, seed, **params)
        if params.get("knowledge"):
            own["keep"] = Knowledge.of(params["knowledge"], names).required
        return prune_graph(graph, X, intervened, seed=seed, **own)

    if hasattr(base.fit, "spec"):
        fit.spec = base.fit.spec
    own_defaults = {_PREFIX + key: value for key, value in DEFAULTS.items()}
    own_ranges = {_PREFIX + key: kind for key, kind in RANGES.items()}
    return replace(
        base,
        name=name,
        defaults=MappingProxyType({**base.defaults, **own_defaults}),
        ranges=MappingProxyType({**base.ranges, **own_ranges}),
        source=f"not in the paper: {base.name}, then held-out pruning",
        fit=fit,
        module=__name__,
        first_stage=_first_stage(base.first_stage),
        base=base,
    )


def _first_stage(base: FirstStage | None) -> FirstStage | None:
    if base is None:
        return None

    def parameters(params):
        return base.parameters({k: v for k, v in params.items() if not k.startswith(_PREFIX)})

    return FirstStage(base.fit, parameters)
