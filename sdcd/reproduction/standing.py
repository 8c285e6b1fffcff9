"""How much of the paper the kept runs reproduce, in a sentence, and that sentence in the README."""

from pathlib import Path

import pandas as pd

from sdcd import verdicts
from sdcd.errors import InputError
from sdcd.experiments.plan import FAMILIES, Plan
from sdcd.files import atomic_path
from sdcd.reproduction.ledger import kept_runs

BEGIN, END = "<!-- standing -->\n", "<!-- /standing -->\n"
"""The lines of a page between which the sentence is."""


def standing(plan: Plan, folder: str | Path) -> str:
    """The sentence: cells and claims reproduced, not reproduced and open.

    Parameters
    ----------
    plan : Plan
        Says which of the ledger's fits belong to which experiment.
    folder : path
        Where the ledger lies.
    """
    judged = verdicts.judge(kept_runs(plan, folder))
    cells, claims = (judged[judged["kind"] == kind] for kind in ("cell", "claim"))
    within_half = int(verdicts.count_half_margin(cells)["half_margin"].sum())
    without_value = _count(cells[cells["published"].isna()], "not reproduced")
    of_constraints = _count(claims[~claims["experiment"].isin(FAMILIES)], "reproduced")
    return (
        f"**{_judged(cells)} of the {len(cells)} cells of the paper's tables and "
        f"{_judged(claims)} of its {len(claims)} claims are judged by the runs kept here. "
        f"Of the cells {_count(cells, 'reproduced')} are reproduced ({within_half} of them within "
        f"half the margin as well), {_count(cells, 'not reproduced')} are not ({without_value} of "
        "them because the method ends here where the paper has NA), "
        f"{_count(cells, 'inconclusive')} are open: the runs so far show neither. "
        f"Of the claims {_count(claims, 'reproduced')} are reproduced ({of_constraints} of them "
        "about the constraints alone, without data), "
        f"{_count(claims, 'not reproduced')} are not, {_count(claims, 'inconclusive')} are open.**"
    )


def write_standing(page: str | Path, sentence: str) -> None:
    """Put the sentence between :data:`BEGIN` and :data:`END` in a page of text."""
    page = Path(page)
    text = page.read_text(encoding="utf-8")
    before, found, rest = text.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not (found and ended):
        raise InputError(f"{page}: no lines {BEGIN.strip()} and {END.strip()} to write between")
    with atomic_path(page) as temporary:
        temporary.write_text(f"{before}{BEGIN}{sentence}\n{END}{after}", encoding="utf-8")


def _judged(judged: pd.DataFrame) -> int:
    return int((judged["verdict"] != "not run").sum())


def _count(judged: pd.DataFrame, verdict: str) -> int:
    return int((judged["verdict"] == verdict).sum())
