"""The acyclicity constraints and how they grow (the paper's tab:pst-constraints)."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from sdcd.acyclicity import CONSTRAINTS, cycle, growth_exponents
from sdcd.tables.layout import Formula, Layout


@dataclass(frozen=True)
class _Written:
    """A row as the paper writes it, with its series and function to check it by."""

    coefficient: Formula
    series: Formula
    value: Formula
    gradient: Formula
    a: Callable[[int, int], float] | None = None
    f: Callable[[float, int], float] | None = None


WRITTEN = {
    "h_exp": _Written(
        Formula("1/k!", "1/k!"),
        Formula("exp(x) − 1", r"\exp(x) - 1"),
        Formula("tr exp(A) − d", r"\mathrm{Tr}\exp(A) - d"),
        Formula("exp(A)", r"\exp(A)"),
        lambda k, d: 1 / math.factorial(k),
        lambda x, d: math.expm1(x),
    ),
    "h_log": _Written(
        Formula("1/k", "1/k"),
        Formula("log 1/(1 − x)", r"\log\frac{1}{1-x}"),
        Formula("−log det(I − A)", r"-\log\det(I-A)"),
        Formula("(I − A)⁻¹", "(I-A)^{-1}"),
        lambda k, d: 1 / k,
        lambda x, d: -math.log1p(-x),
    ),
    "h_inv": _Written(
        Formula("1", "1"),
        Formula("1/(1 − x) − 1", r"\frac{1}{1-x} - 1"),
        Formula("tr (I − A)⁻¹ − d", r"\mathrm{Tr}(I-A)^{-1} - d"),
        Formula("(I − A)⁻²", "(I-A)^{-2}"),
        lambda k, d: 1.0,
        lambda x, d: x / (1 - x),
    ),
    "h_binom": _Written(
        Formula("binomial(d, k)", r"\binom{d}{k}"),
        Formula("(1 + x)ᵈ − 1", "(1+x)^d - 1"),
        Formula("tr (I + A)ᵈ − d", r"\mathrm{Tr}(I+A)^d - d"),
        Formula("d (I + A)ᵈ⁻¹", "d(I+A)^{d-1}"),
        lambda k, d: math.comb(d, k),
        lambda x, d: (1 + x) ** d - 1,
    ),
    "h_rho": _Written(
        Formula("none", r"\textrm{none}"),
        Formula("none", r"\textrm{none}"),
        Formula("|λ_d(A)|", r"|\lambda_d(A)|"),
        Formula("v_d u_dᵀ / v_dᵀ u_d", r"v_d u_d^\top / v_d^\top u_d"),
    ),
}
"""The formulas of each constraint."""

NOTES = (
    "h_inv: the paper's table has it without − d, which its text has, and its series without − 1. "
    "As printed, it would be d on an acyclic graph, and not 0.",
)


def make(*, caption: str, d: int = 20) -> tuple[pd.DataFrame, Layout]:
    """The table as numbers (:func:`measured`) and as printed; ``caption`` has {d}."""
    table = measured(d=d)
    return table, layout(table, caption)


def measured(*, d: int = 20) -> pd.DataFrame:
    """The constraints with their measured growth.

    Parameters
    ----------
    d : int, default 20
        Length of the cycle on which the growth is measured.

    Returns
    -------
    DataFrame
        One row per constraint of :data:`sdcd.acyclicity.CONSTRAINTS`: ``name``, the formulas
        ``a_k``, ``f_a``, ``h_a``, ``gradient``, then ``vanishing``, ``exploding`` (exponents),
        ``domain_end`` (the s at which the constraint on the cycle s C ceases to be defined, NaN if
        it never does), ``e_stable``, ``v_stable``, ``d_stable``, and ``d``.
    """
    rows = []
    for name, constraint in CONSTRAINTS.items():
        growth = growth_exponents(constraint.value, cycle(d))
        written = WRITTEN[name]
        rows.append(
            {
                "name": name,
                "a_k": str(written.coefficient),
                "f_a": str(written.series),
                "h_a": str(written.value),
                "gradient": str(written.gradient),
                "vanishing": growth.vanishing,
                "exploding": growth.exploding,
                "domain_end": math.nan if growth.domain_end is None else growth.domain_end,
                "e_stable": growth.e_stable,
                "v_stable": growth.v_stable,
                "d_stable": growth.d_stable,
                "d": d,
            }
        )
    return pd.DataFrame(rows)


def layout(table: pd.DataFrame, caption: str) -> Layout:
    """What :func:`measured` returns as a printable table."""
    columns = ["a_k", "f_a", "h_a", "gradient", "vanishing", "exploding", "defined for", "stable"]
    rows = []
    for row in table.itertuples():
        written = WRITTEN[row.name]
        whole = math.isnan(row.domain_end)
        stable = row.e_stable and row.v_stable and row.d_stable
        texts = [
            written.coefficient,
            written.series,
            written.value,
            written.gradient,
            f"{row.vanishing:.2f}",
            f"{row.exploding:.2f}",
            "all s" if whole else f"s < {row.domain_end:.3g}",
            "yes" if stable else "no",
        ]
        subscript = row.name.removeprefix("h_")
        name = Formula(row.name, r"h_\rho" if subscript == "rho" else rf"h_{{\{subscript}}}")
        if subscript in ("inv", "binom"):
            name = Formula(row.name, rf"h_{{\mathrm{{{subscript}}}}}")
        rows.append(((name,), [{"": text} for text in texts]))
    caption = caption.format(d=int(table["d"].iloc[0]))
    return Layout(caption, ["name"], columns, rows, list(NOTES))
