"""Held-out pruning: gains against closed forms and another engine, masks, what is dropped."""

import numpy as np
import pytest
import torch
from support.fits import generators_untouched

from sdcd.errors import InputError
from sdcd.estimator.model import predict, score
from sdcd.estimator.pruning import Fitting, _log_density, _Network, prune
from sdcd.estimator.state import Candidates

SHORT = Fitting(first_steps=90, steps=40, batch_size=64, learning_rate=1e-2)


def standardised(columns):
    X = np.stack(columns, axis=1)
    return ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)


def chain(n=3000, d=4, seed=0):
    random = np.random.default_rng(seed)
    columns = [random.normal(size=n)]
    for _ in range(d - 1):
        columns.append(np.sin(2 * columns[-1]) + 0.5 * random.normal(size=n))
    return standardised(columns)


def all_forward(d):
    return np.triu(np.ones((d, d), dtype=np.int8), 1)


def interventional(n=600, d=4):
    X = chain(n, d)
    intervened = np.random.default_rng(1).random((n, d)) < 0.2
    return X, intervened


def test_edges_along_a_chain_stay_and_edges_from_ancestors_go():
    X = chain()
    for backward in (True, False):
        result = prune(all_forward(4), X, backward=backward)
        assert result.adjacency.dtype == np.int8
        assert np.array_equal(result.adjacency, np.eye(4, k=1))
        assert np.array_equal(np.isnan(result.gain), all_forward(4) == 0)
        assert np.array_equal(np.isnan(result.gain_se), all_forward(4) == 0)
        true = result.adjacency == 1
        assert (result.gain[true] > 0.2).all()
        assert (np.abs(result.gain[~true & (all_forward(4) == 1)]) < 0.01).all()
        # X0 and X1 both leave X3's parents, one after the other.
        assert result.rounds == (3 if backward else 1)


def test_columns_in_another_order_are_another_draw_and_the_same_finding():
    """docs/pruning.md: a network's random start goes by its child's position."""
    X, columns = chain(1500), np.array([2, 0, 3, 1])
    one = prune(all_forward(4), X, fitting=SHORT)
    shuffled = all_forward(4)[np.ix_(columns, columns)]
    other = prune(shuffled, X[:, columns], fitting=SHORT)
    back = np.ix_(*[np.argsort(columns)] * 2)
    np.testing.assert_array_equal(other.adjacency[back], one.adjacency)
    kept = one.adjacency == 1
    difference = (other.gain[back] - one.gain)[kept]
    assert 0 < np.abs(difference).max() < 0.1


def test_gains_of_linear_gaussian_data_are_the_closed_form():
    random = np.random.default_rng(0)
    n = 8000
    x, z = random.normal(size=(2, n))
    z = 0.6 * x + 0.8 * z
    y = 0.8 * x + 0.5 * z + 0.6 * random.normal(size=n)
    # Var(y | z) = 0.8^2 Var(x | z) + 0.36 with Var(x | z) = 1 - 0.36, and likewise without z.
    exact = [0.5 * np.log(1 + c**2 * 0.64 / 0.36) for c in (0.8, 0.5)]
    A = np.array([[0, 0, 1], [0, 0, 1], [0, 0, 0]])
    result = prune(A, standardised([x, z, y]), fitting=Fitting(beta=1e-4))
    np.testing.assert_allclose(result.gain[:2, 2], exact, atol=0.03)
    # Of n = 1600 rows; the log ratio of two Gaussian densities spreads by about sqrt(2 gain).
    np.testing.assert_allclose(result.gain_se[:2, 2] ** 2 * 1600, 2 * np.array(exact), rtol=0.6)


def test_two_parents_that_stand_in_for_each_other_are_not_both_dropped_backward():
    random = np.random.default_rng(0)
    x = random.normal(size=3000)
    twin = x + 0.02 * random.normal(size=3000)
    y = np.sin(2 * x) + 0.5 * random.normal(size=3000)
    X = standardised([x, twin, y])
    A = np.array([[0, 0, 1], [0, 0, 1], [0, 0, 0]])
    assert prune(A, X, backward=False).adjacency.sum() == 0
    result = prune(A, X, backward=True)
    assert result.adjacency.sum() == 1
    assert result.gain[result.adjacency == 1] > 0.2


@pytest.mark.parametrize("with_interventions", [False, True])
def test_gains_agree_with_autograd(with_interventions):
    X, intervened = interventional()
    arguments = (all_forward(4), X, intervened if with_interventions else None)
    options = {"backward": False, "fitting": SHORT}
    fast = prune(*arguments, **options)
    plain = prune(*arguments, engine="model", **options)
    edges = all_forward(4) == 1
    assert np.ptp(plain.gain[edges]) > 0.05
    np.testing.assert_allclose(fast.gain[edges], plain.gain[edges], atol=2e-5)
    np.testing.assert_allclose(fast.gain_se[edges], plain.gain_se[edges], rtol=1e-2)


def test_densities_are_the_models():
    random = np.random.default_rng(0)
    shapes = {"W": (2, 10), **dict.fromkeys("buv", 10), **dict.fromkeys("ce", ())}
    theta = {name: np.array(random.normal(size=shape)) for name, shape in shapes.items()}
    X = random.normal(size=(50, 4))
    ours = _log_density(_Network(1, (0, 3), theta), X)
    tensors = {k: torch.tensor(v if k == "W" else v[None]) for k, v in theta.items()}
    candidates = Candidates(4, np.array([1]), np.array([0, 2]), np.array([0, 3]))
    x = torch.tensor(X)
    mean, variance = predict(tensors, candidates, x)
    for r in range(50):
        row = slice(r, r + 1)
        expected = score(mean[row], variance[row], x[row, 1:2], None)
        assert ours[r] == pytest.approx(float(expected), abs=1e-10)


def test_rows_that_intervene_on_a_child_never_touch_its_gains():
    X, intervened = interventional()
    other = X.copy()
    set_from_outside = intervened[:, 3]
    other[set_from_outside, 3] = 100 * np.random.default_rng(2).normal(size=set_from_outside.sum())
    results = [prune(all_forward(4), x, intervened, fitting=SHORT) for x in (X, other)]
    assert results[0].gain.tobytes() == results[1].gain.tobytes()
    assert results[0].gain_se.tobytes() == results[1].gain_se.tobytes()
    without = prune(all_forward(4), other, fitting=SHORT)
    assert not np.array_equal(without.gain[:, 3], results[1].gain[:, 3])


def test_a_child_that_is_intervened_on_in_every_row_keeps_no_parent():
    X, intervened = interventional()
    intervened[:, 2] = True
    result = prune(all_forward(4), X, intervened, fitting=SHORT, min_gain=0.0, min_z=0.0)
    assert not result.adjacency[:, 2].any()
    assert (result.gain[:2, 2] == 0).all() and np.isnan(result.gain_se[:2, 2]).all()
    assert result.adjacency[2, 3] == 1


def test_same_bytes_whatever_the_threads_and_other_bytes_with_another_seed():
    X, intervened = interventional()
    with generators_untouched():
        results = [
            prune(all_forward(4), X, intervened, fitting=SHORT, seed=seed, threads=threads)
            for seed, threads in ((0, 1), (0, 2), (1, 1))
        ]
    assert results[0].gain.tobytes() == results[1].gain.tobytes()
    assert results[0].gain.tobytes() != results[2].gain.tobytes()


def test_children_do_not_depend_on_each_other():
    X = chain(600)
    one = np.zeros((4, 4), dtype=np.int8)
    one[:, 3] = all_forward(4)[:, 3]
    alone = prune(one, X, fitting=SHORT)
    together = prune(all_forward(4), X, fitting=SHORT)
    assert np.array_equal(alone.gain[:3, 3], together.gain[:3, 3])


def test_an_empty_graph_stays_empty():
    result = prune(np.zeros((4, 4)), chain(400))
    assert not result.adjacency.any() and result.rounds == 0 and np.isnan(result.gain).all()


def test_the_graph_given_is_not_changed():
    A = all_forward(4)
    prune(A, chain(400), fitting=SHORT, min_gain=10.0)
    assert np.array_equal(A, all_forward(4))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"adjacency": np.ones((4, 4))}, "the graph has a cycle"),
        ({"adjacency": all_forward(3)}, r"the graph has shape \(3, 3\) and X \(400, 4\)"),
        ({"X": np.full((400, 4), np.inf)}, "X: row 0, column 0 is inf"),
        ({"X": chain(9)}, "X has 9 rows, 8 of them to fit: expected at least two to fit and two"),
        ({"intervened": np.zeros((400, 4))}, "intervened is float64.*expected bool"),
        ({"min_gain": -0.1}, "min_gain is -0.1"),
        ({"min_z": float("nan")}, "min_z is nan"),
        ({"scored_fraction": 1.0}, "scored_fraction is 1.0"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_wrong_input_is_refused(change, message):
    arguments = {"adjacency": all_forward(4), "X": chain(400), **change}
    with pytest.raises(InputError, match=message):
        prune(**arguments)
