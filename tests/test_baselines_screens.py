"""Mean difference and tree importance: against scipy's tests, and on data with a known answer."""

import numpy as np
import pytest
from support.fits import fit

from sdcd.errors import MethodFailure


def screen(seed, n_control=300, n_each=60, targets=range(3)):
    """x0 -> x1 -> x2, and x3 alone; interventions set a variable to 2."""
    random = np.random.default_rng(seed)
    blocks, masks = [], []
    for target, n in [(None, n_control), *((t, n_each) for t in targets)]:
        x = random.standard_normal((n, 4))
        for j in range(4):
            if j == target:
                x[:, j] = 2 + 0.1 * x[:, j]
            elif j in (1, 2):
                x[:, j] += 0.9 * x[:, j - 1]
        blocks.append(x)
        masks.append(np.tile(np.arange(4) == target, (n, 1)))
    return np.concatenate(blocks).astype(np.float32), np.concatenate(masks)


NAMES = ("a", "b", "c", "e")


def shifts(X, intervened, **settings):
    return fit("mean-difference", X, intervened, names=NAMES, **settings)


def test_shifts_and_errors_are_those_of_welchs_test():
    from scipy.stats import t, ttest_ind

    X, intervened = screen(0)
    graph = shifts(X, intervened)
    control = X[~intervened.any(axis=1)].astype(np.float64)
    sd = control.std(axis=0, ddof=1)
    for i in range(3):
        group = X[intervened[:, i]].astype(np.float64)
        expected = ttest_ind(group, control, equal_var=False)
        for j in range(4):
            if i == j:
                assert np.isnan(graph.arrays["p_value"][i, i]) and graph.weights[i, i] == 0
                continue
            p_value = 2 * t.sf(abs(expected.statistic[j]), 59)
            assert graph.arrays["p_value"][i, j] == pytest.approx(p_value, rel=1e-6)
            # With Welch's own degrees of freedom it is smaller, but hardly so at 60 rows.
            assert expected.pvalue[j] <= p_value or p_value == 0
            moved = (group[:, j].mean() - control[:, j].mean()) / sd[j]
            assert graph.arrays["shift"][i, j] == pytest.approx(moved)
            assert graph.weights[i, j] == pytest.approx(abs(moved))
            ratio = graph.arrays["shift"][i, j] / graph.arrays["shift_se"][i, j]
            assert ratio == pytest.approx(expected.statistic[j])
    # The untouched variable has no row, hence no effects that could be told.
    assert np.isnan(graph.arrays["shift"][3]).all() and not graph.weights[3].any()


def test_effects_are_total_effects_and_their_sizes_right():
    graph = shifts(*screen(1, n_control=5000, n_each=2000))
    assert graph.adjacency.tolist() == [[0, 1, 1, 0], [0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    # sd of x1 is sqrt(1 + 0.81).
    assert graph.weights[0, 1] == pytest.approx(1.8 / np.sqrt(1.81), abs=0.08)


def test_the_cut_controls_false_discoveries():
    random = np.random.default_rng(2)
    found = 0
    for _ in range(200):
        X = random.standard_normal((60, 4)).astype(np.float32)
        intervened = np.zeros(X.shape, dtype=bool)
        intervened[np.arange(20), np.arange(20) % 4] = True
        found += shifts(X, intervened).adjacency.any()
    # Where nothing moves, every edge is false, so that one run in twenty may have some.
    assert 1 <= found <= 16
    X, intervened = screen(3)
    weak = shifts(X, intervened, false_discovery_rate=1e-300)
    assert weak.adjacency.sum() < shifts(X, intervened).adjacency.sum()


def test_few_rows_have_large_errors_and_a_single_one_none():
    X, intervened = screen(4, n_each=2)
    graph = shifts(X, intervened)
    assert np.nanmax(graph.arrays["shift_se"]) > 0.3
    X, intervened = screen(5, n_each=1)
    with pytest.raises(MethodFailure, match="no variable is intervened on in two rows or more"):
        shifts(X, intervened)
    X, intervened = np.concatenate([X, X[-1:]]), np.concatenate([intervened, intervened[-1:]])
    graph = shifts(X, intervened)
    assert graph.diagnostics["variables_with_one_row"] == 2
    assert not graph.weights[:2].any() and graph.weights[2].any()


def test_what_is_constant_in_the_controls_is_not_tested():
    X, intervened = screen(6)
    X[~intervened.any(axis=1), 3] = 0
    graph = shifts(X, intervened)
    assert graph.diagnostics["variables_constant_in_controls"] == 1
    assert not graph.weights[:, 3].any() and np.isfinite(graph.weights).all()


def test_no_controls_is_a_failure():
    X, intervened = screen(7, n_control=1)
    with pytest.raises(MethodFailure, match="1 rows without interventions"):
        shifts(X, intervened)


def test_rows_with_several_targets_count_only_where_there_are_no_others():
    X, intervened = screen(8)
    both = np.zeros((40, 4), dtype=bool)
    both[:, [0, 3]] = True
    shifted = np.full((40, 4), 50, dtype=np.float32)
    shifted += np.random.default_rng(0).standard_normal(shifted.shape).astype(np.float32)
    with_pairs = shifts(np.concatenate([X, shifted]), np.concatenate([intervened, both]))
    alone = shifts(X, intervened)
    np.testing.assert_allclose(with_pairs.arrays["shift"][:3], alone.arrays["shift"][:3])
    # x3 is only ever a target together with x0, whose own value was set.
    assert np.isnan(with_pairs.arrays["shift"][3, 0]) and with_pairs.adjacency[3, 1]


def importances(X, intervened=None, seed=0, **settings):
    settings = {"max_trees": 150, "learning_rate": 0.05, "share_of_parents": 1.0, **settings}
    return fit("tree-importance", X, intervened, seed=seed, names=NAMES, **settings)


def interactions(n=1500):
    random = np.random.default_rng(9)
    X = random.standard_normal((n, 4))
    X[:, 2] = np.sign(X[:, 0]) * np.abs(X[:, 1]) + 0.2 * random.standard_normal(n)
    return X.astype(np.float32)


def test_trees_see_an_interaction_that_no_correlation_shows():
    X = interactions()
    assert abs(np.corrcoef(X[:, 1], X[:, 2])[0, 1]) < 0.1
    graph = importances(X)
    assert graph.adjacency[:, 2].tolist() == [1, 1, 0, 0]
    assert graph.weights[3].max() < 0.1 and graph.weights[:, 3].max() < 0.3
    assert not np.diag(graph.weights).any()


def test_weights_are_explained_variance_in_units_of_an_equal_share():
    from sklearn.ensemble import GradientBoostingRegressor

    X = interactions()
    graph = importances(X, share_of_rows=0.9, max_trees=40)
    state = int(np.random.default_rng(0).integers(2**31, size=4)[2])
    model = GradientBoostingRegressor(
        learning_rate=0.05, n_estimators=40, subsample=0.9, max_features=1.0, random_state=state
    ).fit(X[:, [0, 1, 3]], X[:, 2].astype(np.float64))
    r2 = model.score(X[:, [0, 1, 3]], X[:, 2].astype(np.float64))
    assert graph.diagnostics["trees"][2] == 40
    assert graph.weights[:, 2].sum() == pytest.approx(3 * r2)
    np.testing.assert_allclose(graph.weights[[0, 1, 3], 2], 3 * r2 * model.feature_importances_)


def test_boosting_ends_when_held_out_rows_get_worse_and_repeats_by_seed():
    noise = np.random.default_rng(10).standard_normal((400, 4)).astype(np.float32)
    first, again, other = (importances(noise, seed=s, max_trees=500) for s in (0, 0, 1))
    assert max(first.diagnostics["trees"]) < 200
    np.testing.assert_array_equal(first.weights, again.weights)
    assert (first.weights != other.weights).any()


def test_rows_in_which_the_target_is_set_are_left_out():
    X = interactions()
    intervened = np.zeros(X.shape, dtype=bool)
    intervened[:300, 2] = True
    spoiled = X.copy()
    spoiled[:300, 2] = 1e3
    # As inputs of the other models these rows count; so compare the target's column only.
    np.testing.assert_array_equal(
        importances(spoiled, intervened).weights[:, 2], importances(X, intervened).weights[:, 2]
    )
    intervened[:-9, 2] = True
    with pytest.raises(MethodFailure, match="'c' is left alone in 9 rows, expected 10 or more"):
        importances(X, intervened)


def test_a_constant_target_has_no_parents():
    X = interactions(200)
    X[:, 1] = 3
    assert not importances(X).weights[:, 1].any()
