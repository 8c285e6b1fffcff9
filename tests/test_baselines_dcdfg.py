"""DCD-FG: draws, gradients, the cut, and what float32 does to its constraint."""

import math

import numpy as np
import pytest
import torch
from support.dcdi import (
    assert_descended,
    assert_float32_rounds,
    assert_gradients,
    batch,
    lagrangian,
    leaves_of,
    random_rows,
)
from support.fits import fit, generators_untouched

from sdcd.baselines.dcdi_models.factor_graph import DCDFG, largest_confident_dag
from sdcd.baselines.dcdi_models.kernels import LANES, draw_roles, fill_uniform
from sdcd.baselines.dcdi_models.networks import RMSprop, generator_state
from sdcd.errors import InputError
from sdcd.graphs import is_acyclic


def perturbed(d, modules, seed=1):
    model = DCDFG(d, modules, dtype="float64", seed=0)
    generator = torch.Generator().manual_seed(seed)
    model.parameters.flat += (
        0.4
        * torch.randn(model.parameters.flat.shape, dtype=torch.float64, generator=generator).numpy()
    )
    return model


# Draws


def draws(pi, x, seed=0):
    """Masked inputs, relaxed roles and hard outputs of one module, each (d, rows)."""
    d, rows = x.shape
    inputs, soft_in, soft_out, hard_out = np.full((4, d * rows), np.nan, x.dtype)
    draw_roles(
        generator_state(seed, 0), pi, d, x.ravel(), rows, inputs, 0, soft_in, soft_out, hard_out,
        0, np.empty(rows, x.dtype),
    )  # fmt: skip
    return (array.reshape(d, rows) for array in (inputs, soft_in, soft_out, hard_out))


def test_roles_are_drawn_with_their_probabilities():
    B = 200_000 // LANES * LANES
    pi = np.array([[0.5, 0.3, 0.2], [0.05, 0.05, 0.9]])
    inputs, _, _, hard_out = draws(pi, np.ones((2, B)))
    tolerance = 5 * 0.5 / math.sqrt(B)
    np.testing.assert_allclose(inputs.mean(1), pi[:, 0], atol=tolerance)
    np.testing.assert_allclose(hard_out.mean(1), pi[:, 1], atol=tolerance)
    assert (inputs * hard_out == 0).all()


def test_relaxed_roles_have_the_law_of_gumbel_softmax():
    # The same moments from three exponentials per draw, as the definition has it.
    B = 400_000
    pi = np.array([[0.5, 0.3, 0.2]])
    _, soft_in, soft_out, _ = draws(pi, np.ones((1, B)), seed=1)
    exponentials = np.random.default_rng(0).exponential(size=(B, 3))
    y = pi[0] / exponentials
    y /= y.sum(1, keepdims=True)
    ours = np.stack([soft_in.ravel(), soft_out.ravel()], 1)
    for power in (1, 2, 3):
        np.testing.assert_allclose(
            (ours**power).mean(0), (y[:, :2] ** power).mean(0), atol=5 * 0.5 / math.sqrt(B)
        )
    np.testing.assert_allclose(np.cov(ours.T), np.cov(y[:, :2].T), atol=5 * 0.25 / math.sqrt(B))


# Gradients


def truth(leaves, state, x, observed):
    """nll, reg, h and augmented Lagrangian (gamma 2, mu 7) of a batch by autograd."""
    d, B = x.shape
    m = len(leaves["logits"])
    spacings = np.empty((m, d, 3, B))
    for f in range(m):
        for i in range(d):
            u, v = np.empty((2, LANES * math.ceil(B / LANES)))
            fill_uniform(state, u)
            fill_uniform(state, v)
            low, high = np.minimum(u, v)[:B], np.maximum(u, v)[:B]
            spacings[f, i] = low, high - low, 1 - high
    # Minus the logarithms of the spacings stand for the Gumbel variables.
    soft = torch.softmax(leaves["logits"][..., None] - torch.from_numpy(spacings).log(), 2)
    hard = torch.nn.functional.one_hot(soft.argmax(2), 3).movedim(3, 2)
    roles = hard - soft.detach() + soft
    hidden = roles[:, :, 0] * x
    for level in range(3):
        weights = leaves[f"layer{level}"]
        hidden = weights[:, :, :-1] @ hidden + weights[:, :, -1:]
        if level < 2:
            hidden = torch.nn.functional.leaky_relu(hidden, 0.01)
    mean = leaves["offsets"][:, None] + torch.einsum(
        "jf,fjb,fb->jb", leaves["decoder"], roles[:, :, 1], hidden[:, 0]
    )
    sd = (leaves["log_variances"].exp() + 1e-4).sqrt()[:, None]
    nll = -(observed * torch.distributions.Normal(mean, sd).log_prob(x)).sum() / (d * B)
    pi = torch.softmax(leaves["logits"], 2)
    P = (pi[:, :, 0].T @ pi[:, :, 1]) * (1 - torch.eye(d))
    h = torch.matrix_exp(P / ((d - 1) * m / 9)).trace() - d
    reg = 0.5 * pi[:, :, :2].sum() / (d * m)
    return nll, reg, h, nll + 0.1 * reg + 2 * h + 3.5 * h**2


@pytest.mark.parametrize(("d", "m", "B"), [(5, 3, 40), (11, 10, 130)])
def test_gradients_against_autograd_through_straight_through_roles(d, m, B):
    rows = random_rows(d, 200)
    model = perturbed(d, m)
    order = np.random.default_rng(0).permutation(200)[:B]
    state = model.noise.copy()
    model.gradient(rows, order, lagrangian())

    leaves = leaves_of(model)
    x, observed = batch(rows, order)
    nll, reg, h, objective = truth(leaves, state, x, observed)
    objective.backward()
    np.testing.assert_array_equal(model.noise, state)

    assert_gradients(model, leaves)
    model.noise[:] = generator_state(0, 0)
    assert model.nll(rows, order) == pytest.approx(float(nll.detach()), rel=1e-10)
    assert model.penalties() == pytest.approx((float(reg.detach()), float(h.detach())))


def test_trajectory_is_that_of_autograd_and_torchs_rmsprop():
    d, m, B, steps = 4, 3, 32, 1000
    rows = random_rows(d, 300)
    model = DCDFG(d, m, dtype="float64", seed=0)
    rng = np.random.default_rng(0)
    order = np.concatenate([rng.permutation(300)[:B] for _ in range(steps)])
    leaves, state = leaves_of(model), model.noise.copy()
    model.descend(rows, order, B, lagrangian(), RMSprop(model.parameters, 1e-3))

    def objective(x, observed):
        return truth(leaves, state, x, observed)[-1]

    assert_descended(model, leaves, rows, order.reshape(steps, B), objective)


def test_float32_gradients_are_those_of_float64_within_rounding():
    d, m = 9, 4
    start, rows = perturbed(d, m), random_rows(d, 128)
    assert_float32_rounds(start, rows, lambda dtype: DCDFG(d, m, dtype=dtype, seed=0))


# Start and constraint


def test_start():
    d, m = 12, 10
    model = DCDFG(d, m, dtype="float64", seed=0)
    P = model.edge_probabilities()
    np.testing.assert_allclose(P, (m / 9) * (1 - np.eye(d)))
    assert model.radius == pytest.approx(np.abs(np.linalg.eigvals(P)).max())
    decoder = model.parameters.values["decoder"]
    assert (decoder[:m] != 0).all()
    assert (decoder[m:] == 0).all()
    reg, h = model.penalties()
    assert reg == pytest.approx(1 / 3)
    # Eigenvalues of P / rho_0: 1 once, -1/(d - 1) otherwise.
    assert h == pytest.approx(math.e + (d - 1) * math.exp(-1 / (d - 1)) - d)


def test_constraint_rounds_to_zero_in_float32_at_a_cyclic_graph():
    values = {}
    for dtype in ("float32", "float64"):
        model = DCDFG(10, 1, dtype=dtype, seed=0)
        logits = model.parameters.values["logits"]
        logits[:] = [-20.0, -20.0, 0.0]
        logits[0, 0] = [0.0, -8.0, -20.0]  # feeds; is fed with 3e-4
        logits[0, 1] = [-8.0, 0.0, -20.0]  # is fed; feeds with 3e-4
        P = model.edge_probabilities()
        assert min(P[0, 1], P[1, 0]) > 0
        values[dtype] = model.penalties()[1]
    assert values["float32"] == 0
    assert values["float64"] == pytest.approx(P[0, 1] * P[1, 0] / float(model.radius) ** 2)


# The cut


def test_cut_keeps_all_confident_pairs_of_a_dag():
    pi = np.full((1, 4, 3), [0.01, 0.01, 0.98])
    pi[0, 0] = [0.9, 0.05, 0.05]
    pi[0, 1] = [0.8, 0.1, 0.1]
    pi[0, 2] = [0.05, 0.9, 0.05]
    adjacency, threshold = largest_confident_dag(pi)
    # Undecided pairs at cut 0 are taken as outputs, which makes no cycle here.
    assert threshold == pytest.approx(2**-20)
    np.testing.assert_array_equal(
        adjacency, [[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]]
    )


def test_cut_drops_the_least_confident_pairs_of_a_cycle():
    # 0 -> f0 -> 1 and 1 -> f1 -> 0, the last pair of which has confidence 0.7.
    pi = np.full((2, 2, 3), [0.0, 0.0, 1.0])
    pi[0, 0], pi[0, 1] = [0.9, 0, 0.1], [0, 0.9, 0.1]
    pi[1, 1], pi[1, 0] = [0.9, 0, 0.1], [0.1, 0.6, 0.3]
    adjacency, threshold = largest_confident_dag(pi)
    assert 0.7 < threshold < 0.7 + 2**-19
    np.testing.assert_array_equal(adjacency, [[0, 1], [0, 0]])


def test_cycle_of_certain_pairs_gives_the_empty_graph():
    pi = np.zeros((2, 2, 3))
    pi[0, 0, 0] = pi[0, 1, 1] = pi[1, 1, 0] = pi[1, 0, 1] = 1
    adjacency, threshold = largest_confident_dag(pi)
    assert threshold > 1
    assert not adjacency.any()


def test_cut_gives_a_dag_for_random_roles():
    rng = np.random.default_rng(0)
    for _ in range(50):
        pi = rng.dirichlet([0.5, 0.5, 0.5], size=(4, 8))
        adjacency, threshold = largest_confident_dag(pi)
        assert is_acyclic(adjacency)
        assert 0 < threshold <= 1


# The method


def test_separates_causes_from_effects():
    # Two causes, four effects through one hidden sum; interventions on the causes.
    rng = np.random.default_rng(0)
    n = 4000
    X = rng.standard_normal((n, 6))
    intervened = np.zeros((n, 6), bool)
    for j in range(6):
        intervened[j * 500 : (j + 1) * 500, j] = True
    total = X[:, 0] + X[:, 1]
    for j in range(2, 6):
        X[:, j] = np.where(intervened[:, j], X[:, j], total + 0.3 * X[:, j])
    X = ((X - X.mean(0)) / X.std(0, ddof=1)).astype(np.float32)
    graph = fit("DCD-FG", X, intervened, modules=3)
    assert graph.diagnostics["stopped"] == "converged"
    assert is_acyclic(graph.adjacency)
    assert graph.adjacency[:2, 2:].all()
    assert not graph.adjacency[:, :2].any()


def test_same_seed_same_result_and_global_generators_untouched():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 4)).astype(np.float32)
    with generators_untouched():
        first, again, other = (
            fit("DCD-FG", X, seed=seed, max_epochs=3).weights for seed in (1, 1, 2)
        )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_unknown_dtype_is_an_input_error():
    with pytest.raises(InputError, match="expected one of float32, float64"):
        fit("DCD-FG", np.zeros((10, 3), np.float32), dtype="float16")
