"""Tests of claims that compare methods with each other, or one method with a number."""

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pandas as pd

from sdcd import published, statistics
from sdcd.runs import summaries
from sdcd.verdicts.evidence import (
    RATIO_METRICS,
    Book,
    Comparison,
    Data,
    Outcome,
    combine,
    judged,
    rests_on_logs,
    scaled,
    with_failures,
)

# Methods with each other


def lower(data: Data) -> Outcome:
    """The method's metric is less than ``threshold`` times that of every other, everywhere."""
    return combine(*_compare(data, "below"))


def higher(data: Data) -> Outcome:
    """The method's metric exceeds that of every other by more than ``threshold``, everywhere."""
    return combine(*_compare(data, "above"))


def within(data: Data) -> Outcome:
    """The two methods' metrics are within a factor ``threshold``, or a difference, everywhere.

    A factor is a ratio between 1 / ``threshold`` and ``threshold``.
    """
    return combine(*_compare(data, "within"))


def _compare(data: Data, kind: str) -> tuple[list[Comparison], int]:
    """All comparisons of the claim's method with the others; and how many there should be."""
    method = data.claim.arguments["method"]
    scope = data.claim.arguments.get("scope", "each")
    settings: dict[str, list[tuple]] = {}
    for name, *setting in data.cells():
        settings.setdefault(name, []).append(tuple(setting))
    book = Book.of(data.ours(), data.metric())
    comparisons, expected = [], 0
    for other in data.others():
        both = sorted(set(settings.get(method, ())) & set(settings.get(other, ())))
        groups = _groups(both, scope)
        expected += len(groups)
        for label, members in groups:
            comparison = _compare_group(data, book, other, members, kind, scope)
            if comparison is not None:
                comparison.where = f"{method} to {other}{label}"
                comparisons.append(comparison)
    return comparisons, expected


def _groups(settings: list[tuple], scope: str) -> list[tuple[str, list[tuple]]]:
    """Settings that are compared together, with where that is."""
    if scope == "pooled":
        return [("", settings)] if settings else []
    groups: dict[tuple, list[tuple]] = {}
    for d, s, fraction, mechanism in settings:
        key = (d, s, fraction, mechanism) if scope == "each" else (d, s, mechanism)
        groups.setdefault(key, []).append((d, s, fraction, mechanism))
    return [(f" at {_place(settings, group)}", group) for group in groups.values()]


def _place(settings: list[tuple], group: list[tuple]) -> str:
    """A setting in words, naming only what varies between the settings."""
    d, s, fraction, mechanism = group[0]
    parts = [f"d={d}"]
    if len({setting[1] for setting in settings}) > 1:
        parts.append(f"s={s}")
    if len(group) == 1 and len({setting[2] for setting in settings}) > 1:
        parts.append(f"fraction {fraction:g}")
    if mechanism:
        parts.append(mechanism)
    return ", ".join(parts)


def _bound(data: Data, kind: str) -> tuple[float, float]:
    """On the scale of the comparison: the bound (0 for ``within``), and the margin."""
    threshold = data.claim.threshold
    if data.metric() in RATIO_METRICS:
        threshold = math.log(threshold)
    return (0.0, threshold) if kind == "within" else (threshold, 0.0)


def _compare_group(data: Data, book: Book, other, settings, kind, scope) -> Comparison | None:
    method, metric = data.claim.arguments["method"], data.metric()
    own = [(method, *setting) for setting in settings]
    rival = [(other, *setting) for setting in settings]
    if not all(book.tried(cell) for cell in own):
        return None
    if not any(book.values.get(cell) for cell in own):
        return Comparison.decided("", supports=False)
    if not any(book.tried(cell) for cell in rival):
        return _against_published(data, book, own[0], rival, kind)
    if not all(book.tried(cell) for cell in rival):
        return None
    if not any(book.values.get(cell) for cell in rival):
        # It failed where this one did not. That is worse, and not similar.
        return Comparison.decided("", supports=kind != "within")
    bound, margin = _bound(data, kind)
    # Fractions of one data set share its graph and rows: one observation.
    found: dict[tuple, list[float]] = {}
    for first, second in zip(own, rival, strict=True):
        _, d, s, _, mechanism = first
        for seed in sorted(book.tried(first) & book.tried(second)):
            one = book.values.get(first, {}).get(seed)
            two = book.values.get(second, {}).get(seed)
            if one is None:
                distance = math.inf
            elif two is None:
                distance = math.inf if kind == "within" else -math.inf
            else:
                distance = float(scaled(metric, one) - scaled(metric, two)) - bound
            found.setdefault((d, s, mechanism, seed), []).append(distance)
    if not found:
        return None
    ratio = metric in RATIO_METRICS
    # Infinite: against the claim; minus infinite: in favour of it.
    filled = _fill_in([x for distances in found.values() for x in distances], kind, margin, ratio)
    ends = np.cumsum([len(distances) for distances in found.values()])
    values = np.array([part.mean() for part in np.split(filled, ends[:-1])])
    comparison = judged(statistics.of_sample(values), margin, kind, bound, ratio)
    graphs = {key[:-1] for key in found}
    comparison.seeds = statistics.of_each_kind(comparison.seeds, len(graphs))
    return comparison


def _fill_in(distances: list[float], kind: str, margin: float, ratio: bool) -> np.ndarray:
    """Distances in their order, with failures (infinite) as :func:`with_failures` has them."""
    distances = np.array(distances)
    finite = distances[np.isfinite(distances)]
    against, favour = with_failures(finite, 1, 1, kind, margin, ratio)[-2:]
    return np.where(np.isfinite(distances), distances, np.where(distances > 0, against, favour))


def _against_published(data: Data, book: Book, own, rival, kind) -> Comparison | None:
    """Our runs of the method against the paper's value of a method that we did not run."""
    metric = data.metric()
    if metric == "seconds" or len(rival) > 1:
        return None
    row = _published_means(data.experiment, metric).get(rival[0])
    if row is None:
        return None
    values = np.array(list(book.values[own].values()))
    bound, margin = _bound(data, kind)
    ratio = metric in RATIO_METRICS
    mean, sd = row["mean"], row["sd"]
    if ratio:
        # The logarithm of a mean, by its first derivative; the same for ours and the paper's.
        values = math.log1p(values.mean()) + (values - values.mean()) / (1 + values.mean())
        mean, sd = math.log1p(mean), sd / (1 + mean)
    failures = len(book.failed.get(own, ()))
    distances = with_failures(values - mean - bound, failures, 0, kind, margin, ratio)
    return judged(statistics.welch(distances, 0.0, sd, row["n"]), margin, kind, bound, ratio)


@cache
def _published_means(experiment: str, metric: str) -> dict[tuple, dict]:
    """The published mean, sd and number of data sets of every cell that has a mean."""
    logged = _by_cell(summaries.summarise(published.published_runs(experiment), metric))
    if metric != "shd":
        return logged
    printed = _by_cell(published.published_table(experiment))
    for cell, row in printed.items():
        if rests_on_logs(row, logged.get(cell)):
            row["n"] = logged[cell]["n"]
    return printed


def _by_cell(table: pd.DataFrame) -> dict[tuple, dict]:
    table = table[table["mean"].notna()]
    cells = table[list(summaries.CELL)].itertuples(index=False, name=None)
    return dict(zip(cells, table.to_dict("records"), strict=True))


# One method with a number


def below(data: Data) -> Outcome:
    """The mean of the metric is below ``threshold`` at every setting."""
    return _against_number(data, "below", _one)


def above(data: Data) -> Outcome:
    """The mean of the metric is above ``threshold`` at every setting."""
    return _against_number(data, "above", _one)


def below_edges(data: Data) -> Outcome:
    """The metric is below ``threshold`` times the number of true edges at every setting."""
    return _against_number(data, "below", _edges)


def above_edges(data: Data) -> Outcome:
    """The metric is above ``threshold`` times the number of true edges at every setting.

    With ``failed=counts`` a method that fails at a setting supports the claim there.
    """
    return _against_number(data, "above", _edges)


def _edges(cell: tuple) -> float:
    return float(cell[1] * cell[2])


def _one(cell: tuple) -> float:
    return 1.0


def _against_number(data: Data, kind: str, unit: Callable[[tuple], float]) -> Outcome:
    metric = data.metric()
    failures_support = data.claim.arguments.get("failed") == "counts"
    words = data.claim.words("method")
    methods = data.others() if words == ["others"] else words
    statuses = ("ok", "failed") if failures_support else ("ok",)
    wanted = [cell for cell in data.cells(*statuses) if cell[0] in methods]
    book = Book.of(data.ours(), metric)
    ratio = metric in RATIO_METRICS
    comparisons = []
    for cell in wanted:
        if not book.tried(cell):
            continue
        where = f"{cell[0]} at d={cell[1]}"
        values = np.array(list(book.values.get(cell, {}).values()))
        if not len(values):
            comparisons.append(Comparison.decided(where, supports=failures_support))
            continue
        bound = data.claim.threshold * unit(cell)
        distances = scaled(metric, values) - float(scaled(metric, bound))
        failed = len(book.failed.get(cell, ()))
        against, favour = (0, failed) if failures_support else (failed, 0)
        estimate = statistics.of_sample(with_failures(distances, against, favour, kind, 0.0, ratio))
        shift = math.log(data.claim.threshold) if ratio else data.claim.threshold
        comparison = judged(estimate, 0.0, kind, shift, ratio)
        comparison.where = where
        comparisons.append(comparison)
    return combine(comparisons, len(wanted))
