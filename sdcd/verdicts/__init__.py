"""Does the paper reproduce? A verdict on every cell of its tables and every claim of its text.

=================  ================================================================================
``claims.csv``     beside this package: the claims, with their tests and thresholds
``cells``          cells of tables
``claims``         claims of the text, and the tests that they name
``table``          the verdicts as CSV
``statistics``     estimates, equivalence tests, corrections for multiplicity, numbers of seeds
=================  ================================================================================

**Cells.** Ours and the published are compared by seed where the authors logged runs on the same
data sets, else by Welch's test on the printed mean and sd. A cell is *reproduced* if the difference
is shown to be smaller than one standard deviation between data sets (two one-sided tests), *not
reproduced* if it is shown to be different from zero and is at least that large. Their p values are
adjusted for the number of cells of the table (Benjamini and Hochberg, 5 %).

**Claims.** Each has its own test, and a threshold fixed before any run. Their p values are adjusted
for the number of claims in the same way. A claim about all methods or all d needs all of them to be
*reproduced*, and one clear exception to be *not reproduced*.

In between the answer is *inconclusive*, with the number of data sets that would settle it if the
means and spreads stay as they are. *Not run* means that there is nothing to judge by. Runs that a
scale shortened can confirm a cell but not refute one, and do not count for claims.
"""

from collections.abc import Mapping

import pandas as pd

from sdcd.verdicts.cells import judge_cells
from sdcd.verdicts.claims import fitted_exponent, judge_claims, read_claims
from sdcd.verdicts.table import COLUMNS, VERDICTS, count, read, write


def judge(runs: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Judge everything that the paper states in numbers.

    Parameters
    ----------
    runs : mapping of str to DataFrame
        Tables of runs by experiment (names :data:`sdcd.published.EXPERIMENTS`), and of two
        studies: ``optimisation_behaviours`` (columns ``mode``, ``constraint``, ``epoch``, ``end``)
        and ``constraint_costs`` (``constraint``, ``d``, ``seconds``). What is missing was not run.

    Returns
    -------
    DataFrame
        Columns :data:`COLUMNS`; first the cells, then the claims.

        - ``kind`` (``cell`` or ``claim``), ``id``, ``experiment``, ``place``, ``statement``: what
          is judged; ``contradiction``: where the paper contradicts itself or its logs about it;
        - ``published``, ``published_sd``, ``published_n``: as printed, with the number of data
          sets stated; ``ours``, ``ours_sd``, ``ours_n``, ``shortened``;
        - ``test``, ``threshold`` (cells: the margin, in edges), ``estimate`` (cells: ours -
          published; claims: what the test estimates, for the comparison that supports it least)
          with its 95 % interval ``low``, ``high``; ``effect_size``: the estimate in standard
          deviations between data sets;
        - ``p_support``, ``p_refute``: adjusted p values for and against;
        - ``verdict``: one of :data:`VERDICTS`; ``seeds_needed``: data sets for each setting that
          would settle an inconclusive one, if more would; ``note``.
    """
    table = pd.concat([judge_cells(runs), judge_claims(runs)], ignore_index=True)
    return table.reindex(columns=list(COLUMNS))


__all__ = [
    "COLUMNS",
    "VERDICTS",
    "count",
    "fitted_exponent",
    "judge",
    "read",
    "read_claims",
    "write",
]
