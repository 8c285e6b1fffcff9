"""Mean difference: who moves when a variable is intervened on."""

import numpy as np

from sdcd.errors import MethodFailure
from sdcd.methods import Graph, register
from sdcd.parameters import number

FEWEST_ROWS = 2
"""Rows from which a variance can be estimated at all."""


@register(
    name="mean-difference",
    data="interventional",
    defaults={"false_discovery_rate": 0.05},
    ranges={"false_discovery_rate": number(above=0, below=1)},
    source="not in the paper: the baseline of perturbation screens; t-test of unequal variances, "
    "cut by Benjamini and Hochberg 1995 at the usual level 0.05",
)
def mean_difference(
    X: np.ndarray,
    intervened: np.ndarray,
    names: tuple[str, ...],
    seed: int,
    *,
    false_discovery_rate: float,
) -> Graph:
    """Connect each variable intervened on with the variables whose mean the intervention moves.

    With the rows in which nothing is intervened on as controls, and for each variable i the rows in
    which it is the only target (or, where there are none, in which it is one of several),

        shift(i, j) = (mean_j(i) - mean_j(controls)) / sd_j(controls)

    Its absolute value is the weight of i -> j. The edges are the shifts that are significant:
    two-sided p-values, cut so that of the edges at most ``false_discovery_rate`` are expected to be
    no shifts at all. That is a statement about total effects, not direct ones: with many rows,
    every descendant is an edge.

    The statistic is Welch's t, the variances of both groups estimated each on its own, with one
    degree of freedom less than the smaller group has rows. Welch's approximate degrees of freedom
    are too many where rows are few: with two rows and 40 controls, 88 times too many p-values of
    groups without a shift are below 0.0005, with five rows 6 times (100,000 draws); of these, never
    too many.

    Parameters
    ----------
    X : float32 (n, d)
        Values, on any scale.
    intervened : bool (n, d)
        At least two rows must be controls.
    names : tuple of d str
        Used in messages.
    seed : int
        Not used: the method is deterministic.
    false_discovery_rate : float
        Level of the procedure of Benjamini and Hochberg over all tested pairs.

    Returns
    -------
    Graph
        ``arrays``: ``shift``, ``shift_se`` (its standard error, in the same unit) and ``p_value``,
        float64 (d, d), NaN for pairs that were not tested. That are the pairs of a variable with
        fewer than two rows of its own, for which no error can be given, and of a child that is
        constant in the controls; ``diagnostics`` counts both. Weights are 0 there. Not necessarily
        acyclic.

    Raises
    ------
    MethodFailure
        ``error`` if there are fewer than two controls, or no variable has been intervened on in two
        rows.

    References
    ----------
    Y. Benjamini, Y. Hochberg. Controlling the false discovery rate: a practical and powerful
    approach to multiple testing. Journal of the Royal Statistical Society B 57, 1995.
    """
    from scipy.stats import false_discovery_control
    from scipy.stats import t as student

    X = X.astype(np.float64)
    d = X.shape[1]
    control = ~intervened.any(axis=1)
    n_control = int(control.sum())
    if n_control < FEWEST_ROWS:
        raise MethodFailure(
            "error",
            f"{n_control} rows without interventions, expected 2 or more to compare with (sdcd "
            "fit: --control says which labels mean unperturbed)",
        )
    mean, variance = X[control].mean(axis=0), X[control].var(axis=0, ddof=1)
    constant = variance == 0
    sd = np.sqrt(np.where(constant, np.nan, variance))

    shift, error, p_value = (np.full((d, d), np.nan) for _ in range(3))
    alone = intervened.sum(axis=1) == 1
    too_few = 0
    for i in range(d):
        rows = intervened[:, i] & alone
        if not rows.any():
            rows = intervened[:, i]
        n = int(rows.sum())
        too_few += 0 < n < FEWEST_ROWS
        if n < FEWEST_ROWS:
            continue
        # Another target of the same rows was set, not moved.
        tested = ~intervened[rows].any(axis=0)
        squared = X[rows].var(axis=0, ddof=1) / n + variance / n_control
        shift[i, tested] = ((X[rows].mean(axis=0) - mean) / sd)[tested]
        error[i, tested] = (np.sqrt(squared) / sd)[tested]
        p_value[i] = 2 * student.sf(np.abs(shift[i]) / error[i], min(n, n_control) - 1)
    tested = np.isfinite(p_value)
    if not tested.any():
        raise MethodFailure(
            "error",
            "no variable is intervened on in two rows or more, expected one at least (sdcd fit: "
            "--perturbation-column names the column that says what was perturbed; without "
            "interventions, take another method)",
        )

    adjusted = np.full((d, d), np.inf)
    adjusted[tested] = false_discovery_control(p_value[tested])
    return Graph(
        adjacency=adjusted <= false_discovery_rate,
        weights=np.where(tested, np.abs(shift), 0.0),
        diagnostics={
            "controls": n_control,
            "variables_with_one_row": too_few,
            "variables_constant_in_controls": int(constant.sum()),
            "pairs_tested": int(tested.sum()),
        },
        arrays={"shift": shift, "shift_se": error, "p_value": p_value},
    )
