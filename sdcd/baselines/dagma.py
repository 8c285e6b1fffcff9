"""DAGMA, nonlinear: Bello, Aragam and Ravikumar, NeurIPS 2022, through the package ``dagma``."""

import contextlib
import io

import numpy as np

from sdcd.errors import MethodFailure
from sdcd.methods import Graph, register


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
    """Fit nonlinear DAGMA with the package ``dagma``; cut ``W > threshold`` (0.3).

    Each of ``stages`` (4) minimises ``mu (score + lambda_1 ||W||_1) + h_log`` with mu = 0.1, 0.01,
    ...: ``warm_iterations`` (50,000) full-batch Adam steps, ``last_iterations`` (80,000) in the
    last. The result can have cycles and is returned as it is.

    Raises
    ------
    MethodFailure
        ``unavailable`` without the package, ``nan`` if the weights are not finite.
    """
    try:
        with _torch_defaults_kept():
            from dagma.nonlinear import DagmaMLP, DagmaNonlinear
    except ImportError:
        raise MethodFailure(
            "unavailable", "the package dagma is not installed (pip install 'sdcd[baselines]')"
        ) from None
    import torch

    with _torch_defaults_kept(), contextlib.redirect_stderr(io.StringIO()):
        torch.manual_seed(seed)
        model = DagmaMLP(dims=[X.shape[1], hidden, 1], bias=True, dtype=torch.float64)
        DagmaNonlinear(model, dtype=torch.float64).fit(
            X.astype(np.float64),
            lambda1=lambda_1,
            lambda2=lambda_2,
            T=stages,
            warm_iter=warm_iterations,
            max_iter=last_iterations,
            lr=learning_rate,
        )
        weights = model.fc1_to_adj()
    if not np.isfinite(weights).all():
        raise MethodFailure("nan", "DAGMA's weights are not finite: it left its domain")
    return Graph(weights > threshold, weights, {"threshold": threshold})


@contextlib.contextmanager
def _torch_defaults_kept():
    """Undo what the package does to torch's default dtype and global generator."""
    import torch

    dtype = torch.get_default_dtype()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_default_dtype(dtype)
