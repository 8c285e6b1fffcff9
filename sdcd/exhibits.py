"""The figures and tables, in the paper's order: the runs and the module that each is made from.

Each entry is a rule of the workflow, named by its key: ``snakemake fig_observational``. The rules
are defined in ``workflow/rules/figures.smk`` and ``tables.smk``. A figure is
``draw(*runs, **options)`` of its module, a table ``make(*runs, caption=..., **options)``. Nothing
heavy is imported here.
"""

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Exhibit:
    """One figure or table.

    Attributes
    ----------
    runs : tuple of str
        The tables that it is made from, ``runs/{name}.csv``: experiments, studies or tables made
        from fits (:mod:`sdcd.experiments.plan`).
    module : str
        The module that draws or makes it.
    title, caption : str
        ``caption`` may have ````code```` and ``**bold**``.
    label : str
        The paper's label of it; empty if it is not in the paper.
    options : mapping
        JSON-compatible arguments of the module's function.
    """

    runs: tuple[str, ...]
    module: str
    title: str
    caption: str
    label: str = ""
    options: Mapping[str, object] = field(default_factory=dict)

    def make(self, tables: Mapping[str, "pd.DataFrame"]) -> object:
        """The figure, or the table's numbers and its layout.

        ``tables`` are the tables of runs by name; they stay as they are.
        """
        module = importlib.import_module(self.module)
        runs = [tables[name].copy() for name in self.runs]
        if hasattr(module, "draw"):
            return module.draw(*runs, **self.options)
        return module.make(*runs, caption=self.caption, **self.options)


def available(exhibits: Mapping[str, Exhibit], tables: Iterable[str]) -> dict[str, Exhibit]:
    """Those that can be made from these tables of runs."""
    tables = set(tables)
    return {rule: exhibit for rule, exhibit in exhibits.items() if set(exhibit.runs) <= tables}


def file_stem(rule: str) -> str:
    """The name of an exhibit's files: that of its rule without ``fig_`` or ``table_``."""
    return rule.partition("_")[2]


def _panel(metric: str, label: str, title: str = "", **options) -> dict[str, object]:
    return {"metric": metric, "label": label, "title": title, **options}


def _small_and_large(metric: str, label: str, **options) -> list[dict[str, object]]:
    """Two panels, d up to 50 and above: the paper has 30 data sets of each d, then five."""
    return [
        _panel(metric, label, "d ≤ 50", largest=50, **options),
        _panel(metric, label, "d > 50", smallest=51, **options),
    ]


_SHARE = [0, 1.03]
_FROM_LOGS = "Published: from the authors' logs."

EXHIBITS = {
    "fig_cartoon": Exhibit(
        runs=("cartoon",),
        module="sdcd.figures.cartoon",
        title="The method in one picture, drawn from a real fit",
        caption="(a) Weights of stage 1, which considers every edge; (b) its mask, "
        "the edges passed on to stage 2; (c) weights of stage 2, penalised by γ h_ρ; (d) the "
        "learned graph, obtained from these weights by DAG trim; (e) the true graph. Rows are "
        "parents and columns are children. Both are in a causal order of the true graph, which "
        "puts its edges (framed) above the diagonal.",
        label="fig:cartoon",
    ),
    "table_method_comparison": Exhibit(
        runs=("constraint_costs",),
        module="sdcd.tables.method_comparison",
        title="Properties of the compared methods, measured",
        caption="Differentiable causal discovery methods. Stable: whether the "
        "method's acyclicity constraint vanishes and explodes no faster than the weights and "
        "is defined everywhere; the exponents in brackets were measured on a cycle of {d} nodes. "
        "Cost: the exponent of d in the time to evaluate the constraint and its gradient once, "
        "fitted over d {sizes}, with its 95 % interval. Interventions: whether the method uses "
        "interventional data. Expressive: whether its model class, given in brackets, can "
        "approximate any causal graph with nonlinear structural equations.",
        label="table:method-comparison",
    ),
    "table_pst_constraints": Exhibit(
        runs=(),
        module="sdcd.tables.pst_constraints",
        title="The acyclicity constraints and how they grow",
        caption="Acyclicity constraints of a non-negative matrix A of size d: the "
        "four power series traces (PST) with their series, and the spectral radius, which is "
        "not a PST. Gradients are transposed, except that of the spectral radius. Vanishing and "
        "exploding exponents: the slope of log h(sC) against log s for small and large s, "
        "measured on a cycle C through all d = {d} nodes. For a stable constraint both exponents "
        "are 1 and h is defined for all s.",
        label="tab:pst-constraints",
    ),
    "fig_constraint_asymptotics": Exhibit(
        runs=("constraint_asymptotics",),
        module="sdcd.figures.constraint_asymptotics",
        title="How acyclicity constraints vanish and explode",
        caption="Five acyclicity constraints on a cycle of length d/2 with weight ε "
        "(solid) and on uniform noise on [0, ε] (dashed). Left: against ε at d = 30. Right: "
        "against d at ε = 0.5. A curve ends in a vertical dotted line where it leaves "
        "the constraint's domain. A constraint that vanishes or explodes gives no usable "
        "gradient; the spectral radius does neither.",
        label="fig:constraint-asymptotics",
    ),
    "fig_observational": Exhibit(
        runs=("observational",),
        module="sdcd.figures.curves",
        title="SHD on observational data with increasing d",
        caption="SHD with an increasing number of variables d, s = 4 edges per "
        "variable (2 at scale smoke). Lower is better. Points and error bars are the mean and "
        "standard deviation over our data sets; bands are the published ones. The dashed line is "
        "the number of true edges, which is the SHD of the empty graph. A marker in the NA strip "
        "means that every run failed, a hollow marker that the run was shortened.",
        label="fig:observational",
        options={
            "experiment": "observational",
            "rows": [_small_and_large("shd", "SHD (edges; lower is better)", log=True, edges=True)],
        },
    ),
    "fig_interventional": Exhibit(
        runs=("interventional",),
        module="sdcd.figures.boxes",
        title="SHD of SDCD and DCDI on interventional data",
        caption="SHD with an increasing fraction of variables intervened on, by number of "
        "variables d (columns) and edges per variable s (rows). Lower is better. Each box "
        "summarises the data sets of one setting.",
        label="fig:interventional",
        options={
            "metric": "shd",
            "label": "SHD (edges)",
            "methods": ["SDCD", "DCDI-G"],
            "sparsities": [2, 4, 6],
        },
    ),
    "fig_optimisation_behaviours": Exhibit(
        runs=("optimisation_behaviours",),
        module="sdcd.figures.optimisation_behaviours",
        title="Optimising with each constraint",
        caption="How far the learned matrix is from a DAG during optimisation with each "
        "constraint, as a penalty (left) or in an augmented Lagrangian (right). The distance is "
        "the threshold to DAG: the smallest t for which the edges above t form no cycle; below "
        "10⁻⁴ (disc) the matrix counts as a DAG and the run ends. h_ρ+ is h_ρ with the diagonal "
        "fixed at zero, as in SDCD.",
        label="app:fig:constraint-optimization-behaviors",
    ),
    "table_dcdi_simulations": Exhibit(
        runs=("dcdi_simulations",),
        module="sdcd.tables.cells",
        title="SHD on the simulations of the DCDI paper",
        caption="SHD on the DCDI paper's simulations: linear (L), nonlinear additive "
        "(NL-Add) and nonlinear non-additive (NL-NN) mechanisms; δ is the expected edge "
        "density. Our data sets are new draws from the same generator, so no run can be "
        "paired with a published one. Lower is better; our lowest mean in a row is bold.",
        label="app:tab:empirical:dcdi",
        options={
            "experiment": "dcdi_simulations",
            "keys": {"s": "s", "d": "d", "density": "δ", "mechanism": "mechanism"},
        },
    ),
    "fig_runtime": Exhibit(
        runs=("observational",),
        module="sdcd.figures.curves",
        title="Training times on observational data",
        caption="Wall time of a fit. Bands are the times that the authors logged on different "
        "hardware. They show how time grows with d, not which implementation is faster.",
        label="app:fig:empirical:runtime",
        options={
            "experiment": "observational",
            "rows": [_small_and_large("seconds", "wall time of a fit (s)", log=True)],
            "note": "Published: the authors' logs, 4 cores of an AMD 3960x, SDCD-GPU an Nvidia "
            "A5000.",
        },
    ),
    "table_observational": Exhibit(
        runs=("observational",),
        module="sdcd.tables.cells",
        title="SHD on observational data, every method",
        caption="SHD on observational data with s = 4 edges per variable (2 at scale "
        "smoke), for an increasing number of variables d. Lower is better; our lowest mean in "
        "a row is bold.",
        label="app:tab:empirical:observational",
        options={"experiment": "observational", "keys": {"d": "d"}},
    ),
    "fig_observational_f1_cpdag": Exhibit(
        runs=("observational",),
        module="sdcd.figures.curves",
        title="F1 and SHD-CPDAG on observational data",
        caption="F1 of directed edges (higher is better) and SHD between CPDAGs "
        "(lower is better). The bands for F1 are from the authors' logs, which do not include "
        "the SHD between CPDAGs.",
        label="app:fig:empirical:observational-f1-cpdag",
        options={
            "experiment": "observational",
            "rows": [
                _small_and_large("f1", "F1 of directed edges (higher is better)", limits=_SHARE),
                _small_and_large("shd_cpdag", "SHD-CPDAG (edges; lower is better)", log=True),
            ],
            "note": "Published F1: from the authors' logs, which do not include SHD-CPDAG.",
        },
    ),
    "fig_observational_large": Exhibit(
        runs=("observational_large",),
        module="sdcd.figures.curves",
        title="SHD and training time with thousands of variables",
        caption="SHD (left) and wall time (right) of SDCD on a GPU with 1,000 to "
        "4,000 variables. The dashed line is the number of true edges.",
        label="app:fig:empirical:observational-large",
        options={
            "experiment": "observational_large",
            "rows": [
                [
                    _panel("shd", "SHD (edges; lower is better)", "SHD", edges=True),
                    _panel("seconds", "wall time of a fit (s)", "training time", log=True),
                ]
            ],
            "note": "Published SHD: the table; time: the authors' logs, Nvidia A5000.",
        },
    ),
    "table_observational_large": Exhibit(
        runs=("observational_large",),
        module="sdcd.tables.cells",
        title="SHD with thousands of variables",
        caption="SHD of SDCD on observational data with thousands of variables, s = 4 "
        "edges per variable. Lower is better.",
        label="app:tab:empirical:observational-large",
        options={"experiment": "observational_large", "keys": {"d": "d"}},
    ),
    "fig_observational_precision": Exhibit(
        runs=("observational",),
        module="sdcd.figures.curves",
        title="Precision on observational data",
        caption="The share of predicted edges that are true. Higher is better. Bands "
        "are from the authors' logs.",
        label="app:fig:empirical:observational_precision",
        options={
            "experiment": "observational",
            "rows": [
                _small_and_large(
                    "precision", "precision of directed edges (higher is better)", limits=_SHARE
                )
            ],
            "note": _FROM_LOGS,
        },
    ),
    "fig_observational_recall": Exhibit(
        runs=("observational",),
        module="sdcd.figures.curves",
        title="Recall on observational data",
        caption="The share of true edges that were predicted. Higher is better. Bands "
        "are from the authors' logs.",
        label="app:fig:empirical:observational_recall",
        options={
            "experiment": "observational",
            "rows": [
                _small_and_large(
                    "recall", "recall of directed edges (higher is better)", limits=_SHARE
                )
            ],
            "note": _FROM_LOGS,
        },
    ),
    "fig_observational_large_precision_recall": Exhibit(
        runs=("observational_large",),
        module="sdcd.figures.curves",
        title="Precision and recall with thousands of variables",
        caption="Precision (left) and recall (right) of SDCD on a GPU with 1,000 to "
        "4,000 variables.",
        label="app:fig:empirical:observational-large-precision-recall",
        options={
            "experiment": "observational_large",
            "rows": [
                [
                    _panel("precision", "precision (higher is better)", "precision", limits=_SHARE),
                    _panel("recall", "recall (higher is better)", "recall", limits=_SHARE),
                ]
            ],
            "note": _FROM_LOGS,
        },
    ),
    "fig_interventional_full": Exhibit(
        runs=("interventional",),
        module="sdcd.figures.boxes",
        title="SHD of every method on interventional data",
        caption="SHD of every method that uses interventions, with an increasing fraction of "
        "variables intervened on, by number of variables d (columns) and edges per variable s "
        "(rows).",
        label="app:fig:empirical:interventional_full",
        options={"metric": "shd", "label": "SHD (edges)", "log": True},
    ),
    "table_interventional": Exhibit(
        runs=("interventional",),
        module="sdcd.tables.cells",
        title="SHD on interventional data",
        caption="SHD with an increasing fraction of variables intervened on, by edges "
        "per variable s and number of variables d; δ is the edge density, s d / (d (d - 1) / 2), "
        "of which the paper prints whole per cent, rounded down. Lower is better; our lowest mean "
        "in a row is bold.",
        label="app:tab:empirical:interventional",
        options={
            "experiment": "interventional",
            "keys": {"s": "s", "d": "d", "density": "δ", "fraction": "fraction intervened on"},
        },
    ),
    "fig_interventional_full_precision": Exhibit(
        runs=("interventional",),
        module="sdcd.figures.boxes",
        title="Precision on interventional data",
        caption="Precision of every method that uses interventions, with an increasing "
        "fraction of variables intervened on, by number of variables d (columns) and edges per "
        "variable s (rows).",
        label="app:fig:empirical:interventional_full_precision",
        options={"metric": "precision", "label": "precision of directed edges", "limits": _SHARE},
    ),
    "fig_interventional_full_recall": Exhibit(
        runs=("interventional",),
        module="sdcd.figures.boxes",
        title="Recall on interventional data",
        caption="Recall of every method that uses interventions, with an increasing fraction of "
        "variables intervened on, by number of variables d (columns) and edges per variable s "
        "(rows).",
        label="app:fig:empirical:interventional_full_recall",
        options={"metric": "recall", "label": "recall of directed edges", "limits": _SHARE},
    ),
    "table_ablation_stage1": Exhibit(
        runs=("ablation_stage1",),
        module="sdcd.tables.cells",
        title="Ablation of stage 1, SHD",
        caption="SHD of SDCD and of its stage 1 variants on observational data with s = 4 "
        "edges per variable (2 at scale smoke). SDCD-warm: stage 2 starts from stage 1's input "
        "weights. SDCD-warm-nomask: the same without stage 1's mask. SDCD-no-s1: stage 2 only. "
        "SDCD-no-s1-2: the same with stage 1's alpha and beta. Lower is better; our lowest mean "
        "in a column is bold.",
        label="app:tab:empirical:ablation",
        options={"experiment": "ablation_stage1", "keys": {"method": "method"}, "columns": "d"},
    ),
    "table_ablation_stage2": Exhibit(
        runs=("ablation_stage2",),
        module="sdcd.tables.cells",
        title="Ablation of stage 2, SHD",
        caption="SHD of SDCD with other acyclicity constraints in stage 2, on observational "
        "data with s = 4 edges per variable (2 at scale smoke). SDCD penalises the spectral "
        "radius, SDCD-exp the trace of the exponential, SDCD-log the log-determinant. Lower is "
        "better; our lowest mean in a column is bold.",
        label="app:tab:empirical:ablation2",
        options={"experiment": "ablation_stage2", "keys": {"method": "method"}, "columns": "d"},
    ),
    **{
        f"fig_thresholds_{kind}": Exhibit(
            runs=(f"thresholds_{kind}",),
            module="sdcd.figures.thresholds",
            title=f"SHD against the threshold on {kind} data",
            caption="Not in the paper. Above: SHD when each method's weights are cut at other "
            "thresholds; the large marker is the graph that the method returned, at its own "
            "threshold. SDCD's weights are cut by DAG trim, all others by the threshold alone. "
            "Below: average precision of the weights, which needs no threshold; methods are in the "
            "order of their SHD as returned.",
            options={"title": f"{kind} data"},
        )
        for kind in ("observational", "interventional")
    },
    **{
        f"table_thresholds_{kind}": Exhibit(
            runs=(f"thresholds_{kind}",),
            module="sdcd.tables.thresholds",
            title=f"How much of each SHD is due to the threshold, {kind} data",
            caption=f"Not in the paper. SHD on {kind} data of the graph that each method "
            "returned and of its weights cut at other thresholds; average precision ranks the "
            "weights without a threshold. Means over data sets; the best value of each kind of "
            "data is bold.",
        )
        for kind in ("observational", "interventional")
    },
    "table_sortability": Exhibit(
        runs=("sortability",),
        module="sdcd.tables.sortability",
        title="Whether sorting the variables wins",
        caption="Not in the paper. Share of the directed paths of the true graph along which a "
        "quantity of the variables grows: 1 if sorting by it gives the causal order, 0 if it gives "
        "the reverse, 0.5 if it says nothing.",
    ),
    "fig_rivals_ordered": Exhibit(
        runs=("rivals_ordered",),
        module="sdcd.figures.curves",
        title="SHD after a search over causal orders",
        caption="Not in the paper. SHD of SDCD alone, with held-out pruning, and with a search "
        "over causal orders after it, on observational data, s = 4 edges per variable. Lower is "
        "better. Points and error bars are mean and sd over our data sets; the band is SDCD's "
        "published mean and sd. The settings of both steps were chosen at d = 20.",
        options={
            "experiment": "observational",
            "rows": [_small_and_large("shd", "SHD (edges; lower is better)")],
            "whole": False,
        },
    ),
    **{
        f"table_rivals_{kind}": Exhibit(
            runs=(f"rivals_{kind}",),
            module="sdcd.tables.standings",
            title=f"Who leads, {data}",
            caption=f"Not in the paper. SDCD on {data} beside methods that the paper does not "
            "have, in order of their mean rank by SHD. Lower is better, except in average "
            "precision (AP).",
        )
        for kind, data in (
            ("observational", "observational data"),
            ("interventional", "interventional data"),
            ("dcdi", "the simulations of the DCDI paper"),
        )
    },
}
"""By the name of their rule, in the paper's order; what is not in the paper comes last."""


def _numbered() -> dict[str, str]:
    counts = {"Figure": 0, "Table": 0}
    numbers = {}
    for rule, exhibit in EXHIBITS.items():
        if exhibit.label:
            kind = "Figure" if rule.startswith("fig_") else "Table"
            counts[kind] += 1
            numbers[rule] = f"{kind} {counts[kind]}"
    return numbers


IN_PAPER = _numbered()
"""What the paper calls those that it has, such as ``Figure 3``: it numbers them in this order."""

FIGURES = {rule: e for rule, e in EXHIBITS.items() if rule.startswith("fig_")}
TABLES = {rule: e for rule, e in EXHIBITS.items() if rule.startswith("table_")}
