"""DCDI-G and DCDI-DSF: masks, densities, gradients, and how float32 ends a run."""

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from scipy.linalg import expm as scipy_expm
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

from sdcd.baselines.dcdi_models.augmented_lagrangian import (
    PORT,
    AugmentedLagrangian,
    minimise_by_epochs,
    split,
)
from sdcd.baselines.dcdi_models.kernels import (
    LANES,
    draw_edges,
    edge_probabilities,
    expm,
    exponential_constraint,
    fill_uniform,
)
from sdcd.baselines.dcdi_models.model import DCDI, Gaussian, SigmoidalFlow
from sdcd.baselines.dcdi_models.networks import RMSprop, generator_state
from sdcd.errors import InputError, MethodFailure


def collider(n=4000, seed=0):
    """X0 -> X2 <- X1, each set by intervention in a sixth of the rows."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    intervened = np.zeros((n, 3), bool)
    for j in range(3):
        intervened[j * n // 6 : (j + 1) * n // 6, j] = True
    X[:, 2] = np.where(intervened[:, 2], X[:, 2], X[:, 0] + X[:, 1] + 0.5 * X[:, 2])
    X = (X - X.mean(0)) / X.std(0, ddof=1)
    return X.astype(np.float32), intervened


COLLIDER = [[0, 0, 1], [0, 0, 1], [0, 0, 0]]


# Random masks


def test_generator_follows_the_published_xoshiro128plusplus():
    state = np.zeros((4, LANES), np.uint32)
    state[:] = np.array([1, 2, 3, 4], np.uint32)[:, None]
    # First words from the state (1, 2, 3, 4), as in the reference implementations' tests.
    words = [641, 1573767, 3222811527, 3517856514, 836907274, 4247214768, 3867114732, 1355841295]
    for word in words:
        u = np.empty(LANES)
        fill_uniform(state, u)
        np.testing.assert_array_equal(u, ((word >> 9) + 0.5) / 2**23)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_uniforms_are_uniform_and_exclude_both_ends(dtype):
    u = np.empty(2_000_000, dtype)
    fill_uniform(generator_state(3, 0), u)
    assert u.min() > 0
    assert u.max() < 1
    counts = np.histogram(u, bins=1000, range=(0, 1))[0]
    chi_square = ((counts - 2000) ** 2 / 2000).sum()
    assert abs(chi_square - 999) < 5 * math.sqrt(2 * 999)
    assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 5 / math.sqrt(len(u))
    assert abs(np.corrcoef(u[:-LANES], u[LANES:])[0, 1]) < 5 / math.sqrt(len(u))


def draws(logits, x, seed=0):
    """Masked inputs and slopes, (child, parent, row), of x (d, rows)."""
    d, rows = x.shape
    p, q = np.empty_like(logits), np.empty_like(logits)
    edge_probabilities(logits, p, q)
    inputs, slopes = np.full((2, d, d * rows), np.nan, x.dtype)
    state = generator_state(seed, 0)
    for t in range(d):
        draw_edges(state, p, q, t, d, x.ravel(), rows, inputs[t], slopes[t])
    return inputs.reshape(d, d, rows), slopes.reshape(d, d, rows), p


def test_edges_are_drawn_with_their_probabilities():
    d, B = 4, 99_968
    logits = np.random.default_rng(0).normal(0, 2, (d, d))
    inputs, _, p = draws(logits, np.ones((d, B)))
    expected = 1 / (1 + np.exp(-logits))
    np.fill_diagonal(expected, 0)
    np.testing.assert_allclose(p, expected, rtol=1e-14)
    np.testing.assert_allclose(inputs.mean(2), expected, atol=5 * 0.5 / math.sqrt(B))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_edges_are_drawn_from_the_uniforms_of_the_generator(dtype):
    d, rows = 5, 2 * LANES
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 2, (d, d)).astype(dtype)
    x = rng.standard_normal((d, rows)).astype(dtype)
    inputs, slopes, p = draws(logits, x, seed=3)
    state = generator_state(3, 0)
    u = np.empty(rows, dtype)
    for t in range(d):
        for i in range(d):
            if i == t:
                assert not inputs[t, i].any()
                assert not slopes[t, i].any()
                continue
            fill_uniform(state, u)
            np.testing.assert_array_equal(inputs[t, i], np.where(u > 1 - p[t, i], x[i], 0))
            soft = 1 / (1 + np.exp(-(logits[t, i] + np.log(u) - np.log1p(-u)).astype(np.float64)))
            np.testing.assert_allclose(slopes[t, i], x[i] * soft * (1 - soft), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("logit", [-90.0, -20.0, 20.0, 90.0])
def test_sure_edges_give_finite_slopes_in_float32(logit):
    rows = 16 * LANES
    inputs, slopes, _ = draws(np.full((3, 3), logit, np.float32), np.ones((3, rows), np.float32))
    assert np.isfinite(slopes).all()
    assert (inputs.sum(2)[~np.eye(3, dtype=bool)] == (rows if logit > 0 else 0)).all()


# The constraint


@pytest.mark.parametrize("scale", [1e-3, 0.1, 1, 3])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 5e-6), (np.float64, 2e-13)])
def test_exponential_against_scipy(scale, dtype, tolerance):
    A = (np.random.default_rng(1).random((12, 12)) * scale).astype(dtype)
    E = expm(A)
    assert E.dtype == dtype
    np.testing.assert_allclose(E, scipy_expm(A.astype(np.float64)), rtol=tolerance)


def test_constraint_of_the_complete_graph_has_its_closed_form():
    for d in (3, 10, 30):
        value, E = exponential_constraint(np.ones((d, d)) - np.eye(d))
        gradient = E.T
        assert value == pytest.approx(math.exp(d - 1) + (d - 1) / math.e - d, rel=1e-12)
        assert gradient[0, 1] == pytest.approx((math.exp(d - 1) - 1 / math.e) / d, rel=1e-12)


def build(d, dtype="float32", normalise=True, density=None):
    return DCDI(d, density or Gaussian(), dtype=dtype, normalise_constraint=normalise, seed=0)


def test_constant_overflows_float32_from_90_variables_on():
    assert np.isfinite(build(89).constant)
    with pytest.raises(MethodFailure, match=r"beyond 3\.4e\+38") as failure:
        build(90)
    assert failure.value.status == "overflow"
    assert np.isfinite(build(90, "float64").constant)
    assert build(90, normalise=False).constant == 1

    X = np.random.default_rng(0).standard_normal((50, 100)).astype(np.float32)
    with pytest.raises(MethodFailure, match="at d = 100") as failure:
        fit("DCDI-G", X)
    assert failure.value.status == "overflow"


def test_h_is_one_at_the_complete_graph_and_zero_at_a_dag():
    model = build(6, "float64")
    model.logits[:] = 60
    assert model.penalties() == (pytest.approx(30 / 36), pytest.approx(1))
    model.logits[np.triu_indices(6)] = -60
    assert model.penalties()[1] == pytest.approx(0, abs=1e-12)


# Densities


def flow_parameters(seed, scale):
    """Parameters (outputs, 1) of one flow."""
    generator = torch.Generator().manual_seed(seed)
    outputs = SigmoidalFlow().outputs
    return scale * torch.randn(outputs, 1, dtype=torch.float64, generator=generator)


def log_density(out, x):
    """Log density of each x under the same flow, through the class."""
    out = out.expand(-1, len(x)).numpy()
    return torch.from_numpy(SigmoidalFlow().log_density(out, x.numpy()))


def transform(out, x):
    """What the flow maps x to, and that's derivative: out (..., outputs, B), x (..., B)."""
    z, slope = x, 1.0
    for raw_a, b, raw_w in out.unflatten(-2, (2, 3, 16)).movedim((-4, -3), (0, 1)):
        a = torch.nn.functional.softplus(raw_a, threshold=50) + 1e-6
        w = torch.softmax(raw_w, -2)
        y = a * z[..., None, :] + b
        q = (w * torch.sigmoid(y)).sum(-2) * (1 - 1e-6) + 0.5e-6
        # Not by autograd, which takes 1 - sigmoid(y) for sigmoid(-y).
        by_z = (w * a * torch.sigmoid(y) * torch.sigmoid(-y)).sum(-2) * (1 - 1e-6)
        slope = slope * by_z / (q * (1 - q))
        z = q.log() - (-q).log1p()
    return z, slope


def base_log_density(z):
    return -(z**2) / (2 * math.e + 1e-5) - 0.5 - math.log(2 * math.pi) / 2


def integral(out):
    # The flow has heavy tails: x = sinh(t) maps them to a grid on which they are resolved.
    t = torch.linspace(-25, 25, 100_001, dtype=torch.float64)
    return float(torch.trapezoid(log_density(out, t.sinh()).exp() * t.cosh(), t))


@pytest.mark.parametrize("seed", range(5))
def test_flow_integrates_to_one(seed):
    assert integral(flow_parameters(seed, scale=0.1)) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_wild_flow_integrates_to_the_mass_that_it_reaches(seed):
    # Squeezing bounds what the first layer gives; a flat second layer then reaches only a part of
    # the line, and the rest of the target's mass is lost, as published.
    out = flow_parameters(seed, scale=1.5)
    ends, _ = transform(out, torch.tensor([-1e12, 1e12], dtype=torch.float64))
    mass = torch.distributions.Normal(0, math.sqrt(math.e)).cdf(ends)
    assert integral(out) == pytest.approx(float(mass[1] - mass[0]), abs=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_flow_density_is_the_target_density_times_the_numerical_derivative(seed):
    out = flow_parameters(seed, scale=1.5)
    x = torch.linspace(-3, 3, 61, dtype=torch.float64)
    step = 1e-5
    slope = (transform(out, x + step)[0] - transform(out, x - step)[0]) / (2 * step)
    # As published, 1e-6 is taken from each of two log sigmoids in each of two layers.
    expected = base_log_density(transform(out, x)[0]) + slope.log() - 4e-6
    torch.testing.assert_close(log_density(out, x), expected, rtol=0, atol=1e-8)


def reference_log_density(density, out, x, log_sd):
    """Differentiable log density: out (d, outputs, B), x (d, B)."""
    if isinstance(density, Gaussian):
        return torch.distributions.Normal(out[:, 0], log_sd.exp()[:, None]).log_prob(x)
    z, slope = transform(out, x)
    return base_log_density(z) + slope.log() - 4e-6


def perturb(model, scale=0.3, seed=1):
    generator = torch.Generator().manual_seed(seed)
    model.parameters.flat += scale * torch.randn(
        model.parameters.flat.shape, dtype=torch.float64, generator=generator
    ).numpy().astype(model.parameters.flat.dtype)


def truth(leaves, density, state, x, observed, multipliers):
    """nll and augmented Lagrangian of a batch by autograd: x, observed (d, B)."""
    d, B = x.shape
    rows = LANES * math.ceil(B / LANES)
    uniforms = np.full((d, d, rows), 0.5)  # child, parent, row
    for t in range(d):
        for i in range(d):
            if i != t:
                fill_uniform(state, uniforms[t, i])
    u = torch.from_numpy(uniforms[:, :, :B])
    soft = torch.sigmoid(leaves["logits"][:, :, None] + u.log() - (-u).log1p())
    mask = (soft > 0.5).double() - soft.detach() + soft
    hidden = mask * (1 - torch.eye(d))[:, :, None] * x
    levels = sum(name.startswith("layer") for name in leaves)
    for level in range(levels):
        weights = leaves[f"layer{level}"]
        hidden = weights[:, :, :-1] @ hidden + weights[:, :, -1:]
        if level < levels - 1:
            hidden = torch.nn.functional.leaky_relu(hidden, 0.01)
    log_density = reference_log_density(density, hidden, x, leaves.get("log_sd"))
    nll = -(observed * log_density).sum() / (d * B)
    P = torch.sigmoid(leaves["logits"]) * (1 - torch.eye(d))
    complete = torch.ones(d, d, dtype=torch.float64) - torch.eye(d)
    h = (torch.matrix_exp(P).trace() - d) / (torch.matrix_exp(complete).trace() - d)
    gamma, mu = multipliers
    return nll, nll + 0.1 * P.sum() / d**2 + gamma * h + mu / 2 * h**2


@pytest.mark.parametrize("density", [Gaussian(), SigmoidalFlow()], ids=["G", "DSF"])
@pytest.mark.parametrize(("d", "B", "hidden", "layers"), [(5, 40, 16, 2), (11, 130, 7, 3)])
def test_gradients_against_autograd_through_straight_through_masks(density, d, B, hidden, layers):
    rows = random_rows(d, 200)
    model = DCDI(
        d, density, dtype="float64", normalise_constraint=True, seed=0, hidden=hidden, layers=layers
    )
    perturb(model)
    model.logits -= 5
    order = np.random.default_rng(0).permutation(200)[:B]
    state = model.noise.copy()
    model.gradient(rows, order, lagrangian(2.0, 7.0))

    leaves = leaves_of(model)
    x, observed = batch(rows, order)
    nll, objective = truth(leaves, density, state, x, observed, (2.0, 7.0))
    objective.backward()
    np.testing.assert_array_equal(model.noise, state)

    assert_gradients(model, leaves)
    model.noise[:] = generator_state(0, 0)
    assert model.nll(rows, order) == pytest.approx(float(nll.detach()), rel=1e-9)


@pytest.mark.parametrize("density", [Gaussian(), SigmoidalFlow()], ids=["G", "DSF"])
def test_trajectory_is_that_of_autograd_and_torchs_rmsprop(density):
    d, B, steps = 4, 32, 1000
    rows = random_rows(d, 300)
    model = DCDI(d, density, dtype="float64", normalise_constraint=True, seed=0)
    model.logits -= 4  # so that edges come and go
    L = lagrangian(0.5, 3.0)
    rng = np.random.default_rng(0)
    order = np.concatenate([rng.permutation(300)[:B] for _ in range(steps)])
    leaves, state = leaves_of(model), model.noise.copy()
    model.descend(rows, order, B, L, RMSprop(model.parameters, 1e-3))

    def objective(x, observed):
        return truth(leaves, density, state, x, observed, (0.5, 3.0))[1]

    assert_descended(model, leaves, rows, order.reshape(steps, B), objective)


def test_float32_gradients_are_those_of_float64_within_rounding():
    d = 9
    start = build(d, "float64")
    perturb(start)
    start.logits -= 5
    assert_float32_rounds(start, random_rows(d, 128), lambda dtype: build(d, dtype))


# The method


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("DCDI-G", {}),
        ("DCDI-G", {"dtype": "float64"}),
        pytest.param(
            "DCDI-G", {"controller": "original", "dtype": "float64"}, marks=pytest.mark.slow
        ),
        ("DCDI-DSF", {"controller": "port"}),
    ],
    ids=["port", "port-float64", "original", "DSF-port"],
)
def test_finds_a_collider(name, settings):
    X, intervened = collider()
    graph = fit(name, X, intervened, **settings)
    np.testing.assert_array_equal(graph.adjacency, COLLIDER)
    assert graph.diagnostics["stopped"] == "converged"
    assert graph.diagnostics["acyclic"]
    np.testing.assert_array_equal(graph.adjacency, graph.weights > 0.5)


def test_same_seed_same_result_and_global_generators_untouched():
    X, intervened = collider(500)
    with generators_untouched():
        first, again, other = (
            fit("DCDI-G", X, intervened, seed=seed, max_epochs=3).weights for seed in (1, 1, 2)
        )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_infinite_penalty_weight_ends_the_run_in_float32_but_not_in_float64():
    # What d = 50 comes to after some 1,800 epochs: mu at the end of float32's range, and h,
    # divided by 1.9e21, still above zero.
    d = 50
    X = np.random.default_rng(0).standard_normal((400, d)).astype(np.float32)
    for dtype in ("float32", "float64"):
        train, validation = split(
            X, np.zeros(X.shape, bool), dtype, torch.Generator().manual_seed(0)
        )
        model = build(d, dtype)
        model.logits[:] = -2.0
        real = model.logits.dtype
        L = AugmentedLagrangian(PORT, real, 0.1)
        L.mu = real.type(2e38)
        L.constraints = [real.type(0), real.type(0)]
        L.change = lambda: 0.0
        arguments = model, train, validation, L, lambda _: False
        if dtype == "float32":
            with pytest.raises(MethodFailure, match=r"mu = inf.* in float32") as failure:
                minimise_by_epochs(*arguments, max_epochs=4)
            assert failure.value.status == "nan"
        else:
            minimise_by_epochs(*arguments, max_epochs=4)
            assert np.isfinite(L.mu)
            assert L.mu > 3.4e38


@pytest.mark.parametrize(
    "settings", [{"dtype": "float16"}, {"controller": "mine"}], ids=["dtype", "controller"]
)
def test_unknown_choices_are_input_errors(settings):
    X, intervened = collider(20)
    with pytest.raises(
        InputError, match=r"expected one of float32, float64|expected one of port, original"
    ):
        fit("DCDI-G", X, intervened, **settings)


def test_listing_the_methods_loads_no_heavy_library():
    code = (
        "import sys, sdcd.baselines.dcdi, sdcd.baselines.dcdfg;"
        "print([m for m in ('torch', 'numba', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
