"""Tests of claims about the acyclicity constraints: growth, cost, and speed of optimisation."""

import math

from sdcd.errors import InputError
from sdcd.verdicts.evidence import Data, Outcome
from sdcd.verdicts.limits import exponent


def _growths(data: Data) -> tuple[dict, int]:
    """What was measured on a cycle of each d named, and how many d are named."""
    from sdcd.acyclicity import CONSTRAINTS, cycle, growth_exponents

    constraint = CONSTRAINTS[data.claim.arguments["constraint"]]
    sizes = [int(d) for d in data.claim.words("d")]
    found = {}
    for d in sizes:
        try:
            found[d] = growth_exponents(constraint.value, cycle(d))
        except InputError:
            # Without a value at any scale there is no exponent.
            continue
    return found, len(sizes)


def _measured(growths: dict, expected: int, holds: bool, estimate: float, what: str) -> Outcome:
    """A claim that holds or not as measured, without a test; ``what`` the estimate is."""
    note = f"Estimate: {what}."
    return Outcome.decided(len(growths), expected, holds, estimate=estimate, note=note)


def unstable(data: Data) -> Outcome:
    """On a cycle of d nodes the constraint vanishes and explodes at least like s to the d."""
    growths, expected = _growths(data)
    if not growths:
        return Outcome(0, expected)
    least = min(min(g.vanishing, g.exploding) / d for d, g in growths.items())
    holds = least >= data.claim.threshold - 0.01
    what = "smallest measured exponent, divided by d"
    return _measured(growths, expected, holds, least, what)


def escapes(data: Data) -> Outcome:
    """On a cycle the constraint stops being defined at the scale ``threshold``."""
    growths, expected = _growths(data)
    ends = [g.domain_end for g in growths.values()]
    if not ends:
        return Outcome(0, expected)
    holds = all(end is not None and abs(end - data.claim.threshold) < 1e-3 for end in ends)
    end = math.nan if None in ends else max(ends)
    return _measured(growths, expected, holds, end, "the scale at which it stops being defined")


def stable(data: Data) -> Outcome:
    """On a cycle the constraint grows and vanishes like s to the power ``threshold``."""
    growths, expected = _growths(data)
    if not growths:
        return Outcome(0, expected)
    most = max(max(g.vanishing, g.exploding) for g in growths.values())
    holds = all(g.stable for g in growths.values())
    return _measured(growths, expected, holds, most, "largest measured exponent")


def cost_below(data: Data) -> Outcome:
    """The constraint's time grows with d no faster than d to the power ``threshold``."""
    return _cost(data, "below")


def cost_above(data: Data) -> Outcome:
    """The constraint's time grows with d faster than d to the power ``threshold``."""
    return _cost(data, "above")


def _cost(data: Data, kind: str) -> Outcome:
    from sdcd.studies.constraint_costs import SIZES

    costs = data.runs[data.runs["constraint"] == data.claim.arguments["constraint"]]
    # The time at smaller d is that of calling the routines.
    costs = costs[costs["d"] >= min(SIZES)]
    if costs["d"].nunique() < 3:
        return Outcome(0, 1, note=f"An exponent needs three values of d from {min(SIZES)} on.")
    return exponent(costs["d"], costs["seconds"], data.claim.threshold, kind)


def fastest(data: Data) -> Outcome:
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
