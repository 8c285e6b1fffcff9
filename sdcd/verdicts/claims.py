"""A verdict on every claim of the paper's text: the claims are in ``claims.csv``.

A claim's test is a function of this module, named in the column ``test`` and registered in
:data:`TESTS`; ``arguments`` are its settings as ``name=value; name=value``, where a value is a
word, a list ``a,b`` or, for numbers, a range ``a..b``; ``threshold`` was fixed before any of our
runs. Only runs as in the paper count: shortened ones are left out, and methods that the paper does
not compare.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
import pandas as pd

from sdcd import published
from sdcd.errors import InputError
from sdcd.runs import summaries
from sdcd.verdicts import statistics
from sdcd.verdicts.statistics import ALPHA, Estimate

RATIO_METRICS = ("shd", "shd_cpdag", "n_edges", "seconds")
"""Metrics compared by their ratio, on the scale of log(1 + x); others by their difference."""

DRAWS = 2000
"""Bootstrap draws behind the interval of a share."""

CLAIM_COLUMNS = (
    "id",
    "place",
    "quote",
    "experiment",
    "test",
    "arguments",
    "threshold",
    "contradiction",
)


@dataclass(frozen=True)
class Claim:
    """One row of ``claims.csv``."""

    id: str
    place: str
    quote: str
    experiment: str
    test: str
    arguments: Mapping[str, str]
    threshold: float
    contradiction: str

    def words(self, name: str) -> list[str]:
        """A list-valued argument."""
        return [word.strip() for word in self.arguments[name].split(",")]

    def covers(self, column: str, values: pd.Series) -> pd.Series:
        """Which values a numeric argument admits (all if the claim has none of that name)."""
        text = self.arguments.get(column)
        if text is None:
            return pd.Series(True, index=values.index)
        if ".." in text:
            low, high = text.split("..")
            return values.between(float(low), float(high))
        return values.isin([float(word) for word in text.split(",")])


@dataclass
class Outcome:
    """What a test found, before the correction for the number of claims.

    Attributes
    ----------
    evaluated, expected : int
        Comparisons that our runs allowed, and that the claim is about. Unless they are equal, the
        claim can be refuted but not supported.
    p_support, p_refute : float
        Unadjusted over claims; NaN if the test has no p value, and then ``supported`` and
        ``refuted`` say what it found.
    estimate, low, high : float
        Of the comparison that supports the claim least.
    note : str
        Which comparison that is, and what was left out.
    seeds_needed : float
        Data sets for each setting that would settle it; NaN if nothing is open.
    """

    evaluated: int
    expected: int
    p_support: float = math.nan
    p_refute: float = math.nan
    supported: bool = False
    refuted: bool = False
    estimate: float = math.nan
    low: float = math.nan
    high: float = math.nan
    note: str = ""
    seeds_needed: float = math.nan


@dataclass
class _Comparison:
    """One of the comparisons that a claim consists of."""

    where: str
    p_support: float
    p_refute: float
    estimate: float = math.nan
    low: float = math.nan
    high: float = math.nan
    seeds: float = 0.0


@dataclass
class _Data:
    """What a test looks at."""

    claim: Claim
    runs: pd.DataFrame
    experiment: str

    def settings(self, table: pd.DataFrame) -> pd.DataFrame:
        """The rows of a table whose setting the claim is about."""
        chosen = pd.Series(True, index=table.index)
        for column in ("d", "s", "fraction"):
            chosen &= self.claim.covers(column, table[column])
        density = 200 * table["s"] / (table["d"] - 1)
        return table[chosen & self.claim.covers("density", density)]

    def printed(self) -> pd.DataFrame:
        """The paper's cells that the claim is about, with their metric where it is known."""
        return self.settings(published.published_table(self.experiment))

    def ours(self) -> pd.DataFrame:
        """Our runs that the claim is about."""
        return self.settings(self.runs)

    def metric(self) -> str:
        return self.claim.arguments["metric"]

    def others(self) -> list[str]:
        """The methods that the claim compares with."""
        words = self.claim.words("against" if "against" in self.claim.arguments else "method")
        if words == ["others"]:
            method = self.claim.arguments.get("method", "SDCD")
            own = {method, "SDCD", "SDCD-GPU"}
            return [name for name in dict.fromkeys(self.printed()["method"]) if name not in own]
        return words


def read_claims() -> list[Claim]:
    """The claims in the order of the file.

    Raises
    ------
    InputError
        If a row has an unknown test, a duplicate name or a threshold that is no number.
    """
    with (files("sdcd.verdicts") / "claims.csv").open(encoding="utf-8") as stream:
        table = pd.read_csv(stream, dtype=str, keep_default_na=False)
    if tuple(table.columns) != CLAIM_COLUMNS:
        raise InputError(f"claims.csv: columns are {', '.join(table)}, expected {CLAIM_COLUMNS}")
    claims = []
    for number, row in enumerate(table.to_dict("records"), start=2):
        if row["test"] not in TESTS:
            raise InputError(f"claims.csv: line {number}, unknown test {row['test']!r}")
        arguments = {}
        for part in filter(None, (part.strip() for part in row["arguments"].split(";"))):
            name, _, value = part.partition("=")
            arguments[name.strip()] = value.strip()
        try:
            threshold = float(row["threshold"] or "nan")
        except ValueError:
            raise InputError(
                f"claims.csv: line {number}, threshold is {row['threshold']!r}, expected a number"
            ) from None
        claims.append(Claim(**{**row, "arguments": arguments, "threshold": threshold}))
    names = [claim.id for claim in claims]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"claims.csv: two claims are called {name!r}")
    return claims


def judge_claims(runs: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row for each claim: see :func:`sdcd.verdicts.judge`."""
    rows = [_judge_claim(claim, runs) for claim in read_claims()]
    table = pd.DataFrame(rows)
    for column in ("p_support", "p_refute"):
        table[column] = statistics.benjamini_hochberg(table[column].to_numpy(dtype=float))
    tested = table["_outcome"].notna()
    for index in table.index[tested]:
        row = table.loc[index]
        table.loc[index, "verdict"] = _decide(row)
        outcome = row["_outcome"]
        holds = outcome.supported or row["p_support"] < ALPHA
        if holds and outcome.evaluated < outcome.expected:
            table.loc[index, "note"] += " It holds for those."
            table.loc[index, "seeds_needed"] = np.nan
    settled = table["verdict"] != "inconclusive"
    table.loc[settled, "seeds_needed"] = np.nan
    return table.drop(columns="_outcome")


def _judge_claim(claim: Claim, runs: Mapping[str, pd.DataFrame]) -> dict:
    row = {
        "kind": "claim",
        "id": claim.id,
        "experiment": claim.experiment,
        "place": claim.place,
        "statement": claim.quote,
        "method": claim.arguments.get("method", ""),
        "metric": claim.arguments.get("metric", ""),
        "test": claim.test,
        "threshold": claim.threshold,
        "contradiction": claim.contradiction,
        "verdict": "not run",
        "_outcome": None,
    }
    data = _data_of(claim, runs)
    if data is None:
        return row | {"note": "Nothing was run for it."}
    shortened = 0
    if "shortened" in data.runs:
        whole = data.runs["shortened"] == ""
        shortened = int((~whole).sum())
        data.runs = data.runs[whole]
    outcome = TESTS[claim.test](data)
    note = outcome.note
    if shortened:
        note = f"{note} {shortened} shortened runs were left out.".strip()
    if not outcome.evaluated:
        return row | {"note": note or "None of our runs is about it."}
    if outcome.evaluated < outcome.expected:
        note = f"{note} {outcome.evaluated} of {outcome.expected} comparisons were run.".strip()
    return row | {
        "p_support": outcome.p_support,
        "p_refute": outcome.p_refute,
        "estimate": outcome.estimate,
        "low": outcome.low,
        "high": outcome.high,
        "seeds_needed": outcome.seeds_needed,
        "note": note,
        "_outcome": outcome,
    }


def _data_of(claim, runs) -> _Data | None:
    if not claim.experiment:
        return _Data(claim, pd.DataFrame(), "")
    table = runs.get(claim.experiment)
    if table is None or not len(table):
        return None
    if claim.experiment in published.EXPERIMENTS:
        table = summaries.tidy(table)
        table = table[table["status"] != "unavailable"]
        # What the paper says of the other methods is said of those it compares.
        table = table[table["method"].isin(_methods_of_paper(claim.experiment))]
    return _Data(claim, table, claim.experiment)


@cache
def _methods_of_paper(experiment: str) -> frozenset[str]:
    logged = published.published_runs(experiment, complete=True)
    return frozenset([*published.published_table(experiment)["method"], *logged["method"]])


def _decide(row: pd.Series) -> str:
    outcome = row["_outcome"]
    complete = outcome.evaluated == outcome.expected
    if outcome.refuted or row["p_refute"] < ALPHA:
        return "not reproduced"
    if complete and (outcome.supported or row["p_support"] < ALPHA):
        return "reproduced"
    return "inconclusive"


# Comparisons of methods.


def _lower(data: _Data) -> Outcome:
    """The method's metric is less than ``threshold`` times that of every other, everywhere."""
    return _combine(data, *_compare(data, lambda estimate: (estimate, 0.0, "below")))


def _higher(data: _Data) -> Outcome:
    """The method's metric exceeds that of every other by more than ``threshold``, everywhere."""
    return _combine(data, *_compare(data, lambda estimate: (estimate, 0.0, "above")))


def _within(data: _Data) -> Outcome:
    """The two methods' metrics are within a factor ``threshold``, or a difference, everywhere."""
    threshold = data.claim.threshold
    margin = math.log(threshold) if data.metric() in RATIO_METRICS else threshold
    return _combine(data, *_compare(data, lambda estimate: (estimate, margin, "within")))


def _compare(data: _Data, rule: Callable) -> tuple[list[_Comparison], int]:
    """All comparisons of the claim's method with the others; and how many there should be."""
    claim, metric = data.claim, data.metric()
    method = claim.arguments["method"]
    scope = claim.arguments.get("scope", "each")
    printed = data.printed()
    book = _book(data.ours(), metric)
    comparisons, expected = [], 0
    setting = list(summaries.SETTING)
    for other in data.others():
        own = printed[(printed["method"] == method) & (printed["status"] == "ok")]
        rival = printed[(printed["method"] == other) & (printed["status"] == "ok")]
        cells = own[setting].merge(rival[setting], on=setting)
        groups = _groups(cells, scope)
        expected += len(groups)
        for label, members in groups:
            comparison = _compare_group(data, book, method, other, members, metric, rule, scope)
            if comparison is not None:
                comparison.where = f"{method} to {other}{label}"
                comparisons.append(comparison)
    return comparisons, expected


def _groups(cells: pd.DataFrame, scope: str) -> list[tuple[str, pd.DataFrame]]:
    if not len(cells):
        return []
    if scope == "pooled":
        return [("", cells)]
    keys = {"each": list(summaries.SETTING), "graph": ["d", "s", "mechanism"]}[scope]
    return [(f" at {_place(cells, group)}", group) for _, group in cells.groupby(keys)]


def _place(cells: pd.DataFrame, group: pd.DataFrame) -> str:
    """A setting in words, naming only what varies between the cells."""
    first = group.iloc[0]
    parts = [f"d={first['d']}"]
    if cells["s"].nunique() > 1:
        parts.append(f"s={first['s']}")
    if group["fraction"].nunique() == 1 and cells["fraction"].nunique() > 1:
        parts.append(f"fraction {first['fraction']:g}")
    if first["mechanism"]:
        parts.append(first["mechanism"])
    return ", ".join(parts)


def _compare_group(data, book, method, other, members, metric, rule, scope):
    settings = list(members[list(summaries.SETTING)].itertuples(index=False, name=None))
    own = {setting: book.values.get((method, *setting), {}) for setting in settings}
    if scope != "each" and not all((method, *setting) in book.tried for setting in settings):
        return None
    if not any(own.values()):
        return None
    ratio, threshold = metric in RATIO_METRICS, data.claim.threshold
    if not any((other, *setting) in book.tried for setting in settings):
        values = np.array([value for runs in own.values() for value in runs.values()])
        return _against_published(data, values, other, members, metric, rule)
    rival = {setting: book.values.get((other, *setting), {}) for setting in settings}
    if not any(rival.values()):
        # The other method failed where this one did not: nothing is left to compare.
        return _Comparison("", 0.0, 1.0)
    # Fractions of one data set share its graph and rows: one observation.
    differences: dict[tuple, list[float]] = {}
    for setting, runs in own.items():
        d, s, _, mechanism = setting
        for seed in runs.keys() & rival[setting].keys():
            first, second = runs[seed], rival[setting][seed]
            difference = math.log1p(first) - math.log1p(second) if ratio else first - second
            differences.setdefault((d, s, mechanism, seed), []).append(difference)
    if not differences:
        return None
    values = np.array([np.mean(differences[key]) for key in sorted(differences)])
    if rule(None)[2] != "within":
        values = values - (math.log(threshold) if ratio else threshold)
    return _one_sided(statistics.of_sample(values), rule, ratio, threshold)


@dataclass(frozen=True)
class _Book:
    """Runs by method and setting: the values of a metric by seed, and what was tried at all."""

    values: Mapping[tuple, Mapping[int, float]]
    tried: frozenset[tuple]


def _book(runs: pd.DataFrame, metric: str) -> _Book:
    cells = list(runs[list(summaries.CELL)].itertuples(index=False, name=None))
    numbers = pd.to_numeric(runs[metric]).astype(float).where(runs["status"] == "ok")
    values: dict[tuple, dict[int, float]] = {}
    for cell, seed, value in zip(cells, runs["seed"], numbers, strict=True):
        if not math.isnan(value):
            values.setdefault(cell, {})[seed] = value
    return _Book(values, frozenset(cells))


def _against_published(data, values, other, members, metric, rule):
    """Our runs of the method against the paper's value of a method that we did not run."""
    if metric == "seconds" or len(members) > 1:
        return None
    cell = members.iloc[0]
    table = _published_means(data.experiment, metric)
    match = (table["method"] == other) & table["mean"].notna()
    for column in summaries.SETTING:
        match &= table[column] == cell[column]
    if not match.any():
        return None
    row = table[match].iloc[0]
    threshold, kind = data.claim.threshold, rule(None)[2]
    ratio = metric in RATIO_METRICS
    if kind == "within":
        estimate = statistics.welch(values, row["mean"], row["sd"], row["n"])
        margin = (threshold - 1) * row["mean"] if ratio else threshold
        return _judged(estimate, margin, "within", estimate.value, estimate.interval())
    factor, shift = (threshold, 0.0) if ratio else (1.0, threshold)
    mean, sd = factor * row["mean"] + shift, factor * row["sd"]
    estimate = statistics.welch(values, mean, sd, row["n"])
    low, high = estimate.interval()
    base = row["mean"]
    if ratio:
        shown = tuple((bound + mean) / base for bound in (estimate.value, low, high))
    else:
        shown = tuple(bound + threshold for bound in (estimate.value, low, high))
    return _judged(estimate, 0.0, kind, shown[0], shown[1:])


@cache
def _published_means(experiment: str, metric: str) -> pd.DataFrame:
    if metric == "shd":
        return published.published_table(experiment)
    return summaries.summarise(published.published_runs(experiment), metric)


def _one_sided(estimate: Estimate, rule, ratio: bool, threshold: float) -> _Comparison:
    _, margin, kind = rule(estimate)
    low, high = estimate.interval()
    shown = (estimate.value, low, high)
    if ratio:
        factor = 1.0 if kind == "within" else threshold
        shown = tuple(factor * math.exp(bound) for bound in shown)
    elif kind != "within":
        shown = tuple(bound + threshold for bound in shown)
    return _judged(estimate, margin, kind, shown[0], shown[1:])


def _judged(estimate: Estimate, margin: float, kind: str, value, interval) -> _Comparison:
    """P values and the shown estimate of one comparison."""
    if kind == "below":
        support, refute, bound = estimate.p_below(0), estimate.p_above(0), 0.0
    elif kind == "above":
        support, refute, bound = estimate.p_above(0), estimate.p_below(0), 0.0
    else:
        support = estimate.p_within(margin)
        refute = min(1.0, 2 * min(estimate.p_above(margin), estimate.p_below(-margin)))
        bound = math.copysign(margin, estimate.value)
    # A level well below ALPHA: p values are still to be adjusted for the number of claims.
    seeds = max(estimate.seeds_to_settle(bound, ALPHA / 5), estimate.n + 1)
    return _Comparison("", support, refute, value, *interval, seeds)


def _combine(data: _Data, comparisons: list[_Comparison], expected: int) -> Outcome:
    """A claim that holds if all its comparisons do.

    To support all of them each must be significant on its own, which needs no correction; to
    refute one of them is enough, for which their p values are adjusted by Holm's rule.
    """
    if not comparisons:
        return Outcome(0, expected)
    support = np.array([comparison.p_support for comparison in comparisons])
    refute = statistics.holm(np.array([comparison.p_refute for comparison in comparisons]))
    open_ = [
        comparison.seeds
        for comparison, adjusted in zip(comparisons, refute, strict=True)
        if not (comparison.p_support < ALPHA or adjusted < ALPHA)
    ]
    worst = comparisons[int(np.argmax(np.where(np.isnan(support), 2.0, support)))]
    if np.nanmin(refute, initial=1.0) < ALPHA:
        worst = comparisons[int(np.nanargmin(refute))]
    return Outcome(
        len(comparisons),
        expected,
        p_support=float(support.max()),  # NaN if any comparison has a single data set
        p_refute=float(np.nanmin(refute)) if not np.isnan(refute).all() else math.nan,
        estimate=worst.estimate,
        low=worst.low,
        high=worst.high,
        note=f"Weakest comparison: {worst.where}." if worst.where else "",
        seeds_needed=max(open_, default=max(comparison.seeds for comparison in comparisons)),
    )


# One method against a number.


def _against_number(data: _Data, kind: str, scale: Callable, failed_counts: bool) -> Outcome:
    metric, threshold = data.metric(), data.claim.threshold
    methods = (
        data.others() if data.claim.words("method") == ["others"] else data.claim.words("method")
    )
    printed, ours = data.printed(), data.ours()
    keys = ["method", *summaries.SETTING]
    wanted = printed[printed["method"].isin(methods)]
    wanted = wanted[wanted["status"].isin(["ok", "failed"] if failed_counts else ["ok"])]
    comparisons, count = [], 0
    for key, group in ours[ours["method"].isin(methods)].groupby(keys):
        if not (wanted[keys] == list(key)).all(axis=1).any():
            continue
        finished = group[(group["status"] == "ok") & group[metric].notna()]
        where = f"{key[0]} at d={key[1]}"
        if not len(finished):
            if failed_counts:
                count += 1
                comparisons.append(_Comparison(where, 0.0, 1.0))
            continue
        count += 1
        values, unit = finished[metric].astype(float).to_numpy(), scale(key)
        if metric in RATIO_METRICS:
            estimate = statistics.of_sample(np.log1p(values) - math.log1p(threshold * unit))
            shown = [threshold * math.exp(x) for x in (estimate.value, *estimate.interval())]
        else:
            estimate = statistics.of_sample(values - threshold)
            shown = [threshold + x for x in (estimate.value, *estimate.interval())]
        comparison = _judged(estimate, 0.0, kind, shown[0], shown[1:])
        comparison.where = where
        comparisons.append(comparison)
    return _combine(data, comparisons, len(wanted))


def _edges(key) -> float:
    return float(key[1] * key[2])


def _one(key) -> float:
    return 1.0


def _below(data: _Data) -> Outcome:
    """The mean of the metric is below ``threshold`` at every setting."""
    return _against_number(data, "below", _one, False)


def _above(data: _Data) -> Outcome:
    """The mean of the metric is above ``threshold`` at every setting."""
    return _against_number(data, "above", _one, False)


def _below_edges(data: _Data) -> Outcome:
    """The metric is below ``threshold`` times the number of true edges at every setting."""
    return _against_number(data, "below", _edges, False)


def _above_edges(data: _Data) -> Outcome:
    """The metric is above ``threshold`` times the number of true edges at every setting.

    With ``failed=counts`` a method that fails at a setting supports the claim there.
    """
    return _against_number(data, "above", _edges, data.claim.arguments.get("failed") == "counts")


def _all_below(data: _Data) -> Outcome:
    """Every single run is below ``threshold``."""
    method, metric = data.claim.arguments["method"], data.metric()
    wanted = data.printed()
    wanted = wanted[(wanted["method"] == method) & (wanted["status"] == "ok")]
    ours = data.ours()
    ours = ours[(ours["method"] == method) & (ours["status"] == "ok") & ours[metric].notna()]
    ours = ours[ours["d"].isin(wanted["d"])]
    if not len(ours):
        return Outcome(0, len(wanted))
    worst = ours.loc[ours[metric].astype(float).idxmax()]
    value = float(worst[metric])
    return Outcome(
        ours["d"].nunique(),
        wanted["d"].nunique(),
        supported=value < data.claim.threshold,
        refuted=value >= data.claim.threshold,
        estimate=value,
        note=f"Largest of {len(ours)} runs: d={worst['d']}, seed {worst['seed']}.",
    )


def _exponent_below(data: _Data) -> Outcome:
    """The metric grows with d no faster than d to the power ``threshold``."""
    method, metric = data.claim.arguments["method"], data.metric()
    ours = data.ours()
    ours = ours[(ours["method"] == method) & (ours["status"] == "ok") & ours[metric].notna()]
    wanted = data.printed()
    expected = wanted.loc[wanted["method"] == method, "d"].nunique()
    if ours["d"].nunique() < 3:
        return Outcome(0, expected, note="An exponent needs at least three values of d.")
    estimate = fitted_exponent(ours["d"], ours[metric].astype(float))
    shifted = _shifted(estimate, data.claim.threshold)
    low, high = estimate.interval()
    return Outcome(
        ours["d"].nunique(),
        expected,
        p_support=shifted.p_below(0),
        p_refute=shifted.p_above(0),
        estimate=estimate.value,
        low=low,
        high=high,
        note="Estimate: exponent of d.",
        seeds_needed=len(ours) + 1,
    )


def fitted_exponent(d: pd.Series, values: pd.Series) -> Estimate:
    """Slope of log values on log d by least squares, with its standard error."""
    x, y = np.log(np.asarray(d, dtype=float)), np.log(np.asarray(values, dtype=float))
    x = x - x.mean()
    slope = float(x @ y / (x @ x))
    residual = y - y.mean() - slope * x
    freedom = len(x) - 2
    error = math.sqrt(float(residual @ residual) / freedom / float(x @ x))
    return Estimate(slope, error, freedom, math.nan, len(x))


def _shifted(estimate: Estimate, by: float) -> Estimate:
    return Estimate(estimate.value - by, estimate.error, estimate.freedom, estimate.sd, estimate.n)


# Ends of runs.


def _fails(data: _Data) -> Outcome:
    """Every run of the method fails, at every d named."""
    return _ends(data, failing=True)


def _finishes(data: _Data) -> Outcome:
    """Every run of the method finishes, at every d of the table."""
    return _ends(data, failing=False)


def _ends(data: _Data, *, failing: bool) -> Outcome:
    method = data.claim.arguments["method"]
    printed = data.printed()
    expected = printed.loc[printed["method"] == method, "d"].nunique()
    ours = data.ours()
    ours = ours[ours["method"] == method]
    if not len(ours):
        return Outcome(0, expected)
    contrary = ours[(ours["status"] == "ok") == failing]
    kinds = ", ".join(
        f"{count} {status}" for status, count in ours["status"].value_counts().items()
    )
    note = f"{len(ours)} runs: {kinds}."
    if len(contrary):
        note += f" Contrary to the claim at d={', '.join(map(str, sorted(set(contrary['d']))))}."
    return Outcome(
        ours["d"].nunique(),
        expected,
        supported=not len(contrary),
        refuted=bool(len(contrary)),
        note=note,
    )


def _freezes(data: _Data) -> Outcome:
    """In a share of at least ``threshold`` of the runs gamma stopped before its schedule's end.

    The schedule adds 0.005 after each epoch: gamma counts as frozen if it ended more than 10 %
    below that.
    """
    method = data.claim.arguments["method"]
    ours = data.ours()
    ours = ours[(ours["method"] == method) & (ours["status"] == "ok") & ours["last_gamma"].notna()]
    expected = data.printed().query("method == @method")["d"].nunique()
    if not len(ours):
        return Outcome(0, expected)
    epochs = pd.to_numeric(ours["stage2_epochs"]).astype(float).fillna(2000)
    frozen = ours["last_gamma"].astype(float) < 0.9 * 0.005 * epochs
    share = float(frozen.mean())
    return Outcome(
        ours["d"].nunique(),
        expected,
        supported=share >= data.claim.threshold,
        refuted=share < data.claim.threshold,
        estimate=share,
        note=f"gamma froze in {int(frozen.sum())} of {len(ours)} runs.",
    )


# Shares of settings.


def _share_below_edges(data: _Data) -> Outcome:
    """In more than ``threshold`` of the cells the metric is below the number of true edges."""
    printed = data.printed()
    expected = int((printed["status"] == "ok").sum())
    samples = _samples(data, data.ours())
    keys = {
        tuple(row) for row in printed.loc[printed["status"] == "ok", list(summaries.CELL)].values
    }
    samples = {key: values for key, values in samples.items() if key in keys}
    labels = list(samples)

    def share(means: np.ndarray) -> float:
        return float(
            np.mean([mean < key[1] * key[2] for key, mean in zip(labels, means, strict=True)])
        )

    return _share(data, [samples[key] for key in labels], share, len(labels), expected)


def _share_best(data: _Data) -> Outcome:
    """In more than ``threshold`` of the settings the method has the lowest mean of all."""
    method = data.claim.arguments["method"]
    samples = _samples(data, data.ours())
    settings: dict[tuple, list[tuple]] = {}
    for key in samples:
        settings.setdefault(key[1:], []).append(key)
    usable = [
        keys
        for keys in settings.values()
        if len(keys) > 1 and any(key[0] == method for key in keys)
    ]
    labels = [key for keys in usable for key in keys]
    position = {key: index for index, key in enumerate(labels)}

    def share(means: np.ndarray) -> float:
        wins = 0
        for keys in usable:
            best = min(keys, key=lambda key: means[position[key]])
            wins += best[0] == method
        return wins / len(usable)

    printed = data.printed()
    expected = len(
        printed.loc[printed["method"] == method, list(summaries.SETTING)].drop_duplicates()
    )
    return _share(data, [samples[key] for key in labels], share, len(usable), expected)


def _samples(data: _Data, runs: pd.DataFrame) -> dict[tuple, np.ndarray]:
    metric = data.metric()
    finished = runs[(runs["status"] == "ok") & runs[metric].notna()]
    return {
        key: group[metric].astype(float).to_numpy()
        for key, group in finished.groupby(list(summaries.CELL))
    }


def _share(data, samples, statistic, evaluated, expected) -> Outcome:
    """A share of cells with its bootstrap interval over the data sets of each cell."""
    if not samples or not evaluated:
        return Outcome(0, expected)
    threshold = data.claim.threshold
    rng = np.random.default_rng(0)
    draws = np.empty((DRAWS, len(samples)))
    for column, values in enumerate(samples):
        chosen = rng.integers(len(values), size=(DRAWS, len(values)))
        draws[:, column] = values[chosen].mean(axis=1)
    shares = np.array([statistic(means) for means in draws])
    value = statistic(np.array([values.mean() for values in samples]))
    low, high = np.quantile(shares, [ALPHA / 2, 1 - ALPHA / 2])
    smallest = min(len(values) for values in samples)
    return Outcome(
        evaluated,
        expected,
        p_support=float((1 + np.sum(shares <= threshold)) / (1 + DRAWS)),
        p_refute=float((1 + np.sum(shares >= threshold)) / (1 + DRAWS)),
        estimate=value,
        low=float(low),
        high=float(high),
        note=f"Share of {evaluated} cells.",
        seeds_needed=2 * smallest,
    )


# Trends over the fraction of interventions.


def _falls(data: _Data) -> Outcome:
    """SHD falls with the fraction in at least a share ``threshold`` of the settings.

    Its slope by seed, averaged. Supported if the share is reached and a sign test over settings
    rules out chance; refuted if it is not and, where it is 1, one slope is clearly positive.
    """
    slopes, expected = _slopes(data)
    if not slopes:
        return Outcome(0, expected)
    share, down, p_up, worst = _trend(slopes)
    threshold = data.claim.threshold
    return Outcome(
        len(slopes),
        expected,
        p_support=_sign_test(down, len(slopes)) if share >= threshold else 1.0,
        p_refute=p_up if threshold >= 1 else _sign_test(len(slopes) - down, len(slopes)),
        estimate=share,
        note=f"Falls in {down} of {len(slopes)} settings; {worst}.",
        seeds_needed=2 * min(estimate.n for _, estimate in slopes),
    )


def _not_falls(data: _Data) -> Outcome:
    """In some setting SHD clearly rises with the fraction (or, to refute it, falls in all)."""
    slopes, expected = _slopes(data)
    if not slopes:
        return Outcome(0, expected)
    share, down, p_up, worst = _trend(slopes)
    falls = [estimate.p_below(0) for _, estimate in slopes]
    return Outcome(
        len(slopes),
        expected,
        p_support=p_up,
        p_refute=float(np.max(falls)) if len(slopes) == expected else 1.0,
        estimate=share,
        note=f"Falls in {down} of {len(slopes)} settings; {worst}.",
        seeds_needed=2 * min(estimate.n for _, estimate in slopes),
    )


def _slopes(data: _Data) -> tuple[list[tuple[str, Estimate]], int]:
    """Slope of log(1 + metric) over the fraction, by seed, of each method, d and s."""
    metric, methods = data.metric(), data.claim.words("method")
    printed, ours = data.printed(), data.ours()
    if methods == ["all"]:
        methods = list(dict.fromkeys(printed["method"]))
    printed = printed[printed["method"].isin(methods) & (printed["status"] == "ok")]
    wanted = {tuple(row) for row in printed[["method", "d", "s"]].to_numpy()}
    finished = ours[(ours["status"] == "ok") & ours[metric].notna()]
    found = []
    for key, group in finished.groupby(["method", "d", "s"]):
        if key not in wanted:
            continue
        slopes = []
        for _, runs in group.groupby("seed"):
            if runs["fraction"].nunique() > 1:
                x = runs["fraction"] - runs["fraction"].mean()
                slopes.append(float(x @ np.log1p(runs[metric].astype(float)) / (x @ x)))
        if slopes:
            found.append((f"{key[0]} d={key[1]}, s={key[2]}", statistics.of_sample(slopes)))
    return found, len(wanted)


def _trend(slopes) -> tuple[float, int, float, str]:
    down = sum(estimate.value < 0 for _, estimate in slopes)
    rises = statistics.holm(np.array([estimate.p_above(0) for _, estimate in slopes]))
    where, steepest = max(slopes, key=lambda item: item[1].value)
    known = rises[~np.isnan(rises)]
    p_up = float(known.min()) if len(known) else math.nan
    return (
        down / len(slopes),
        down,
        p_up,
        f"largest slope of log SHD {steepest.value:+.2f} at {where}",
    )


def _sign_test(successes: int, trials: int) -> float:
    from scipy import stats

    return float(stats.binomtest(successes, trials, 0.5, alternative="greater").pvalue)


# Constraints.


def _growths(data: _Data):
    from sdcd.acyclicity import CONSTRAINTS, cycle, growth_exponents

    constraint = CONSTRAINTS[data.claim.arguments["constraint"]]
    return {
        int(d): growth_exponents(constraint.value, cycle(int(d))) for d in data.claim.words("d")
    }


def _unstable(data: _Data) -> Outcome:
    """On a cycle of d nodes the constraint vanishes and explodes at least like s to the d."""
    growths = _growths(data)
    least = min(min(g.vanishing, g.exploding) / d for d, g in growths.items())
    holds = least >= data.claim.threshold - 0.01
    return Outcome(
        len(growths),
        len(growths),
        supported=holds,
        refuted=not holds,
        estimate=least,
        note="Estimate: smallest measured exponent, divided by d.",
    )


def _escapes(data: _Data) -> Outcome:
    """On a cycle the constraint ceases to be defined at the scale ``threshold``."""
    growths = _growths(data)
    ends = [g.domain_end for g in growths.values()]
    holds = all(end is not None and abs(end - data.claim.threshold) < 1e-3 for end in ends)
    return Outcome(
        len(growths),
        len(growths),
        supported=holds,
        refuted=not holds,
        estimate=math.nan if None in ends else max(ends),
        note="Estimate: the scale at which it ceases to be defined.",
    )


def _stable(data: _Data) -> Outcome:
    """On a cycle the constraint grows and vanishes like s to the power ``threshold``."""
    growths = _growths(data)
    most = max(max(g.vanishing, g.exploding) for g in growths.values())
    holds = all(g.stable for g in growths.values())
    return Outcome(
        len(growths),
        len(growths),
        supported=holds,
        refuted=not holds,
        estimate=most,
        note="Estimate: largest measured exponent.",
    )


def _cost_below(data: _Data) -> Outcome:
    """The constraint's time grows with d no faster than d to the power ``threshold``."""
    return _cost(data, "below")


def _cost_above(data: _Data) -> Outcome:
    """The constraint's time grows with d faster than d to the power ``threshold``."""
    return _cost(data, "above")


def _cost(data: _Data, kind: str) -> Outcome:
    costs = data.runs[data.runs["constraint"] == data.claim.arguments["constraint"]]
    if costs["d"].nunique() < 3:
        return Outcome(0, 1, note="An exponent needs at least three values of d.")
    estimate = fitted_exponent(costs["d"], costs["seconds"])
    shifted = _shifted(estimate, data.claim.threshold)
    low, high = estimate.interval()
    support, refute = shifted.p_below(0), shifted.p_above(0)
    if kind == "above":
        support, refute = refute, support
    return Outcome(
        1,
        1,
        p_support=support,
        p_refute=refute,
        estimate=estimate.value,
        low=low,
        high=high,
        note="Estimate: exponent of d.",
    )


def _fastest(data: _Data) -> Outcome:
    """Of the constraints compared, this one reaches a DAG after the fewest epochs."""
    claim = data.claim
    records = data.runs[data.runs["mode"] == claim.arguments["mode"]]
    ends = records[records["end"].notna() & (records["end"] != "")]
    epochs = {
        row.constraint: row.epoch if row.end == "dag" else math.inf for row in ends.itertuples()
    }
    own, others = claim.arguments["constraint"], claim.words("among")
    present = [name for name in others if name in epochs]
    if own not in epochs or not present:
        return Outcome(0, len(others))
    best = min(epochs[name] for name in present)
    shown = ", ".join(
        f"{name} {'never' if math.isinf(epochs[name]) else epochs[name]}"
        for name in (own, *present)
    )
    return Outcome(
        len(present),
        len(others),
        supported=epochs[own] < best,
        refuted=epochs[own] > best,
        estimate=epochs[own] if math.isfinite(epochs[own]) else math.nan,
        note=f"Epochs to a DAG: {shown}.",
    )


TESTS: dict[str, Callable[[_Data], Outcome]] = {
    "lower": _lower,
    "higher": _higher,
    "within": _within,
    "below": _below,
    "above": _above,
    "below_edges": _below_edges,
    "above_edges": _above_edges,
    "all_below": _all_below,
    "exponent_below": _exponent_below,
    "fails": _fails,
    "finishes": _finishes,
    "freezes": _freezes,
    "share_below_edges": _share_below_edges,
    "share_best": _share_best,
    "falls": _falls,
    "not_falls": _not_falls,
    "unstable": _unstable,
    "escapes": _escapes,
    "stable": _stable,
    "cost_below": _cost_below,
    "cost_above": _cost_above,
    "fastest": _fastest,
}
"""The tests that ``claims.csv`` may name."""
