"""Tests of claims about most settings, or about trends: what holds on how many data sets.

The unit is the data set, a graph with its rows: methods and fractions of interventions on one graph
count together. Their share on each data set is one observation.
"""

import math
from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd
from scipy import stats

from sdcd import statistics
from sdcd.runs import summaries
from sdcd.statistics import SETTLED, Estimate
from sdcd.verdicts.evidence import Book, Data, Outcome, with_failures

Graph = tuple[int, int, str]
"""What data sets of one kind share: d, s and mechanism."""


def share_below_edges(data: Data) -> Outcome:
    """On more than a share ``threshold`` of the data sets' methods, SHD is below the empty graph's.

    The empty graph's SHD is the number of true edges.
    """
    cells = data.cells()
    book = Book.of(data.ours(), data.metric())
    holds: dict[tuple, list[float]] = {}
    judged = 0
    for setting, methods in _by_setting(cells).items():
        tried = {method: book.tried((method, *setting)) for method in methods}
        tried = {method: seeds for method, seeds in tried.items() if seeds}
        common = set.intersection(*tried.values()) if tried else set()
        judged += len(tried) if common else 0
        edges = setting[0] * setting[1]
        for seed in common:
            for method in tried:
                value = book.values.get((method, *setting), {}).get(seed, math.inf)
                holds.setdefault((_graph(setting), seed), []).append(float(value < edges))
    return _share(data, holds, judged, len(cells), f"{judged} cells")


def share_best(data: Data) -> Outcome:
    """On more than a share ``threshold`` of the data sets' settings the method has the lowest SHD.

    Of all methods for which the paper has a value there. A tie between k of them counts 1 / k.
    """
    own = data.claim.arguments["method"]
    cells = data.cells()
    book = Book.of(data.ours(), data.metric())
    settings = {key: names for key, names in _by_setting(cells).items() if own in names}
    wins: dict[tuple, list[float]] = {}
    judged = 0
    for setting, methods in settings.items():
        common = set.intersection(*(book.tried((method, *setting)) for method in methods))
        judged += bool(common)
        for seed in common:
            values = {
                method: book.values.get((method, *setting), {}).get(seed, math.inf)
                for method in methods
            }
            lowest = min(values.values())
            best = [method for method, value in values.items() if value == lowest]
            won = own in best and math.isfinite(lowest)
            wins.setdefault((_graph(setting), seed), []).append(won / len(best))
    return _share(data, wins, judged, len(settings), f"{judged} settings")


def freezes(data: Data) -> Outcome:
    """In more than a share ``threshold`` of the runs gamma stopped before its schedule's end.

    The schedule adds 0.005 after each epoch: gamma counts as frozen if it ended more than 10 %
    below that. A run that failed did not freeze.
    """
    method = data.claim.arguments["method"]
    cells = [cell for cell in data.cells() if cell[0] == method]
    ours = data.ours()
    ours = ours[ours["method"] == method]
    failed = ours["status"] != "ok"
    ours = ours[failed | ours["last_gamma"].notna()]
    epochs = pd.to_numeric(ours["stage2_epochs"]).astype(float).fillna(2000)
    frozen = (ours["last_gamma"].astype(float) < 0.9 * 0.005 * epochs) & (ours["status"] == "ok")
    found: dict[tuple, list[float]] = {}
    judged = set()
    for row, froze in zip(ours[[*summaries.CELL, "seed"]].itertuples(False), frozen, strict=True):
        *cell, seed = row
        if tuple(cell) in cells:
            judged.add(tuple(cell))
            found.setdefault((_graph(cell[1:]), seed), []).append(float(froze))
    runs = sum(len(values) for values in found.values())
    count = int(sum(sum(values) for values in found.values()))
    outcome = _share(data, found, len(judged), len(cells), "")
    outcome.note = f"gamma froze in {count} of {runs} runs." if runs else ""
    return outcome


def _by_setting(cells: Iterable[tuple]) -> dict[tuple, list[str]]:
    settings: dict[tuple, list[str]] = {}
    for method, *setting in cells:
        settings.setdefault(tuple(setting), []).append(method)
    return settings


def _graph(setting) -> Graph:
    d, s, _, mechanism = setting
    return d, s, mechanism


def _share(
    data: Data, found: Mapping[tuple, list[float]], evaluated: int, expected: int, what: str
) -> Outcome:
    """The mean over data sets of the share on each, tested against the claim's threshold.

    ``found`` has for each data set, (graph, seed), what was observed on it, each 0 to 1.
    """
    if not found:
        return Outcome(0, expected)
    shares = np.array([np.mean(found[key]) for key in sorted(found)])
    estimate = statistics.of_sample(shares - data.claim.threshold)
    n, graphs = len(shares), len({graph for graph, _ in found})
    low, high = (x + data.claim.threshold for x in estimate.interval())
    return Outcome(
        evaluated,
        expected,
        p_support=_not_below_coins(estimate.p_above(0), n),
        p_refute=_not_below_coins(estimate.p_below(0), n),
        estimate=float(shares.mean()),
        low=max(low, 0.0) if n > 1 else math.nan,
        high=min(high, 1.0) if n > 1 else math.nan,
        note=f"Mean share over {n} data sets, in {what}.",
        seeds_needed=_seeds_of_share(estimate, n, graphs),
    )


def _not_below_coins(p: float, n: int) -> float:
    """A p value, but not below the chance that n coins fall alike; NaN stays NaN."""
    return p if math.isnan(p) else max(p, 2.0**-n)


def _seeds_of_share(estimate: Estimate, n: int, graphs: int) -> float:
    """Data sets for each kind of graph, so that all together settle on which side a share is."""
    fewest = math.ceil(-math.log2(SETTLED))
    total = max(estimate.seeds_to_settle(0.0), n + 1, fewest)
    return statistics.of_each_kind(total, graphs)


# Trends over the fraction of interventions


def falls(data: Data) -> Outcome:
    """SHD falls with the fraction of interventions, on more than a share ``threshold``.

    Below 1: the share of methods whose SHD falls on a data set, over data sets. At 1 the mean slope
    must fall in every setting, and a sign test over settings must rule out chance; one slope that
    clearly rises refutes it.
    """
    slopes = _slopes(data)
    if data.claim.threshold < 1:
        outcome = _share(data, slopes.falls, len(slopes.tried), slopes.expected, "")
        outcome.note = (
            f"Mean share of falling slopes over {len(slopes.falls)} data sets, in "
            f"{len(slopes.tried)} settings."
        )
        return outcome
    if not slopes.tried:
        return Outcome(0, slopes.expected)
    down, tried = slopes.down(), len(slopes.tried)
    return Outcome(
        tried,
        slopes.expected,
        p_support=_sign_test(down, tried) if down == tried else 1.0,
        p_refute=slopes.p_rises(),
        estimate=down / tried,
        note=slopes.words(),
        seeds_needed=slopes.more_seeds(),
    )


def not_falls(data: Data) -> Outcome:
    """In some setting SHD clearly rises with the fraction (or, to refute it, falls in all)."""
    slopes = _slopes(data)
    if not slopes.tried:
        return Outcome(0, slopes.expected)
    falling = [estimate.p_below(0) for estimate in slopes.estimates.values()]
    complete = len(slopes.tried) == slopes.expected and not slopes.dead
    return Outcome(
        len(slopes.tried),
        slopes.expected,
        p_support=slopes.p_rises(),
        p_refute=float(np.max(falling)) if complete else 1.0,
        estimate=slopes.down() / len(slopes.tried),
        note=slopes.words(),
        seeds_needed=slopes.more_seeds(),
    )


class _Slopes:
    """Slopes of log(1 + metric) over the fraction.

    Attributes
    ----------
    expected : int
        Settings (method, d, s) of which the paper has values.
    estimates : dict of tuple to Estimate
        The mean slope of each setting over its data sets; a data set with a failed run counts as
        one that rises.
    dead : set of tuple
        Settings in which every run failed.
    falls : dict of tuple to list
        For each data set, (graph, seed), whether each method that was run there falls (1 or 0).
    """

    def __init__(self, expected: int):
        self.expected = expected
        self.estimates: dict[tuple, Estimate] = {}
        self.dead: set[tuple] = set()
        self.falls: dict[tuple, list[float]] = {}

    @property
    def tried(self) -> set[tuple]:
        return set(self.estimates) | self.dead

    def down(self) -> int:
        return sum(estimate.value < 0 for estimate in self.estimates.values())

    def p_rises(self) -> float:
        """P value that no setting rises; 0 if every run of a setting failed."""
        if self.dead:
            return 0.0
        p = statistics.holm(np.array([e.p_above(0) for e in self.estimates.values()]))
        known = p[~np.isnan(p)]
        return float(known.min()) if len(known) else math.nan

    def words(self) -> str:
        text = f"Falls in {self.down()} of {len(self.tried)} settings"
        if self.dead:
            method, d, s = min(self.dead)
            return f"{text}; every run of {method} failed at d={d}, s={s}."
        (method, d, s), steepest = max(self.estimates.items(), key=lambda item: item[1].value)
        return f"{text}; largest slope of log SHD {steepest.value:+.2f} at {method} d={d}, s={s}."

    def more_seeds(self) -> float:
        return 2 * min((e.n for e in self.estimates.values()), default=1)


def _slopes(data: Data) -> _Slopes:
    metric, methods = data.metric(), data.claim.words("method")
    chosen = [cell for cell in data.cells() if methods == ["all"] or cell[0] in methods]
    wanted = dict.fromkeys((method, d, s) for method, d, s, *_ in chosen)
    slopes = _Slopes(len(wanted))
    by_graph: dict[Graph, dict[str, dict[int, float]]] = {}
    groups = dict(iter(data.ours().groupby(["method", "d", "s"])))
    for key in wanted:
        if key not in groups:
            continue
        found = {}
        for seed, runs in groups[key].groupby("seed"):
            if (slope := _slope(runs, metric)) is not None:
                found[int(seed)] = slope
        if not found:
            continue
        method, d, s = key
        by_graph.setdefault((d, s, ""), {})[method] = found
        if (groups[key]["status"] != "ok").all():
            slopes.dead.add(key)
            continue
        finite = [slope for slope in found.values() if math.isfinite(slope)]
        values = with_failures(finite, len(found) - len(finite), 0, "below", 0.0, True)
        slopes.estimates[key] = statistics.of_sample(values)
    for graph, of_methods in by_graph.items():
        for seed in set.intersection(*(set(found) for found in of_methods.values())):
            slopes.falls[graph, seed] = [float(found[seed] < 0) for found in of_methods.values()]
    return slopes


def _slope(runs: pd.DataFrame, metric: str) -> float | None:
    """Slope on one data set; infinite if a run failed, None if it cannot be told."""
    if runs["fraction"].nunique() < 2:
        return None
    if (runs["status"] != "ok").any():
        return math.inf
    runs = runs[runs[metric].notna()]
    if runs["fraction"].nunique() < 2:
        return None
    x = runs["fraction"] - runs["fraction"].mean()
    return float(x @ np.log1p(runs[metric].astype(float)) / (x @ x))


def _sign_test(successes: int, trials: int) -> float:
    return float(stats.binomtest(successes, trials, 0.5, alternative="greater").pvalue)
