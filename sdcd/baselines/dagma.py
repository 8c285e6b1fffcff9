"""DAGMA, nonlinear: Bello, Aragam and Ravikumar, "DAGMA: Learning DAGs via M-matrices and a
log-determinant acyclicity characterization", NeurIPS 2022.

Own implementation; same steps, stopping rule and results as the authors' package ``dagma`` 1.1.1.
"""

from dataclasses import dataclass, field

import numpy as np

from sdcd.errors import MethodFailure
from sdcd.methods import Graph, register
from sdcd.parameters import integer, number

CHECK_EVERY = 1000
TOLERANCE = 1e-6
STEPS_PER_CALL = 100
"""Compiled code does not notice Ctrl-C: it returns now and then."""


@register(
    name="DAGMA",
    data="observational",
    defaults={
        "hidden": 10,
        "lambda_1": 0.02,
        "lambda_2": 0.005,
        "stages": 4,
        "warm_iterations": 50_000,
        "last_iterations": 80_000,
        "learning_rate": 2e-4,
        "threshold": 0.3,
    },
    ranges={
        "hidden": integer(1),
        "lambda_1": number(0),
        "lambda_2": number(0),
        "stages": integer(1),
        "warm_iterations": integer(1),
        "last_iterations": integer(1),
        "learning_rate": number(above=0),
        "threshold": number(0),
    },
    source="Bello et al. 2022, package dagma 1.1.1, nonlinear [d, 10, 1]: its defaults, as run",
)
def fit(
    X,
    intervened,
    names,
    seed,
    *,
    hidden,
    lambda_1,
    lambda_2,
    stages,
    warm_iterations,
    last_iterations,
    learning_rate,
    threshold,
) -> Graph:
    """Fit nonlinear DAGMA in float64, all rows in every step; cut ``W > threshold`` (0.3).

    Each variable is explained by ``hidden`` (10) sigmoid units of all variables, itself included;
    ``W[i, j]`` is the norm of the input weights of j's units for i. Each of ``stages`` (4)
    minimises

        mu (d/2 log(1/n sum (x - xhat)^2) + lambda_1 sum |input weights|) - log |det(I - W o W)|

    with mu = 0.1, 0.01, ... by Adam with weight decay ``mu lambda_2``: ``warm_iterations`` (50,000)
    steps, ``last_iterations`` (80,000) in the last. The result can have cycles and is returned as
    it is; ``diagnostics`` counts the steps of each stage and how often h became negative.

    Raises
    ------
    MethodFailure
        ``nan`` if the weights or h stop being finite.
    """
    theta = initial_parameters(X.shape[1], hidden, seed)
    result = minimise(
        X,
        theta,
        hidden=hidden,
        lambda_1=lambda_1,
        lambda_2=lambda_2,
        iterations=[warm_iterations] * (stages - 1) + [last_iterations],
        learning_rate=learning_rate,
    )
    weights = edge_weights(result.theta, X.shape[1], hidden)
    if not np.isfinite(weights).all():
        raise MethodFailure("nan", "DAGMA's weights are not finite: it left its domain")
    diagnostics = {
        "threshold": threshold,
        "steps": result.steps,
        "left_domain": result.left_domain,
        "learning_rate": result.learning_rate,
    }
    return Graph(weights > threshold, weights, diagnostics)


def initial_parameters(d: int, hidden: int, seed: int) -> np.ndarray:
    """Input weights and biases 0; output weights and biases uniform on +-1/sqrt(hidden).

    The same numbers as in the package's model after ``torch.manual_seed(seed)``, which draws input
    weights and biases before it sets them to zero.

    Returns
    -------
    float64 (d * (d * hidden + 2 * hidden + 1),)
        For each variable: input weights (d, hidden), biases (hidden), output weights (hidden),
        output bias.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)

    def uniform(*shape):
        bound = 1 / np.sqrt(hidden)
        values = torch.empty(*shape, dtype=torch.float64)
        return values.uniform_(-bound, bound, generator=generator).numpy()

    uniform(d * hidden, d)
    uniform(d * hidden)
    theta = np.zeros((d, d * hidden + 2 * hidden + 1))
    theta[:, (d + 1) * hidden : -1] = uniform(d, hidden)
    theta[:, -1] = uniform(d)
    return theta.ravel()


def edge_weights(theta: np.ndarray, d: int, hidden: int) -> np.ndarray:
    """Norms of the input weights: float64 (d, d), ``[i, j]`` of the regression of j on i."""
    inputs = theta.reshape(d, -1)[:, : d * hidden].reshape(d, d, hidden)
    return np.sqrt((inputs**2).sum(axis=2)).T


@dataclass
class Result:
    """Where :func:`minimise` ended, and how."""

    theta: np.ndarray
    learning_rate: float
    steps: list[int] = field(default_factory=list)
    """Adam steps of each stage's last attempt."""
    left_domain: int = 0
    """How many attempts ended with h < 0."""


def minimise(X, theta, *, hidden, lambda_1, lambda_2, iterations, learning_rate) -> Result:
    """Run the stages, at most ``iterations[k]`` steps in stage k, from ``theta``.

    A stage in which h becomes negative starts again from where it began, with half the learning
    rate (for good) and, in this stage, another 0.8 every 1,000 steps. It ends unchanged once the
    learning rate is below 1e-10.

    Raises
    ------
    MethodFailure
        ``nan`` if h stops being finite.
    """
    from sdcd.baselines import _dagma_kernels as kernels

    data = kernels.panel(np.asarray(X, dtype=np.float64))
    result = Result(theta.copy(), learning_rate)
    mu = 0.1
    for most in iterations:
        decay = 1.0
        while True:
            state = kernels.new_state(result.theta, data.d, hidden)
            inside, steps = _attempt(
                kernels, data, state, hidden, most, result.learning_rate, decay, mu, lambda_1,
                lambda_2,
            )  # fmt: skip
            if inside:
                result.theta = state.theta
                break
            result.left_domain += 1
            result.learning_rate *= 0.5
            decay = 0.8
            if result.learning_rate < 1e-10:
                break
        result.steps.append(steps)
        mu *= 0.1
    return result


def _attempt(kernels, data, state, hidden, most, rate, decay, mu, lambda_1, lambda_2):
    """One stage, changing ``state``: whether h stayed >= 0, and the number of steps.

    The objectives before steps 0, 1000, 2000, ... are compared; the stage ends after the step where
    one differs from that before it by a share of at most 1e-6.
    """
    units = (0,) * hidden
    previous, done = 1e16, 0
    while done < most:
        # Up to a change of the learning rate, or one step further, to a check.
        position = done % CHECK_EVERY
        count = min(CHECK_EVERY - position if position else 1, STEPS_PER_CALL, most - done)
        taken, objective, h = kernels.descend(
            units, data, state, done, count, rate, mu, lambda_1, lambda_2, 1.0
        )
        done += taken
        if taken < count:
            if h < 0:
                return False, done
            raise MethodFailure("nan", f"DAGMA's h is {h} after {done} steps: it left its domain")
        if done % CHECK_EVERY == 0:
            rate *= decay
        if position == 0:
            if abs((previous - objective) / previous) <= TOLERANCE:
                break
            previous = objective
    return True, done
