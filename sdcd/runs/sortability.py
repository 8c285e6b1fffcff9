"""How much of each data set's causal order sorting its variables would give away."""

from collections.abc import Iterable

from sdcd.data.sortability import r2_sortability, var_sortability
from sdcd.experiments.datasets import DatasetKey
from sdcd.simulation import simulate, simulate_dcdi

COLUMNS = (
    *("family", "mechanism", "d", "s", "seed", "n"),
    *("var_sortability", "r2_sortability"),
)
"""Columns of the table; see :func:`collect_sortability`."""


def collect_sortability(
    datasets: Iterable[DatasetKey], *, n_observational: int, n_per_intervention: int
):
    """Sortability by variance and by R² of data sets, simulated again before standardisation.

    Counted are the rows without interventions, which are the same for all fractions of one d, s
    and seed: such data sets share one row.

    Parameters
    ----------
    datasets : iterable of DatasetKey
        Data sets by name.
    n_observational, n_per_intervention : int
        Rows, as :func:`sdcd.simulation.simulate` takes them; those of the family ``dcdi`` are
        ``n_observational`` in all, with and without interventions.

    Returns
    -------
    pandas.DataFrame
        Columns :data:`COLUMNS`: ``n`` the rows that are counted, ``var_sortability`` that of the
        values before standardisation, ``r2_sortability`` of either, both NaN without edges; one row
        for each family, mechanism, d, s and seed, in this order.
    """
    import pandas as pd

    rows = []
    for family, mechanism, d, s, seed in sorted(
        {(key.family, key.mechanism, key.d, key.s, key.seed) for key in datasets}
    ):
        if family == "dcdi":
            data = simulate_dcdi(d, s, mechanism, seed, n=n_observational, standardise=False)
        else:
            data = simulate(
                d,
                s,
                seed,
                fraction=0.0 if family == "interventional" else None,
                n_observational=n_observational,
                n_per_intervention=n_per_intervention,
                standardise=False,
            )
        X = data.X[~data.intervened.any(axis=1)]
        measured = var_sortability(X, data.adjacency), r2_sortability(X, data.adjacency)
        rows.append((family, mechanism, d, s, seed, len(X), *measured))
    return pd.DataFrame(rows, columns=list(COLUMNS))
