"""The paper's grids: which data sets and methods each experiment has at each scale.

A configuration (``config.yaml``) names the experiments' methods, and for each scale the grids of
data sets and what the scale shortens. :func:`make_plan` turns it into a :class:`Plan`: every fit,
with its settings and limits. Nothing heavy is imported, since a workflow makes the plan again in
every job.
"""

import itertools
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field

from sdcd.errors import InputError
from sdcd.experiments.configuration import checked
from sdcd.experiments.datasets import DatasetKey
from sdcd.methods import Method
from sdcd.methods.outside import register_outside
from sdcd.methods.registry import methods as registered_methods
from sdcd.parameters import closest

FAMILIES = {
    "observational": "observational",
    "observational_large": "observational",
    "interventional": "interventional",
    "ablation_stage1": "observational",
    "ablation_stage2": "observational",
    "dcdi_simulations": "dcdi",
    "rivals_observational": "observational",
    "rivals_interventional": "interventional",
    "rivals_dcdi": "dcdi",
    "rivals_ordered": "observational",
}
"""The experiments that compare methods, each with the family of data sets that it uses."""

STUDIES = {
    "constraint_asymptotics": ("sdcd.studies.constraint_asymptotics", "constraint_asymptotics"),
    "constraint_costs": ("sdcd.studies.constraint_costs", "constraint_costs"),
    "optimisation_behaviours": ("sdcd.studies.optimisation_behaviours", "optimisation_behaviours"),
}
"""Studies of the acyclicity constraints alone, each with the module and the function that makes its
table (a list of records) from the sizes in the configuration."""

DERIVED = {
    "thresholds_observational": ("sdcd.runs.thresholds", "collect_thresholds", "observational"),
    "thresholds_interventional": ("sdcd.runs.thresholds", "collect_thresholds", "interventional"),
    "cartoon": ("sdcd.runs.cartoon", "collect_cartoon", "interventional"),
}
"""Tables that are made from the matrices of an experiment's fits: the module and the function that
makes each, and the experiment. See :meth:`Plan.derived`."""

FROM_DATA = ("sortability",)
"""Tables that are made from :meth:`Plan.datasets`, without a fit."""

PAPER = {"n_observational": 10_000, "n_per_intervention": 500, "time_limit_s": 21_600}
"""What the paper used where a scale may shorten: rows, rows per intervention, seconds per fit."""


@dataclass(frozen=True)
class MethodPlan:
    """How one method is run at one scale.

    Attributes
    ----------
    name : str
        The registered method or outside command.
    settings : dict
        Parameters that differ from the method's defaults.
    time_limit_s, memory_limit_mb : float
        Limits of one fit.
    threads : int
        Threads of one fit.
    gpu : bool
        Whether a fit needs a GPU.
    min_d, max_d : int or None
        Data sets with fewer or more variables are left out.
    max_seeds : int or None
        Only the first so many seeds of each grid are run.
    fewer_seeds : dict or None
        Its own ``max_seeds`` for data sets with ``min_d`` variables or more.
    scatter : dict or None
        If the first stage is computed in jobs of their own: ``targets_per_job``, and ``min_d``
        where smaller data sets are not scattered.
    outside : dict or None
        The outside command, as :func:`sdcd.methods.outside.register_outside` takes it.
    shortened : str
        In words, what differs from the paper in every fit; empty if nothing does.
    """

    name: str
    settings: Mapping[str, object]
    time_limit_s: float
    memory_limit_mb: float
    threads: int = 1
    gpu: bool = False
    min_d: int | None = None
    max_d: int | None = None
    max_seeds: int | None = None
    fewer_seeds: Mapping[str, int] | None = None
    scatter: Mapping[str, int] | None = None
    outside: Mapping[str, object] | None = None
    shortened: str = ""

    def parts(self, d: int) -> list[range]:
        """The targets of each job that does a part of the first stage; none if one job does all."""
        if self.scatter is None or d < self.scatter.get("min_d", 0):
            return []
        size = self.scatter["targets_per_job"]
        return [range(k, min(k + size, d)) for k in range(0, d, size)] if size < d else []

    def first_stage_settings(self) -> dict[str, object]:
        """The settings that the first stage depends on."""
        method = registered_methods()[self.name]
        used = method.first_stage.parameters(method.parameters(self.settings))
        return {key: value for key, value in self.settings.items() if key in used}


@dataclass(frozen=True)
class Experiment:
    """One experiment at one scale: its grids, and the methods that it compares.

    Attributes
    ----------
    name : str
        One of :data:`FAMILIES`.
    grids : list of dict
        As in the configuration: ``d``, ``s``, ``seeds``, perhaps ``all_seeds``, and ``fractions``
        or ``mechanisms``.
    methods : dict of str to dict
        For each method its bounds ``min_d``, ``max_d``, ``max_seeds``, ``fewer_seeds``, and
        ``shortened``.
    """

    name: str
    grids: list[dict]
    methods: dict[str, dict] = field(default_factory=dict)

    def fits(self) -> list[tuple[DatasetKey, str]]:
        """Every pair of data set and method, ordered by grid, data set and method, each once."""
        found = {}
        for grid in self.grids:
            seeds = seeds_of(grid["seeds"])
            place = {seed: k for k, seed in enumerate(seeds)}
            bounded = not grid.get("all_seeds", False)
            for key in _datasets(FAMILIES[self.name], grid, seeds):
                for name, bounds in self.methods.items():
                    within = (bounds["min_d"] or 0) <= key.d <= (bounds["max_d"] or math.inf)
                    limit = _seed_limit(bounds, key.d) if bounded else None
                    if within and (limit is None or place[key.seed] < limit):
                        found[key, name] = None
        return list(found)

    def to_json(self) -> str:
        """Everything about the experiment on one line."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "Experiment":
        """The experiment that :meth:`to_json` wrote; :class:`InputError` if it is not one."""
        try:
            experiment = cls(**json.loads(text))
            experiment.fits()
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(f"experiment: not a description of an experiment ({error})") from None
        return experiment


@dataclass(frozen=True)
class Plan:
    """All that one scale runs.

    Attributes
    ----------
    scale : str
        The scale's name.
    n_observational, n_per_intervention : int
        Rows of a data set without interventions, and rows more for each intervention.
    studies : dict of str to dict
        The studies of :data:`STUDIES` that are made, with their sizes where not the paper's.
    experiments : dict of str to Experiment
        Those that have a grid and at least one method at this scale.
    methods : dict of str to MethodPlan
        Those that the experiments use.
    """

    scale: str
    n_observational: int
    n_per_intervention: int
    studies: Mapping[str, Mapping[str, int]]
    experiments: Mapping[str, Experiment]
    methods: Mapping[str, MethodPlan]

    def n_rows(self, key: DatasetKey) -> int:
        """Rows of a data set at this scale."""
        if key.family != "interventional":
            return self.n_observational
        kept = key.d - int((1 - key.fraction) * key.d)
        return self.n_observational + kept * self.n_per_intervention

    def fits(self) -> dict[tuple[DatasetKey, str], str]:
        """Data set and method of every fit, each once, with what is shortened in it, in words."""
        found: dict[tuple[DatasetKey, str], str] = {}
        for experiment in self.experiments.values():
            for key, name in experiment.fits():
                found.setdefault((key, name), experiment.methods[name]["shortened"])
        return found

    def datasets(self) -> list[DatasetKey]:
        """The data sets of all experiments, each once, in order of their keys."""
        return sorted({key for key, _ in self.fits()})

    def derived(self) -> dict[str, Experiment]:
        """The tables of :data:`DERIVED` that this scale has, each with the fits it is made from.

        The cartoon is made from one fit of SDCD: the sparsest and smallest graph, the most
        interventions, the lowest seed.
        """
        found = {}
        for name, (_, _, of) in DERIVED.items():
            experiment = self.experiments.get(of)
            if experiment is not None and name == "cartoon":
                experiment = _one_fit(experiment)
            if experiment is not None:
                found[name] = experiment
        return found


def _one_fit(experiment: Experiment) -> Experiment | None:
    keys = [key for key, name in experiment.fits() if name == "SDCD"]
    if not keys:
        return None
    key = min(keys, key=lambda key: (key.s, key.d, -key.fraction, key.seed))
    grid = {"d": [key.d], "s": [key.s], "seeds": [key.seed], "fractions": [key.fraction]}
    return Experiment(experiment.name, [grid], {"SDCD": experiment.methods["SDCD"]})


def make_plan(config: Mapping[str, object], schema: Mapping[str, object]) -> Plan:
    """Check a configuration and work out what its chosen scale runs.

    Parameters
    ----------
    config : mapping
        As read from ``config.yaml`` and the command line; not changed.
    schema : mapping
        The JSON schema of ``workflow/schemas/config.schema.yaml``.

    Raises
    ------
    InputError
        For the first fault found, in one line that names the config key.
    """
    config = checked(config, schema)
    scales = config["scales"]
    if config["scale"] not in scales:
        raise InputError(
            f"config key scale: found {config['scale']!r}, expected one of {', '.join(scales)}"
            f"{closest(config['scale'], scales)}"
        )
    for name, outside in config["outside_methods"].items():
        try:
            register_outside({"name": name, **outside})
        except InputError as error:
            raise InputError(f"config key outside_methods.{name}: {error}") from None
    kinds = {name: method.data for name, method in registered_methods().items()}
    chosen = _methods_of_experiments(config, kinds)
    for name in scales:
        # Every scale is checked, also those that are not chosen.
        plan = _plan_of_scale(config, name, chosen, kinds)
        if name == config["scale"]:
            result = plan
    return result


def _methods_of_experiments(config, kinds) -> dict[str, list[str]]:
    """The methods of each experiment, ``all`` and ``interventional`` written out."""
    check_names(config["methods"], "methods", kinds)
    chosen = {}
    for experiment, content in config["experiments"].items():
        where = f"experiments.{experiment}.methods"
        names = named_methods(config, content["methods"], kinds)
        check_names(names, where, kinds)
        if FAMILIES[experiment] != "observational":
            require_interventional(names, where, kinds)
        chosen[experiment] = names
    return chosen


def named_methods(config, names: str | list[str], kinds: Mapping[str, str]) -> list[str]:
    """Names of methods, with ``all`` and ``interventional`` written out."""
    if names not in ("all", "interventional"):
        return names
    return [name for name in config["methods"] if names == "all" or kinds[name] == names]


def check_names(names: Iterable[str], where: str, kinds: Mapping[str, str]) -> None:
    """Refuse a name under the key ``where`` that is none of the registered methods."""
    for name in names:
        if name not in kinds:
            hint = closest(name, kinds) or f" (known: {', '.join(kinds)})"
            raise InputError(f"config key {where}: unknown method {name!r}{hint}")


def require_interventional(
    names: Iterable[str], where: str, kinds: Mapping[str, str], instead: str = ""
) -> None:
    """Refuse a method under the key ``where`` that takes no data with interventions."""
    for name in names:
        if kinds[name] != "interventional":
            raise InputError(
                f"config key {where}: found {name!r}, which takes no data with interventions, "
                f"expected methods that do{instead}"
            )


def _seed_limit(bounds: Mapping[str, object], d: int) -> int | None:
    fewer = bounds["fewer_seeds"]
    return fewer["max_seeds"] if fewer and d >= fewer["min_d"] else bounds["max_seeds"]


def _plan_of_scale(config, scale_name, chosen, kinds) -> Plan:
    scale = config["scales"][scale_name]
    where = f"scales.{scale_name}"
    check_names(config["method_options"], "method_options", kinds)
    check_names(scale["method_options"], f"{where}.method_options", kinds)
    plans: dict[str, MethodPlan] = {}
    experiments = {}
    for name, grids in scale["grids"].items():
        if name not in chosen:
            raise InputError(
                f"config key {where}.grids.{name}: experiments.{name} is missing, expected there "
                "the methods to compare"
            )
        _check_grids(grids, f"{where}.grids.{name}")
        fewer_rows, compared = _fewer_rows(scale, FAMILIES[name]), {}
        for method in chosen[name]:
            plan = plans.get(method) or method_plan(config, scale, where, method)
            if plan.gpu and config["gpu"] not in (True, "true"):
                continue
            plans[method] = plan
            bounds = ("min_d", "max_d", "max_seeds", "fewer_seeds")
            compared[method] = {key: getattr(plan, key) for key in bounds}
            compared[method]["shortened"] = "; ".join(filter(None, [fewer_rows, plan.shortened]))
        experiment = Experiment(name, grids, compared)
        if experiment.fits():
            experiments[name] = experiment
    return Plan(
        scale=scale_name,
        n_observational=int(scale["n_observational"]),
        n_per_intervention=int(scale["n_per_intervention"]),
        studies=scale["studies"],
        experiments=experiments,
        methods=plans,
    )


def method_plan(
    config: Mapping[str, object], scale: Mapping[str, object], where: str, name: str
) -> MethodPlan:
    """How a method is run: its options, over those of ``method_options`` and the limits of all.

    Parameters
    ----------
    config : mapping
        Checked.
    scale : mapping
        What has ``time_limit_s``, ``memory_limit_mb`` and ``method_options``.
    where : str
        Its key.
    name : str
        The method.
    """
    general = config["method_options"].get(name, {})
    of_scale = scale["method_options"].get(name, {})
    options = {
        "time_limit_s": scale["time_limit_s"],
        "memory_limit_mb": scale["memory_limit_mb"],
        **general,
        **of_scale,
    }
    options["settings"] = {**general.get("settings", {}), **of_scale.get("settings", {})}
    method = registered_methods()[name]
    for source, part in (("", general), (f"{where}.", of_scale)):
        _check_settings(method, part.get("settings", {}), f"{source}method_options.{name}.settings")
    for source, part in ((f"{where}.", of_scale), ("", general)):
        if "scatter" in part:
            _check_scatter(method, options, f"{source}method_options.{name}.scatter")
            break
    changes = [
        f"{key} = {_text(value)} instead of {_text(method.defaults[key])}"
        for key, value in options["settings"].items()
        if value != method.defaults[key]
    ]
    # The command of NAME+prune and NAME+order is NAME's.
    command = name
    if name not in config["outside_methods"]:
        command = name.removesuffix("+prune").removesuffix("+order")
    outside = config["outside_methods"].get(command)
    if outside is not None:
        outside = {"name": command, **outside}
    return MethodPlan(name=name, outside=outside, shortened="; ".join(changes), **options)


def _check_settings(method: Method, settings: Mapping[str, object], where: str) -> None:
    for key, value in settings.items():
        default = method.defaults.get(key)
        if key not in method.defaults:
            hint = closest(key, method.defaults) or f" (known: {', '.join(method.defaults)})"
            raise InputError(f"config key {where}.{key}: unknown parameter of {method.name}{hint}")
        if _is_number(value) and value < 0 and _is_number(default) and default >= 0:
            raise InputError(
                f"config key {where}.{key}: found {value}, expected a number from 0 on such as "
                f"{default}"
            )
        if key == "checkpoint" and default is None and value is not None:
            raise InputError(
                f"config key {where}.{key}: found {value!r}, expected none: each fit has a file of "
                "its own for its progress"
            )
        try:
            method.parameters({key: value})
        except InputError as error:
            raise InputError(f"config key {where}.{key}: {error}") from None


def _check_scatter(method: Method, options: Mapping[str, object], where: str) -> None:
    first_stage = method.first_stage
    if first_stage is None or not first_stage.parameters(method.parameters(options["settings"])):
        found = json.dumps(options["scatter"])
        raise InputError(
            f"config key {where}: found {found}, but {method.name} has no first stage to compute "
            "apart, expected it for methods that do"
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: object) -> str:
    return f"{value:,}" if type(value) is int else str(value)


def _fewer_rows(scale, family) -> str:
    parts = []
    if scale["n_observational"] != PAPER["n_observational"]:
        parts.append(f"{scale['n_observational']:,} rows instead of {PAPER['n_observational']:,}")
    fewer = scale["n_per_intervention"] != PAPER["n_per_intervention"]
    if family == "interventional" and fewer:
        parts.append(
            f"{scale['n_per_intervention']:,} rows per intervention instead of "
            f"{PAPER['n_per_intervention']:,}"
        )
    return "; ".join(parts)


def _check_grids(grids, where) -> None:
    for position, grid in enumerate(grids):
        for fraction in grid.get("fractions", []):
            name = f"{fraction:g}"
            if float(name) != fraction or "e" in name:
                raise InputError(
                    f"config key {where}[{position}].fractions: found {fraction}, expected at most "
                    "six digits, and 0 or 0.0001 and more: data sets are named by it"
                )
        for d, s in itertools.product(grid["d"], grid["s"]):
            if s * d > d * (d - 1) // 2:
                raise InputError(
                    f"config key {where}[{position}]: found d = {d} with s = {s}, which are "
                    f"{s * d} edges, expected at most the {d * (d - 1) // 2} pairs of variables"
                )


def seeds_of(seeds: int | list[int]) -> list[int]:
    """Seeds as the configuration has them: so many from 0 on, or a list."""
    return list(seeds) if isinstance(seeds, list) else list(range(int(seeds)))


def _datasets(family: str, grid: Mapping, seeds: list[int]) -> Iterable[DatasetKey]:
    for mechanism, d, s, fraction, seed in itertools.product(
        grid.get("mechanisms", [""]), grid["d"], grid["s"], grid.get("fractions", [0.0]), seeds
    ):
        yield DatasetKey(family, int(d), int(s), int(seed), float(fraction), mechanism)
