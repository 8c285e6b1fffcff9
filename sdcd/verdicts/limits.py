"""Tests of claims about how runs end and how long they take."""

from dataclasses import replace

import pandas as pd

from sdcd.statistics import fitted_exponent, of_each_kind
from sdcd.verdicts.evidence import Data, Outcome


def all_below(data: Data) -> Outcome:
    """Every single run ends, and is below ``threshold``."""
    metric = data.metric()
    ours, wanted = _runs_and_sizes(data)
    ended = ours[(ours["status"] == "ok") & ours[metric].notna()]
    failed = ours[ours["status"] != "ok"]
    if not len(ended) and not len(failed):
        return Outcome(0, len(wanted))
    note = ""
    if len(ended):
        worst = ended.loc[ended[metric].astype(float).idxmax()]
        note = f"Largest of {len(ended)} runs: d={worst['d']}, seed {worst['seed']}."
    value = float(ended[metric].astype(float).max())
    holds = not len(failed) and value < data.claim.threshold
    sizes = len({*ended["d"], *failed["d"]})
    return Outcome.decided(sizes, len(wanted), holds, estimate=value, note=note)


def exponent_below(data: Data) -> Outcome:
    """The metric grows with d no faster than d to the power ``threshold``.

    A d at which every run failed refutes it; with any other failure it is not supported.
    """
    metric = data.metric()
    ours, wanted = _runs_and_sizes(data)
    failed = ours["status"] != "ok"
    dead = sorted(d for d, group in failed.groupby(ours["d"]) if group.all())
    if dead:
        note = f"Every run failed at d={', '.join(map(str, dead))}."
        return Outcome(ours["d"].nunique(), len(wanted), refuted=True, note=note)
    ended = ours[~failed & ours[metric].notna()]
    if ended["d"].nunique() < 3:
        return Outcome(0, len(wanted), note="An exponent needs at least three values of d.")
    outcome = exponent(ended["d"], ended[metric].astype(float), data.claim.threshold, "below")
    outcome.evaluated, outcome.expected = ended["d"].nunique(), len(wanted)
    outcome.seeds_needed = of_each_kind(len(ended) + 1, outcome.evaluated)
    if failed.any():
        outcome.p_support = 1.0
    return outcome


def exponent(d: pd.Series, values: pd.Series, bound: float, kind: str) -> Outcome:
    """Whether values grow with d slower (``below``) or faster (``above``) than d to a power."""
    estimate = fitted_exponent(d, values)
    from_bound = replace(estimate, value=estimate.value - bound)
    support, refute = from_bound.p_below(0), from_bound.p_above(0)
    if kind == "above":
        support, refute = refute, support
    low, high = estimate.interval()
    shown = {"estimate": estimate.value, "low": low, "high": high}
    return Outcome(1, 1, support, refute, **shown, note="Estimate: exponent of d.")


def fails(data: Data) -> Outcome:
    """Every run of the method fails, at every d named."""
    return _ends(data, failing=True)


def finishes(data: Data) -> Outcome:
    """Every run of the method finishes, at every d of the table."""
    return _ends(data, failing=False)


def _runs_and_sizes(data: Data) -> tuple[pd.DataFrame, set[int]]:
    """Our runs of the claim's method, and the d for which the paper has a value."""
    method = data.claim.arguments["method"]
    wanted = {d for name, d, *_ in data.cells() if name == method}
    ours = data.ours()
    return ours[(ours["method"] == method) & ours["d"].isin(wanted)], wanted


def _ends(data: Data, *, failing: bool) -> Outcome:
    method = data.claim.arguments["method"]
    wanted = {d for name, d, *_ in data.cells("ok", "failed") if name == method}
    ours = data.ours()
    ours = ours[(ours["method"] == method) & ours["d"].isin(wanted)]
    if not len(ours):
        return Outcome(0, len(wanted))
    contrary = ours[(ours["status"] == "ok") == failing]
    counts = ours["status"].value_counts()
    kinds = ", ".join(
        f"{count} {status}" if status == "ok" else f"{count} failed ({status})"
        for status, count in counts.items()
    )
    note = f"{len(ours)} runs: {kinds}."
    if len(contrary):
        note += f" Contrary to the claim at d={', '.join(map(str, sorted(set(contrary['d']))))}."
    return Outcome.decided(ours["d"].nunique(), len(wanted), not len(contrary), note=note)
