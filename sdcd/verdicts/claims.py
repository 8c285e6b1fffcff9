"""A verdict on every claim of the paper's text: the claims are in ``claims.csv``.

A claim's test is a function of one of the modules beside this one, named in the column ``test`` and
registered in :data:`TESTS`; ``arguments`` are its settings as ``name=value; name=value``, where a
value is a word, a list ``a,b`` or, for numbers, a range ``a..b``; ``threshold`` was fixed before
any of our runs. Only runs that were tried as in the paper count: shortened ones are left out, and
so are those that are impossible here, and methods that the paper does not compare.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from importlib.resources import files

import numpy as np
import pandas as pd

from sdcd import published, statistics
from sdcd.errors import InputError
from sdcd.runs import summaries
from sdcd.statistics import ALPHA
from sdcd.verdicts import comparisons, constraints, limits, shares
from sdcd.verdicts.evidence import Claim, Data, Outcome

CLAIM_COLUMNS = tuple(field.name for field in fields(Claim))

_FOUND = ("p_support", "p_refute", "estimate", "low", "high", "seeds_needed")
"""What a row takes over from a test's outcome."""

TESTS: dict[str, Callable[[Data], Outcome]] = {
    test.__name__: test
    for test in (
        *(comparisons.lower, comparisons.higher, comparisons.within),
        *(comparisons.below, comparisons.above, comparisons.below_edges, comparisons.above_edges),
        *(limits.all_below, limits.exponent_below, limits.fails, limits.finishes),
        *(shares.freezes, shares.share_below_edges, shares.share_best),
        *(shares.falls, shares.not_falls),
        *(constraints.unstable, constraints.escapes, constraints.stable),
        *(constraints.cost_below, constraints.cost_above, constraints.fastest),
    )
}
"""The tests that ``claims.csv`` may name."""


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
    twice = table["id"][table["id"].duplicated()]
    if len(twice):
        raise InputError(f"claims.csv: two claims are called {twice.iloc[0]!r}")
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
        **dict.fromkeys(_FOUND, np.nan),
        "_outcome": None,
    }
    data, shortened = _data_of(claim, runs)
    if data is None:
        return row | {"note": "There are no runs for it."}
    outcome = TESTS[claim.test](data)
    if not outcome.evaluated:
        note = outcome.note or "None of our runs can decide it."
        return row | {"note": f"{note} {shortened}".strip()}
    notes = [outcome.note, _failures(data), shortened]
    if outcome.evaluated < outcome.expected:
        notes.append(f"{outcome.evaluated} of {outcome.expected} comparisons were run.")
    note = " ".join(filter(None, notes))
    found = {name: getattr(outcome, name) for name in _FOUND}
    return row | found | {"note": note, "_outcome": outcome}


def _data_of(claim: Claim, runs: Mapping[str, pd.DataFrame]) -> tuple[Data | None, str]:
    """What the claim's test looks at, if anything was run; and what was left out of it."""
    if not claim.experiment:
        return Data(claim, pd.DataFrame(), ""), ""
    table = runs.get(claim.experiment)
    if table is None or not len(table):
        return None, ""
    if claim.experiment not in published.EXPERIMENTS:
        return Data(claim, table, claim.experiment), ""
    table = summaries.tidy(table)
    table = table[table["status"] != "unavailable"]
    # What the paper says of the other methods is said of those it compares.
    table = table[table["method"].isin(_methods_of_paper(claim.experiment))]
    whole = table["shortened"] == ""
    left_out = Data(claim, table[~whole], claim.experiment)
    number = int(left_out.ours()["method"].isin(left_out.methods()).sum())
    note = f"Shortened runs were left out: {number}." if number else ""
    return Data(claim, table[whole], claim.experiment), note


def _failures(data: Data) -> str:
    """How many of the runs that a claim is about failed, unless its test says so itself."""
    if data.experiment not in published.EXPERIMENTS or data.claim.test in ("fails", "finishes"):
        return ""
    ours = data.ours()
    ours = ours[ours["method"].isin(data.methods())]
    failed = int((ours["status"] != "ok").sum())
    return f"{failed} of {len(ours)} runs failed." if failed else ""


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
