"""NOBEARS: Lee et al., "Scaling structural learning with NO-BEARS", BIBM 2019."""

import numpy as np

from sdcd.errors import MethodFailure
from sdcd.methods import Graph, register
from sdcd.parameters import integer, number

POWER_ITERATIONS = 5
STEPS_PER_CALL = 25
"""Compiled code does not notice Ctrl-C: it returns now and then."""


@register(
    name="NOBEARS",
    data="observational",
    defaults={
        "beta_1": 0.05,
        "beta_2": 0.001,
        "noise_sd": 0.1,
        "initial_steps": 200,
        "rounds": 200,
        "steps_per_round": 100,
        "learning_rate": 0.01,
        "neighbours": 30,
    },
    ranges={
        "beta_1": number(0),
        "beta_2": number(0),
        "noise_sd": number(0),
        "initial_steps": integer(0),
        "rounds": integer(1),
        "steps_per_round": integer(1),
        "learning_rate": number(above=0),
        "neighbours": integer(1),
    },
    source="Lee et al. 2019, cubic polynomials, as run by the SDCD authors: largest-DAG cut",
)
def fit(
    X,
    intervened,
    names,
    seed,
    *,
    beta_1,
    beta_2,
    noise_sd,
    initial_steps,
    rounds,
    steps_per_round,
    learning_rate,
    neighbours,
) -> Graph:
    """Fit NOBEARS to the data as they are, all rows in every step.

    Minimises

        R + beta_1 (0.25 sum W^2 + 0.5 sum |W|) + beta_2 (sum b^2 + sum s^2) + rho/2 h^2 + alpha h,
        R = (1/2n) ||xhat - x||_F^2,  xhat_j = sum_i W[i, j] f_i(x_i + noise),
        f_i(x) = b_i + s_i1 x + s_i2 x^2 + s_i3 x^3,  diag(W) = 0,
        h = v^T Q u / (v^T u),  Q = W o W + 1e-6,

    with the noise, of standard deviation ``noise_sd`` (0.1), drawn afresh in every step, and the
    eigenvectors u, v of Q followed by five power iterations a step and held constant in the
    gradient. ``initial_steps`` (200) steps of Adam without the constraint, number k at
    ``learning_rate`` (0.01) / sqrt(1 + 0.1 k), then ``rounds`` (200) of the augmented Lagrangian,
    ``steps_per_round`` (100) steps each at ``learning_rate / sqrt(1 + k)`` by an Adam that starts
    afresh. The weights are the magnitudes of the moving average of W over rounds (of W, not of its
    magnitudes: an entry that changes sign cancels); the graph is their largest DAG.

    Raises
    ------
    MethodFailure
        ``nan`` if the weights stop being finite.
    """
    from sdcd.baselines import _nobears_kernels as kernels
    from sdcd.baselines._linear import largest_dag

    data = kernels.arrange(X)
    state = kernels.new_state(data, initial_weights(X, neighbours, seed), seed)
    W = state.parameters.W
    tiles = (0,) * kernels.WIDE, (0,) * kernels.NARROW

    def descend(steps, decay, rho, alpha):
        moments = kernels.new_moments(state.parameters)
        loss = h = np.inf
        for done in range(0, steps, STEPS_PER_CALL):
            loss, h = kernels.descend(
                *tiles, data, state, *moments, done, min(STEPS_PER_CALL, steps - done),
                learning_rate, decay, rho, alpha, beta_1, beta_2, noise_sd, POWER_ITERATIONS,
            )  # fmt: skip
        return loss, h

    descend(initial_steps, 0.1, 0.0, 0.0)
    average = np.zeros_like(W)
    alpha, rho, smoothed, lowest = 0.01, 1.0, None, np.inf
    done = 0
    while done < rounds:
        done += 1
        loss, h = descend(steps_per_round, 1.0, rho, alpha)
        average = 0.975 * average + 0.025 * W
        smoothed = loss if smoothed is None else 0.1 * smoothed + 0.9 * loss
        lowest = min(lowest, smoothed)
        if smoothed > 1.5 * lowest and h < 0.005:
            break
        alpha += rho * h
        rho = min(1e8, 1.1 * rho)
    weights = np.abs(average)
    if not np.isfinite(weights).all():
        raise MethodFailure("nan", f"weights are not finite after {done} rounds")
    adjacency, threshold = largest_dag(weights)
    diagnostics = {"rounds": done, "h": h, "rho": rho, "alpha": alpha, "threshold": threshold}
    return Graph(adjacency, weights, diagnostics)


def initial_weights(X: np.ndarray, neighbours: int, seed: int) -> np.ndarray:
    """Regress each variable on those with the largest signed Spearman correlation with it.

    As run, the variable itself counts with correlation 0, so with d <= ``neighbours`` it is among
    its own regressors (a little noise, sd 0.01, is added to them) and takes nearly all the weight,
    which the zero diagonal then removes.

    Returns
    -------
    float32 (d, d)
        Column i holds the coefficients for variable i; the diagonal is 0.
    """
    from scipy.stats import rankdata

    n, d = X.shape
    generator = np.random.default_rng(seed)
    correlation = np.corrcoef(rankdata(X, axis=0), rowvar=False)
    np.fill_diagonal(correlation, 0.0)
    W = np.zeros((d, d), dtype=np.float32)
    count = min(neighbours, n // 2, d)
    for i in range(d):
        nearest = np.argsort(-correlation[i], kind="stable")[:count]
        regressors = X[:, nearest] + 0.01 * generator.standard_normal((n, count))
        W[nearest, i] = np.linalg.lstsq(regressors, X[:, i], rcond=None)[0]
    np.fill_diagonal(W, 0.0)
    return W
