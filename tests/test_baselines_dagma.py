"""DAGMA runs contained: nothing of what the package changes is left behind."""

import numpy as np
import pytest
import torch

from sdcd.methods.registry import method

SHORT = {"warm_iterations": 300, "last_iterations": 300, "learning_rate": 0.01}


@pytest.fixture(scope="module")
def results():
    random = np.random.default_rng(0)
    a = random.standard_normal(400)
    b = 2 * np.tanh(a) + 0.2 * random.standard_normal(400)
    X = np.stack([a, b], axis=1)
    X = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)
    chosen = method("DAGMA")
    torch.manual_seed(3)
    expected = torch.rand(1).item()
    torch.manual_seed(3)
    fits = [chosen.fit(X, None, None, 0, **chosen.parameters(SHORT)) for _ in range(2)]
    return fits, expected, torch.rand(1).item()


def test_torch_defaults_and_generator_are_left_alone(results):
    _, expected, drawn = results
    assert torch.get_default_dtype() is torch.float32
    assert drawn == expected


def test_deterministic(results):
    (first, second), *_ = results
    np.testing.assert_array_equal(first.weights, second.weights)


def test_finds_that_the_two_are_connected(results):
    (first, _), *_ = results
    assert first.adjacency.sum() == 1
    assert ((first.weights > 0.3) == first.adjacency.astype(bool)).all()
