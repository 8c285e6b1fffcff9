"""NOBEARS: Lee et al., "Scaling structural learning with NO-BEARS", BIBM 2019."""

import numpy as np

from sdcd.errors import MethodFailure
from sdcd.methods import Graph, register


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

    ``rounds`` (200) rounds of the augmented Lagrangian with ``steps_per_round`` (100) Adam steps
    each, after ``initial_steps`` (200) without the constraint. The weights are the moving average
    of ``|W|`` over rounds; the graph is their largest DAG.

    Raises
    ------
    MethodFailure
        ``nan`` if the weights stop being finite.
    """
    from sdcd.baselines._linear import largest_dag

    W = initial_weights(X, neighbours, seed)
    problem = _Problem(X, W, beta_1, beta_2, noise_sd, seed)
    for k in range(initial_steps):
        problem.step(learning_rate / np.sqrt(1 + 0.1 * k), rho=0.0, alpha=0.0)
    average = np.zeros_like(W)
    alpha, rho, smoothed, lowest = 0.01, 1.0, None, np.inf
    done = 0
    while done < rounds:
        done += 1
        problem.restart_adam()
        for k in range(steps_per_round):
            loss, h = problem.step(learning_rate / np.sqrt(1 + k), rho=rho, alpha=alpha)
        average = 0.975 * average + 0.025 * problem.W.numpy()
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


class _Problem:
    """One step at a time of Adam on

        R + beta_1 (0.25 sum W^2 + 0.5 sum |W|) + beta_2 (sum b^2 + sum s^2) + rho/2 h^2 + alpha h,
        R = (1/2n) ||xhat - x||_F^2,  xhat_j = sum_i W[i, j] f_i(x_i + noise),
        f_i(x) = b_i + s_i1 x + s_i2 x^2 + s_i3 x^3,  diag(W) = 0,
        h = v^T Q u / (v^T u),  Q = W o W + 1e-6,

    with the eigenvectors u, v of Q followed by five power iterations a step and held constant in
    the gradient, and the noise drawn afresh in every step.
    """

    POWER_ITERATIONS = 5

    def __init__(self, X, W, beta_1, beta_2, noise_sd, seed):
        import torch

        self.torch = torch
        self.random = torch.Generator().manual_seed(seed)
        self.beta_1, self.beta_2, self.noise_sd = beta_1, beta_2, noise_sd
        n, d = X.shape
        self.x = torch.from_numpy(np.ascontiguousarray(X.T))
        self.powers = torch.empty(3, d, n, dtype=torch.float32)
        self.residual = torch.empty(d, n, dtype=torch.float32)
        uniform = torch.rand(6, d, generator=self.random, dtype=torch.float32)
        self.W = torch.from_numpy(W.copy())
        self.b, self.s = uniform[0].clone(), uniform[1:4].clone()
        self.u, self.v = uniform[4].clone(), uniform[5].clone()
        self.restart_adam()

    def restart_adam(self):
        zeros = self.torch.zeros_like
        self.steps = 0
        self.moments = [(zeros(p), zeros(p)) for p in (self.W, self.b, self.s)]

    def step(self, learning_rate: float, rho: float, alpha: float) -> tuple[float, float]:
        """One Adam step; returns R and h at the parameters before it."""
        loss, gradients = self.regression()
        h, h_gradient = self.acyclicity()
        gradients[0] += (rho * h + alpha) * h_gradient
        gradients[0] += self.beta_1 * (0.5 * self.W + 0.5 * self.W.sign())
        gradients[0].fill_diagonal_(0)
        gradients[1] += 2 * self.beta_2 * self.b
        gradients[2] += 2 * self.beta_2 * self.s
        self.steps += 1
        first_scale, second_scale = 1 - 0.9**self.steps, 1 - 0.999**self.steps
        for parameter, gradient, (first, second) in zip(
            (self.W, self.b, self.s), gradients, self.moments, strict=True
        ):
            first.lerp_(gradient, 0.1)
            second.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
            scale = (second / second_scale).sqrt_().add_(1e-8)
            parameter.addcdiv_(first, scale, value=-learning_rate / first_scale)
        return loss, h

    def regression(self):
        """R and its gradients for W, b, s.

        With the powers of all inputs stacked into P (3 d x n) and ``C[k, i, j] = s_ik W[i, j]``,
        ``xhat = C^T P + W^T b``, so that all gradients follow from ``P residual^T``.
        """
        torch = self.torch
        d, n = self.x.shape
        y, squares, cubes = self.powers
        y.normal_(0.0, self.noise_sd, generator=self.random).add_(self.x)
        torch.mul(y, y, out=squares)
        torch.mul(squares, y, out=cubes)
        flat = self.powers.view(3 * d, n)
        coefficients = (self.s[:, :, None] * self.W).view(3 * d, d)
        torch.mm(coefficients.T, flat, out=self.residual)
        self.residual.sub_(self.x).add_((self.W.T @ self.b)[:, None])
        loss = 0.5 * float(self.residual.square().sum()) / n
        moments = (flat @ self.residual.T).view(3, d, d) / n
        mean = self.residual.sum(dim=1) / n
        gradient_W = torch.einsum("ki,kij->ij", self.s, moments) + self.b[:, None] * mean
        gradient_b = self.W @ mean
        gradient_s = torch.einsum("ij,kij->ki", self.W, moments)
        return loss, [gradient_W, gradient_b, gradient_s]

    def acyclicity(self):
        """Move u and v on; return h and its gradient for W."""
        Q = self.W * self.W + 1e-6
        for _ in range(self.POWER_ITERATIONS):
            self.v = self.torch.nn.functional.normalize(Q.T @ self.v, dim=0)
            self.u = self.torch.nn.functional.normalize(Q @ self.u, dim=0)
        overlap = self.v @ self.u
        h = float(self.v @ Q @ self.u / overlap)
        return h, self.torch.outer(self.v, self.u) / overlap * (2 * self.W)
