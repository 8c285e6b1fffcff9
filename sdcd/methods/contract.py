"""The contract between a causal discovery method and everything that uses one.

A method is a function from data to a weighted and a binary graph, with a name, the kind of data
it takes, and its default settings with their source. Registering it here is all that is needed
for the command line, the workflow, the tables and the figures to know it::

    @register(
        name="sortnregress",
        data="observational",
        defaults={"threshold": 0.3},
        ranges={"threshold": number(0)},
        source="Reisach et al. 2021; cut 0.3 as in the SDCD paper's run",
    )
    def fit(X, intervened, names, seed, *, threshold):
        ...
        return Graph(adjacency=np.abs(weights) > threshold, weights=weights)

One file in ``sdcd/baselines/`` holds one method or one family of variants. Heavy libraries are
imported inside ``fit``, so that listing the methods costs milliseconds.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

import numpy as np

from sdcd.errors import InputError
from sdcd.parameters import Kind, checked, known, like


@dataclass(frozen=True)
class Graph:
    """What a method returns.

    Attributes
    ----------
    adjacency : int8 (d, d)
        ``adjacency[i, j] == 1`` means an edge i -> j. Both ``[i, j]`` and ``[j, i]`` set mean an
        undirected edge. Not necessarily acyclic: methods are scored on what they return.
    weights : float64 (d, d) or None
        Non-negative strength of each edge, larger meaning surer; ``None`` if the method has none.
    diagnostics : dict
        JSON-compatible facts about the run (epochs, final penalty, threshold, ...). A fit that went
        on from a checkpoint says in ``resumed_after_s`` how many seconds of work it found there.
    arrays : dict of str to array
        Further arrays to keep beside the graph (for SDCD: stage 1's mask as ``selected``).
    """

    adjacency: np.ndarray
    weights: np.ndarray | None = None
    diagnostics: dict = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self):
        object.__setattr__(self, "adjacency", np.ascontiguousarray(self.adjacency, dtype=np.int8))
        if self.weights is not None:
            object.__setattr__(
                self, "weights", np.ascontiguousarray(self.weights, dtype=np.float64)
            )


FitFunction = Callable[..., Graph]
"""``fit(X, intervened, names, seed, **params) -> Graph`` with X float32 (n, d), intervened bool
(n, d), names a tuple of d strings, seed an int; raises :class:`~sdcd.errors.MethodFailure`."""


@dataclass(frozen=True)
class Part:
    """A first stage's result for some of the targets: arrays for a file, facts for its record."""

    arrays: dict[str, np.ndarray]
    diagnostics: dict = field(default_factory=dict)


@dataclass(frozen=True)
class FirstStage:
    """How a method's first stage is computed some targets at a time, in jobs of their own.

    The method's ``fit`` then gets the files of all parts as ``first_stage=[path, ...]``, and
    refuses those of other data or settings with :class:`~sdcd.errors.InputError`.

    Attributes
    ----------
    fit : callable
        ``fit(X, intervened, names, seed, targets, **parameters) -> Part`` for ``targets``, a range.
    parameters : callable
        Takes all parameters of the method, gives those that the first stage depends on; none if
        with these the method has no first stage.
    """

    fit: Callable[..., Part]
    parameters: Callable[[Mapping[str, object]], dict[str, object]]


@dataclass(frozen=True)
class Method:
    """A registered method: see :func:`register` for what each field is for.

    ``base`` is the method whose graph this one works on, if it is such a method; ``ranges`` has
    what each parameter may be.
    """

    name: str
    data: Literal["observational", "interventional"]
    defaults: Mapping[str, object]
    source: str
    fit: FitFunction
    module: str
    first_stage: FirstStage | None = None
    reports: bool = False
    base: "Method | None" = None
    ranges: Mapping[str, Kind] = field(default_factory=dict)
    knowledge: bool = False

    @property
    def modules(self) -> tuple[str, ...]:
        """What a fit depends on: the method's module, and that of the method that it builds on."""
        return (self.module, *(self.base.modules if self.base else ()))

    def parameters(self, settings: Mapping[str, object]) -> dict[str, object]:
        """Defaults overridden by ``settings``, as plain Python.

        Raises
        ------
        InputError
            If a setting is not a parameter of the method (with the nearest one that is), or is not
            what the method's ``ranges`` say, or has another type than its default.
        """
        whose = f"method {self.name}"
        settings = dict(settings)
        about_edges = settings.pop("knowledge", None)
        if about_edges and not self.knowledge:
            raise InputError(
                f"{whose}: cannot honour forbidden or required edges or tiers, expected a variant "
                "of SDCD, pruned, ordered or neither"
            )
        if about_edges and not isinstance(about_edges, Mapping):
            raise InputError(
                f"{whose}: parameter 'knowledge' is {about_edges!r}, expected a mapping with "
                "forbid, require, tiers"
            )
        known(whose, settings, self.defaults)
        own = {
            key: checked(whose, f"parameter {key!r}", value, self.ranges[key])
            for key, value in settings.items()
        }
        with_edges = {"knowledge": about_edges} if about_edges else {}
        return {**self.defaults, **own, **with_edges}


REGISTERED: dict[str, Method] = {}
"""Methods registered so far; :func:`sdcd.methods.registry.methods` gives all."""


def register(
    *,
    name: str,
    data: Literal["observational", "interventional"],
    defaults: Mapping[str, object],
    source: str,
    ranges: Mapping[str, Kind] | None = None,
    first_stage: FirstStage | None = None,
    reports: bool = False,
    knowledge: bool = False,
) -> Callable[[FitFunction], FitFunction]:
    """Register the decorated function as the method ``name``.

    Parameters
    ----------
    name : str
        As it appears in commands, config, tables and figures.
    data : "observational" or "interventional"
        An observational method refuses data with interventions; an interventional one takes both.
    defaults : mapping
        Every parameter with its default, JSON-compatible.
    ranges : mapping
        What each parameter may be (:mod:`sdcd.parameters`), checked before the fit. One that is
        not named here may be what has the type of its default; if that is ``None``, anything.
    source : str
        Where the method and its default settings come from, in one line.
    first_stage : FirstStage, optional
        If the method has a first stage that can be computed in parts.
    reports : bool
        Whether ``fit`` takes ``progress``, a text stream, and says there how far it is.
    knowledge : bool
        Whether ``fit`` takes ``knowledge``, a mapping as :meth:`sdcd.data.knowledge.Knowledge.of`
        does, where the caller gives one, and honours what it says about edges.

    Raises
    ------
    ValueError
        If the name is another method's, or a range is one of no parameter or refuses its default.
    """

    def decorate(fit: FitFunction) -> FitFunction:
        if name in REGISTERED and REGISTERED[name].module != fit.__module__:
            raise ValueError(f"two methods are called {name!r}")
        REGISTERED[name] = Method(
            name,
            data,
            MappingProxyType(dict(defaults)),
            source,
            fit,
            fit.__module__,
            first_stage,
            reports,
            ranges=MappingProxyType(all_ranges(name, defaults, ranges or {})),
            knowledge=knowledge,
        )
        return fit

    return decorate


def all_ranges(
    name: str, defaults: Mapping[str, object], ranges: Mapping[str, Kind]
) -> dict[str, Kind]:
    """A range for every parameter of a method; ``ValueError`` if one cannot be right."""
    if unknown := set(ranges) - set(defaults):
        raise ValueError(f"method {name}: ranges of no parameters: {sorted(unknown)}")
    every = {key: ranges.get(key) or like(value) for key, value in defaults.items()}
    for key, value in defaults.items():
        checked(f"method {name}", f"default of {key!r}", value, every[key])
    return every
