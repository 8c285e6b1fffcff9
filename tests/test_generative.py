"""The generative model of a graph, against closed forms of linear Gaussian data."""

import numpy as np
import pytest
import scipy.stats

from sdcd.errors import CorruptFile, DataError, InputError
from sdcd.estimator import SDCD
from sdcd.estimator.generative import Fitting, GenerativeModel, fit_generative

# 0 -> 1 -> 2, 0 -> 2, 3 apart; the noise's standard deviations, and offsets.
B = np.zeros((4, 4))
B[0, 1], B[1, 2], B[0, 2] = 1.0, -0.8, 0.5
NOISE = np.array([1.0, 0.6, 0.7, 2.0])
OFFSET = np.array([10.0, 0.0, -3.0, 5.0])
TOTAL = np.linalg.inv(np.eye(4) - B)
COVARIANCE = TOTAL.T @ np.diag(NOISE**2) @ TOTAL
DAG = (B != 0).astype(np.int8)


def linear(n, seed, *, do=None):
    """Rows of x = B' x + noise, plus offsets; ``do`` sets a column of the rows without offset."""
    noise = np.random.default_rng(seed).normal(size=(n, 4)) * NOISE
    Z = np.zeros((n, 4))
    for j in range(4):
        Z[:, j] = do[1] if do and do[0] == j else Z @ B[:, j] + noise[:, j]
    return Z + OFFSET


def screen(n, seed):
    """Rows without interventions, and a fifth as many in which 1 is set to 1."""
    X = np.concatenate([linear(n, seed), linear(n // 5, seed + 1, do=(1, 1.0))])
    intervened = np.zeros(X.shape, dtype=bool)
    intervened[n:, 1] = True
    return X, intervened


@pytest.fixture(scope="module")
def model():
    return fit_generative(DAG, *screen(5000, 0))


def test_log_density_of_linear_gaussian_data_is_that_of_scipy(model):
    X = linear(4000, 7)
    expected = scipy.stats.multivariate_normal(OFFSET, COVARIANCE).logpdf(X)
    found = model.log_density(X)
    assert found.shape == X.shape and found.dtype == np.float64
    difference = found.sum(axis=1) - expected
    # Nats per row: never far above the truth, and little below it.
    assert -0.02 < difference.mean() < 0.01
    for j in range(4):
        mean = (X - OFFSET) @ B[:, j] + OFFSET[j]
        true = scipy.stats.norm(mean, NOISE[j]).logpdf(X[:, j])
        assert found[:, j].mean() == pytest.approx(true.mean(), abs=0.012)


def test_a_graph_without_edges_is_a_product_of_normals_in_closed_form():
    X, intervened = screen(500, 3)
    X = X.astype(np.float32)
    model = fit_generative(np.zeros((4, 4)), X, intervened)
    found = model.log_density(X, intervened)
    for j in range(4):
        free = X[~intervened[:, j], j].astype(np.float64)
        expected = scipy.stats.norm(free.mean(), free.std()).logpdf(free)
        assert found[~intervened[:, j], j] == pytest.approx(expected, abs=1e-4)


def test_log_density_is_that_of_the_plain_model_in_torch(model):
    import torch

    from sdcd.estimator.model import predict
    from sdcd.estimator.state import PARAMETERS

    X = linear(50, 1)
    Z = torch.tensor((X - model.mean) / model.sd)
    theta = {name: torch.tensor(model.theta[name]).double() for name in PARAMETERS}
    mean, variance = (part.numpy() for part in predict(theta, model.candidates, Z))
    mean, sd = mean * model.sd + model.mean, np.sqrt(variance) * model.sd
    expected = scipy.stats.norm(mean, sd).logpdf(X)
    assert model.log_density(X) == pytest.approx(expected, rel=1e-9)


def test_values_set_by_interventions_are_nan_and_nothing_else_is(model):
    X, intervened = screen(100, 5)
    found = model.log_density(X, intervened)
    assert np.array_equal(np.isnan(found), intervened)
    assert np.array_equal(found[~intervened], model.log_density(X)[~intervened])


def test_units_are_those_of_the_data():
    X, intervened = screen(800, 2)
    factor = np.array([1.0, 100.0, 0.01, 3.0])
    shift = np.array([0.0, 5.0, -1.0, 2.0])
    one = fit_generative(DAG, X, intervened)
    other = fit_generative(DAG, X * factor + shift, intervened)
    difference = one.log_density(X) - other.log_density(X * factor + shift)
    assert difference == pytest.approx(np.broadcast_to(np.log(factor), X.shape), abs=0.02)
    same = one.in_units(shift, factor)
    assert same.log_density(X * factor + shift) == pytest.approx(
        one.log_density(X) - np.log(factor), abs=1e-9
    )
    assert same.sample(20, seed=3) == pytest.approx(one.sample(20, seed=3) * factor + shift)
    assert same.perturbed[1] == pytest.approx(one.perturbed[1] * 100 + 5)


def test_samples_have_the_moments_of_the_truth(model):
    found = model.sample(20_000, seed=1)
    sd = np.sqrt(np.diag(COVARIANCE))
    assert found.mean(axis=0) == pytest.approx(OFFSET, abs=0.06 * sd.max())
    correlation = COVARIANCE / np.outer(sd, sd)
    assert np.corrcoef(found.T) == pytest.approx(correlation, abs=0.04)


def test_an_intervention_sets_its_variable_and_moves_its_descendants_alone(model):
    free, set_ = model.sample(5000, seed=2), model.sample(5000, {"X1": 1.0}, seed=2)
    assert (set_[:, 1] == pytest.approx(1.0)) and set_[:, 1].std() < 1e-12
    assert np.array_equal(free[:, [0, 3]], set_[:, [0, 3]])
    # The cause of both stays what it was, and correlates with X2 by itself alone.
    assert set_[:, 2].mean() - OFFSET[2] == pytest.approx(-0.8, abs=0.05)
    assert np.corrcoef(set_[:, 0], set_[:, 2])[0, 1] == pytest.approx(
        0.5 / np.hypot(0.5, 0.7), abs=0.05
    )
    both = model.sample(10, {"X0": 9.0, 1: 0.5})
    assert both[:, 0] == pytest.approx(9.0) and both[:, 1] == pytest.approx(0.5)


def test_effects_are_total_effects_of_the_linear_model(model):
    found = model.effects(n=4000, seed=0)
    assert found.values == pytest.approx(model.mean + model.sd)
    moved = found.values - OFFSET
    expected = TOTAL * moved[:, None]
    assert found.shift == pytest.approx(expected, abs=0.12)
    ancestors = TOTAL != 0
    assert (found.shift[~ancestors] == 0).all() and (found.shift_se[~ancestors] == 0).all()
    assert (found.shift_se[0, [1, 2]] > 0).all()


def test_effects_are_differences_of_means_of_samples(model):
    values = np.array([11.0, np.nan, np.nan, 4.0])
    found = model.effects(values, n=300, seed=5)
    difference = model.sample(300, {"X0": 11.0}, seed=5) - model.sample(300, seed=5)
    assert found.shift[0] == pytest.approx(difference.mean(axis=0))
    assert found.shift_se[0] == pytest.approx(difference.std(axis=0, ddof=1) / np.sqrt(300))
    assert np.isnan(found.shift[[1, 2]]).all() and np.isfinite(found.shift[[0, 3]]).all()
    by_name = model.effects({"X0": 11.0, "X3": 4.0}, n=300, seed=5)
    assert np.array_equal(by_name.shift, found.shift, equal_nan=True)


def test_monte_carlo_errors_are_the_spread_over_seeds(model):
    shifts = np.array([model.effects(n=100, seed=seed).shift[0, 2] for seed in range(60)])
    told = np.mean([model.effects(n=100, seed=seed).shift_se[0, 2] for seed in range(10)])
    assert 0.7 < shifts.std(ddof=1) / told < 1.4


def test_the_same_seed_gives_the_same_bytes_and_another_one_others(tmp_path):
    X, intervened = screen(400, 4)
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        fit_generative(DAG, X, intervened, seed=seed).save(tmp_path / f"{name}.npz")
    a, b, c = ((tmp_path / f"{name}.npz").read_bytes() for name in "abc")
    assert a == b and a != c


def test_a_saved_model_is_the_model(model, tmp_path):
    path = tmp_path / "fit.model.npz"
    model.save(path)
    same = GenerativeModel.load(path)
    X = linear(30, 1)
    assert np.array_equal(same.log_density(X), model.log_density(X))
    assert np.array_equal(same.sample(5, seed=3), model.sample(5, seed=3))
    assert same.names == model.names and np.array_equal(same.adjacency, DAG)
    assert np.array_equal(same.perturbed, model.perturbed, equal_nan=True)
    assert path.stat().st_size < 8000


def test_other_files_are_no_models(model, tmp_path):
    from sdcd.files import read_npz, write_npz

    path = tmp_path / "model.npz"
    write_npz(path, weights=np.zeros((2, 2)))
    with pytest.raises(InputError, match="not a model"):
        GenerativeModel.load(path)
    model.save(path)
    arrays = read_npz(path)
    write_npz(path, **{**arrays, "parents": arrays["children"], "children": arrays["children"]})
    with pytest.raises(CorruptFile, match="cycle"):
        GenerativeModel.load(path)
    write_npz(path, **{**arrays, "W": arrays["W"][1:]})
    with pytest.raises(CorruptFile, match="W"):
        GenerativeModel.load(path)
    del arrays["mean"]
    write_npz(path, **arrays)
    with pytest.raises(CorruptFile, match="mean"):
        GenerativeModel.load(path)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda m: m.sample(0), "n is 0"),
        (lambda m: m.sample(5, seed=-1), "seed is -1"),
        (lambda m: m.sample(5, {"X7": 1.0}), "no variable 'X7'"),
        (lambda m: m.sample(5, {4: 1.0}), "no variable 4"),
        (lambda m: m.sample(5, {-1: 1.0}), "no variable -1"),
        (lambda m: m.sample(5, {"X1": np.nan}), "'X1' is nan"),
        (lambda m: m.sample(5, {"X1": "a"}), "'X1' is 'a'"),
        (lambda m: m.sample(5, {"X1": 1.0, 1: 2.0}), "set twice"),
        (lambda m: m.sample(5, ["X1"]), "expected a mapping"),
        (lambda m: m.effects(np.zeros(3)), r"shape \(3,\)"),
        (lambda m: m.effects(n=1), "n is 1"),
        (lambda m: m.log_density(np.zeros((3, 5))), "5 columns"),
        (lambda m: m.log_density(np.full((3, 4), np.nan)), "is nan"),
        (lambda m: m.log_density(np.zeros((3, 4)), np.zeros((3, 3), bool)), "intervened is"),
    ],
)
def test_wrong_questions_are_refused(model, call, says):
    with pytest.raises(InputError, match=says):
        call(model)


def test_wrong_data_are_refused():
    X, intervened = screen(100, 0)
    with pytest.raises(InputError, match="cycle"):
        fit_generative(np.ones((4, 4)), X)
    with pytest.raises(InputError, match=r"shape \(3, 3\)"):
        fit_generative(np.zeros((3, 3)), X)
    constant = X.copy()
    constant[:, 2] = 1
    with pytest.raises(DataError, match="'X2' is constant"):
        fit_generative(DAG, constant)
    always = intervened.copy()
    always[1:, 1] = True
    with pytest.raises(DataError, match="'X1' has 1 rows"):
        fit_generative(DAG, X, always)


def test_sdcd_is_its_own_generative_model():
    X, intervened = screen(1000, 0)
    X = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)
    fitted = SDCD(epochs_1=40, epochs_2=60, seed=3).fit(X, intervened)
    same = fit_generative(fitted.adjacency_, X, intervened, seed=3)
    assert fitted.adjacency_.any()
    assert np.array_equal(fitted.log_density(X[:9]), same.log_density(X[:9]))
    assert np.array_equal(fitted.sample(4, {"X1": 0.5}, 2), same.sample(4, {"X1": 0.5}, 2))
    assert np.array_equal(fitted.effects(n=50).shift, same.effects(n=50).shift)
    assert fitted.generative() is fitted.generative()


def test_sdcd_refuses_rows_that_changed_and_forgets_an_earlier_fit():
    X, intervened = screen(300, 0)
    X = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)
    with pytest.raises(AttributeError, match="not fitted"):
        SDCD().sample(3)
    fitted = SDCD(epochs_1=2, epochs_2=2).fit(X, intervened)
    first = fitted.sample(3)
    fitted.fit(X[:250], intervened[:250])
    assert not np.array_equal(fitted.sample(3), first)
    fitted.fit(X, intervened)
    X[0, 0] += 1
    with pytest.raises(InputError, match="changed since"):
        fitted.sample(3)


def test_networks_are_chosen_on_rows_that_they_were_not_fitted_to():
    """Few rows and many steps: without early stopping the density of new rows falls far."""
    X, new = linear(60, 0), linear(2000, 9)
    stopped = fit_generative(DAG, X).log_density(new).sum(axis=1).mean()
    on = Fitting(epochs=2500, patience=10**6)
    overfitted = fit_generative(DAG, X, fitting=on).log_density(new).sum(axis=1).mean()
    assert stopped > overfitted + 0.05
