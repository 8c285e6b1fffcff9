"""A step after a method against the method without it, on the same data sets. Not in the paper.

The steps are held-out pruning (:data:`PRUNING`) and the search over causal orders
(:data:`ORDERING`). Whatever a table of runs holds of methods with the step after them
(``NAME+prune``, ``SDCD-pruned``) is compared with the runs of the method alone, data set by data
set: :func:`effects` in each kind of data, :func:`overall` in each experiment, and :func:`leads`
between SDCD and the others, all with the step. :func:`section` is the part of the report.

Every difference is a mean over data sets with Student's 95 % interval. It counts as shown if its
two-sided p value, adjusted for the number of kinds of data (Benjamini and Hochberg), is below 5 %.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from sdcd.experiments.plan import FAMILIES
from sdcd.methods import ordered, pruned
from sdcd.report.view import Span, Table
from sdcd.runs import summaries
from sdcd.statistics import ALPHA, Estimate, benjamini_hochberg, of_sample
from sdcd.tables.comparison import signed

METRICS: Mapping[str, tuple[str, int, int]] = {
    "shd": ("SHD", -1, 1),
    "shd_cpdag": ("SHD-CPDAG", -1, 1),
    "precision": ("precision", 1, 3),
    "recall": ("recall", 1, 3),
    "average_precision": ("average precision", 1, 3),
}
"""What is compared: its name, whether more (1) or less (-1) is better, and digits shown."""

ANSWERS = ("better", "worse", "undecided", "one data set")
"""What a difference says. The last: without a second data set there is no test."""

CHOSEN_ON = {"families": ("observational", "interventional"), "d": 20, "s": 4, "seeds": range(5)}
"""The graphs on whose data the settings of both steps were chosen: see docs/pruning-protocol.md and
docs/order-protocol.md."""


@dataclass(frozen=True)
class Step:
    """What may be done after a method.

    Attributes
    ----------
    done : str
        What a method is after it, in a word.
    base_of : callable
        The method that a method with this step starts from; None if it has no such step.
    """

    done: str
    base_of: Callable[[str], str | None]


PRUNING = Step("pruned", pruned.base_of)
ORDERING = Step("ordered", ordered.base_of)

_SETTING = list(summaries.SETTING)
_WHERE = ["experiment", *_SETTING]


def effects(runs: pd.DataFrame, step: Step = PRUNING) -> pd.DataFrame:
    """What a step changes in each kind of data.

    Parameters
    ----------
    runs : DataFrame
        Columns :data:`sdcd.runs.table.RUN_COLUMNS`, of any number of experiments.
    step : Step

    Returns
    -------
    DataFrame
        A row for each experiment, setting, method with the step and metric that has at least one
        data set with both scores: ``experiment``, ``d``, ``s``, ``fraction``, ``mechanism``,
        ``method``, ``base``, ``metric``; ``n`` (data sets), ``failed`` (fits of it), ``seeds``;
        means ``before`` and ``after``; ``difference`` (after - before) with ``low``, ``high`` and
        the adjusted ``p``; ``answer``, one of :data:`ANSWERS`.
    """
    rows = []
    for experiment, name, base, group in _with_step(runs, step):
        failed = group[(group["method"] == name) & (group["status"] != "ok")]
        failed = failed.groupby(_SETTING).size()
        for metric in METRICS:
            pairs = summaries.pair_methods(group, name, base, metric)
            for setting, cell in pairs.groupby(_SETTING):
                rows.append(
                    {
                        "experiment": experiment,
                        **dict(zip(_SETTING, setting, strict=True)),
                        "method": name,
                        "base": base,
                        "metric": metric,
                        "failed": int(failed.get(setting, 0)),
                        "seeds": tuple(sorted(cell["seed"])),
                        "before": cell["second"].mean(),
                        "after": cell["first"].mean(),
                        **_estimated(cell["difference"]),
                    }
                )
    return _answered(rows)


def overall(runs: pd.DataFrame, step: Step = PRUNING) -> pd.DataFrame:
    """What a step changes on average over all kinds of data of an experiment.

    Returns
    -------
    DataFrame
        As :func:`effects`, without the setting: one row for each experiment, method and
        metric, with ``kinds``, the number of settings. What has the same graph (the fractions of
        one d, s and seed) counts as one data set.
    """
    rows = []
    for experiment, name, base, group in _with_step(runs, step):
        for metric in METRICS:
            pairs = summaries.pair_methods(group, name, base, metric)
            if not len(pairs):
                continue
            graphs = pairs.groupby(["d", "s", "mechanism", "seed"])[
                ["first", "second", "difference"]
            ].mean()
            rows.append(
                {
                    "experiment": experiment,
                    "method": name,
                    "base": base,
                    "metric": metric,
                    "kinds": pairs.groupby(_SETTING).ngroups,
                    "before": graphs["second"].mean(),
                    "after": graphs["first"].mean(),
                    **_estimated(graphs["difference"]),
                }
            )
    return _answered(rows)


def leads(runs: pd.DataFrame, step: Step = PRUNING) -> pd.DataFrame:
    """SHD of SDCD less that of each other method, before the step and after it.

    Returns
    -------
    DataFrame
        A row for each experiment, setting and other method, over the data sets on which all four
        finished: ``experiment``, the setting, ``other``, ``n``, and with the prefixes ``before_``
        and ``after_`` the columns ``difference``, ``low``, ``high``, ``p`` and ``answer``, of which
        ``better`` means that SDCD has the lower SHD.
    """
    before, after = [], []
    # A method with the step may have two names, for one and the same thing.
    once = {(row[0], row[2]): row for row in _with_step(runs, step)}
    for (experiment, base), (_, name, _, group) in once.items():
        own = once.get((experiment, "SDCD"))
        if own is None or base == "SDCD":
            continue
        pairs = summaries.pair_methods(group, own[1], name).merge(
            summaries.pair_methods(group, "SDCD", base),
            on=[*_SETTING, "seed"],
            suffixes=("_after", "_before"),
        )
        for setting, cell in pairs.groupby(_SETTING):
            at = {"experiment": experiment, **dict(zip(_SETTING, setting, strict=True))}
            at |= {"other": base, "metric": "shd"}
            before.append({**at, **_estimated(cell["difference_before"])})
            after.append({**at, **_estimated(cell["difference_after"])})
    found = ["difference", "low", "high", "p", "answer"]
    first = _answered(before).rename(columns={name: f"before_{name}" for name in found})
    second = _answered(after).rename(columns={name: f"after_{name}" for name in found})
    added = second[[name for name in second if name.startswith("after_")]]
    return pd.concat([first, added], axis=1).drop(columns="metric", errors="ignore")


def _with_step(runs: pd.DataFrame, step: Step) -> Iterable[tuple[str, str, str, pd.DataFrame]]:
    """Experiment, method with the step, its base, and all runs of the experiment."""
    for experiment, group in runs.groupby("experiment", sort=False):
        group = summaries.tidy(group)
        names = list(dict.fromkeys(group["method"]))
        for name in names:
            base = step.base_of(name)
            if base in names:
                yield experiment, name, base, group


def _estimated(differences: pd.Series) -> dict[str, object]:
    estimate = of_sample(differences)
    low, high = estimate.interval() if estimate.error else (math.nan, math.nan)
    return {
        "n": estimate.n,
        "difference": estimate.value,
        "low": low,
        "high": high,
        "p": _p(estimate),
    }


def _p(estimate: Estimate) -> float:
    """Two-sided p value; of equal differences, that of the sign test, since they have no spread."""
    if estimate.error == 0:
        return 1.0 if estimate.value == 0 else 2 * 0.5**estimate.n
    return estimate.p_different()


def _answered(rows: list[dict]) -> pd.DataFrame:
    table = pd.DataFrame(rows)
    if not len(table):
        return table
    table["p"] = table.groupby("metric")["p"].transform(lambda p: benjamini_hochberg(p.to_numpy()))
    gained = np.array([METRICS[metric][1] for metric in table["metric"]]) * table["difference"]
    shown = table["p"] < ALPHA
    table["answer"] = np.select(
        [table["n"] < 2, shown & (gained > 0), shown & (gained < 0)],
        ["one data set", "better", "worse"],
        "undecided",
    )
    return table


# The part of the report


@dataclass(frozen=True)
class Answer:
    """The kinds of data in which a step does the same to SHD."""

    title: str
    css: str
    count: str
    kinds: list[str]


@dataclass(frozen=True)
class Section:
    """What the page says of a step."""

    methods: str
    answers: list[Answer]
    by_experiment: Table
    leads: Table | None
    leads_sentence: str
    tables: list[tuple[str, Table]]
    chosen_on: bool
    shortened: list[str]


def section(runs: pd.DataFrame, step: Step = PRUNING) -> Section | None:
    """In which kinds of data a step lowers SHD, in which it raises it, and where SDCD leads.

    ``None`` if no method with it was run.
    """
    table = effects(runs, step)
    if not len(table):
        return None
    lead, sentence = _leads(runs, step)
    compared = [
        group[group["method"].isin((name, base))] for _, name, base, group in _with_step(runs, step)
    ]
    *first, last = dict.fromkeys(table["method"])
    return Section(
        " and ".join(filter(None, [", ".join(first), last])),
        _answers(table),
        _by_experiment(table, overall(runs, step)),
        lead,
        sentence,
        [
            (experiment.replace("_", " ").capitalize(), _table(group))
            for experiment, group in table.groupby("experiment", sort=False)
        ],
        any(_chosen_on(row) for row in table.to_dict("records")),
        summaries.shortened_by_method(pd.concat(compared)),
    )


_TITLES = {
    "better": "Helps: SHD is lower",
    "worse": "Hurts: SHD is higher",
    "undecided": "Undecided",
    "one data set": "One data set only, no test",
}


def _answers(table: pd.DataFrame) -> list[Answer]:
    """For each answer, the kinds of data in which SHD gives it."""
    shd = table[table["metric"] == "shd"]
    several = shd["method"].nunique() > 1
    found = []
    for answer, title in _TITLES.items():
        group = shd[shd["answer"] == answer]
        if not len(group) and answer == "one data set":
            continue
        kinds = [
            f"{_where(row)}{_mark(row)} ("
            + (f"{row['method']}, " if several else "")
            + f"{signed(row['difference'], 1)})"
            for row in group.to_dict("records")
        ]
        found.append(Answer(title, _css(answer), f"{len(group)} of {len(shd)}", kinds))
    return found


def _by_experiment(table: pd.DataFrame, means: pd.DataFrame) -> Table:
    """How often each answer is given, and the mean over all kinds of data of an experiment."""
    keys = ["experiment", "method"]
    shd = table[table["metric"] == "shd"]
    means = means[means["metric"] == "shd"].set_index(keys)
    answers = [answer for answer in ANSWERS if (shd["answer"] == answer).any()]
    rows = []
    for key, group in shd.groupby(keys, sort=False):
        counts = group["answer"].value_counts()
        mean = means.loc[key]
        word = "" if mean["answer"] == "one data set" else mean["answer"]
        values = f"{mean['before']:.1f} → {mean['after']:.1f}"
        rows.append(
            (
                key[0].replace("_", " "),
                key[1],
                *(str(counts.get(answer, 0)) for answer in answers),
                _spans(values, mean["answer"], word, _interval(mean, 1)),
                str(mean["n"]),
            )
        )
    return Table(("experiment", "method", *answers, "SHD over all", "graphs"), rows)


def _leads(runs: pd.DataFrame, step: Step) -> tuple[Table | None, str]:
    table = leads(runs, step=step)
    if not len(table):
        return None, ""
    rows = []
    for row in table.to_dict("records"):
        cells = [_where(row), row["other"], str(row["n"])]
        for when in ("before", "after"):
            found = {name: row[f"{when}_{name}"] for name in ("difference", "low", "high")}
            words = {"better": "SDCD leads", "worse": f"{row['other']} leads"}
            answer = row[f"{when}_answer"]
            cells.append(_spans(_interval(found, 1), answer, words.get(answer, answer)))
        rows.append(cells)
    after, before = table["after_answer"].value_counts(), table["before_answer"].value_counts()
    neither = f"neither {step.done}"
    sentence = (
        f"Of {len(table)} comparisons with another {step.done} method, SDCD has the lower SHD in "
        f"{after.get('better', 0)} ({before.get('better', 0)} with {neither}), the other in "
        f"{after.get('worse', 0)} ({before.get('worse', 0)}); the rest is undecided."
    )
    head = (
        *("data", "against", "data sets"),
        f"SHD of SDCD − other, {neither}",
        f"both {step.done}",
    )
    return Table(head, rows), sentence


def _table(table: pd.DataFrame) -> Table:
    several = table["method"].nunique() > 1
    names = [name for name, _, _ in METRICS.values()]
    head = ("data", "n", *("AP" if name == "average precision" else name for name in names))
    rows = []
    for _, cell in table.groupby([*_WHERE, "method"], sort=False):
        by_metric = {row["metric"]: row for row in cell.to_dict("records")}
        any_row = next(iter(by_metric.values()))
        first, *further = _parts(any_row)
        lines = [first + _mark(any_row), *further, *([any_row["method"]] if several else [])]
        failed = f" ({any_row['failed']} failed)" if any_row["failed"] else ""
        cells = [[Span(line) for line in lines], f"{cell['n'].max()}{failed}"]
        for metric, (_, _, digits) in METRICS.items():
            row = by_metric.get(metric)
            if row is None:
                cells.append("–")
                continue
            means = f"{row['before']:.{digits}f} → {row['after']:.{digits}f}"
            word = "" if row["answer"] == "one data set" else row["answer"]
            cells.append(_spans(means, row["answer"], word, _interval(row, digits)))
        rows.append(cells)
    return Table(head, rows)


def _mark(row: Mapping) -> str:
    return " §" if _chosen_on(row) else ""


def _chosen_on(row: Mapping) -> bool:
    return (
        FAMILIES.get(row["experiment"]) in CHOSEN_ON["families"]
        and (row["d"], row["s"]) == (CHOSEN_ON["d"], CHOSEN_ON["s"])
        and any(seed in CHOSEN_ON["seeds"] for seed in row["seeds"])
    )


def _where(row: Mapping) -> str:
    return ", ".join([row["experiment"].replace("_", " "), *_parts(row)])


def _parts(row: Mapping) -> list[str]:
    """What distinguishes a kind of data within its experiment."""
    parts = [f"d = {row['d']}, s = {row['s']}"]
    parts += [row["mechanism"]] if row["mechanism"] else []
    if FAMILIES.get(row["experiment"]) == "interventional":
        parts.append(f"fraction {row['fraction']:g}")
    return parts


def _spans(first: str, answer: str, word: str, second: str = "") -> list[Span]:
    spans = [Span(first)]
    spans += [Span(second, "difference")] if second else []
    return [*spans, *([Span(word, _css(answer))] if word else [])]


def _css(answer: str) -> str:
    return {"better": "better", "worse": "worse"}.get(answer, "open")


def _interval(row: Mapping, digits: int) -> str:
    text = signed(row["difference"], digits)
    if math.isnan(row["low"]):
        return text
    return f"{text} [{signed(row['low'], digits)}, {signed(row['high'], digits)}]"
