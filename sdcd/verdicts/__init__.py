"""Does the paper reproduce? A verdict on every cell of its tables and every claim of its text.

=================  ================================================================================
``claims.csv``     the claims, with their tests and thresholds
``claims``         reads them, has each tested, decides
``evidence``       what a test looks at, and how comparisons become one outcome
``comparisons``    tests that compare methods, or a method with a number
``shares``         tests of what holds in most settings, and of trends
``limits``         tests of how runs end and how long they take
``constraints``    tests of the acyclicity constraints
``falling``        what would make each claim fall, in words
``cells``          cells of tables
``table``          the verdicts as CSV, and what is counted from them
=================  ================================================================================

The rules, with what they assume, are in ``docs/verdicts.md``.
"""

from collections.abc import Mapping

import pandas as pd

from sdcd.verdicts.cells import judge_cells
from sdcd.verdicts.claims import judge_claims, read_claims
from sdcd.verdicts.table import (
    COLUMNS,
    VERDICTS,
    count,
    count_half_margin,
    margin_sentence,
    read,
    write,
)


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
          sets stated; ``ours``, ``ours_sd``, ``ours_n`` over the runs that ended, ``ours_failed``:
          runs tried in full that failed; ``shortened``;
        - ``test``, ``threshold`` (cells: the margin, in edges), ``estimate`` (cells: ours -
          published; claims: what the test estimates, for the comparison that supports it least)
          with its 95 % interval ``low``, ``high``; ``effect_size``: the estimate in standard
          deviations between data sets;
        - ``p_support``, ``p_refute``: adjusted p values for and against;
        - ``verdict``: one of :data:`VERDICTS`; ``half_margin``: a cell's with half the margin;
          ``seeds_needed``: data sets for each setting that
          would settle an inconclusive one, if more would; ``note``.
    """
    table = pd.concat([judge_cells(runs), judge_claims(runs)], ignore_index=True)
    return table.reindex(columns=list(COLUMNS))


__all__ = [
    "COLUMNS",
    "VERDICTS",
    "count",
    "count_half_margin",
    "judge",
    "margin_sentence",
    "read",
    "read_claims",
    "write",
]
