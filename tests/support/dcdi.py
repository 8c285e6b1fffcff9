"""What the tests of DCDI and of DCD-FG share: rows, and the same problem by autograd."""

import numpy as np
import torch

from sdcd.baselines.dcdi_models.augmented_lagrangian import PORT, AugmentedLagrangian, Rows


def random_rows(d, n, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(d, n, dtype=torch.float64, generator=generator)
    observed = (torch.rand(d, n, generator=generator) > 0.3).double()
    return Rows(x.numpy(), observed.numpy())


def leaves_of(model):
    return {
        name: torch.from_numpy(value.copy()).requires_grad_()
        for name, value in model.parameters.values.items()
    }


def lagrangian(gamma=2.0, mu=7.0, dtype=np.float64):
    lagrangian = AugmentedLagrangian(PORT, dtype, 0.1)
    lagrangian.gamma, lagrangian.mu = lagrangian.dtype.type(gamma), lagrangian.dtype.type(mu)
    return lagrangian


def batch(rows, order):
    """Values and what is observed, as tensors."""
    return (torch.from_numpy(array[:, order]) for array in (rows.x, rows.observed))


def assert_descended(model, leaves, rows, batches, objective):
    """The model is where torch's RMSprop on ``objective(x, observed)`` takes the leaves."""
    optimiser = torch.optim.RMSprop(leaves.values(), lr=1e-3, alpha=0.99, eps=1e-8)
    for order in batches:
        optimiser.zero_grad()
        objective(*batch(rows, order)).backward()
        optimiser.step()
    for name, leaf in leaves.items():
        np.testing.assert_allclose(
            model.parameters.values[name], leaf.detach(), rtol=0, atol=1e-8, err_msg=name
        )


def assert_gradients(model, leaves):
    """The model's gradients are those of the leaves."""
    for name, leaf in leaves.items():
        np.testing.assert_allclose(
            model.parameters.gradients[name], leaf.grad, rtol=1e-9, atol=1e-12, err_msg=name
        )


def assert_float32_rounds(start, rows, build):
    """Gradients in float32 of the model ``build(dtype)`` at ``start`` are those of float64."""
    gradients = {}
    for dtype in ("float32", "float64"):
        model = build(dtype)
        model.parameters.flat[:] = start.parameters.flat
        typed = Rows(rows.x.astype(dtype), rows.observed.astype(dtype))
        model.gradient(typed, np.arange(rows.x.shape[1]), lagrangian(dtype=dtype))
        gradients[dtype] = model.parameters.flat_gradient
    assert gradients["float32"].dtype == np.float32
    np.testing.assert_allclose(gradients["float32"], gradients["float64"], rtol=1e-3, atol=3e-7)
