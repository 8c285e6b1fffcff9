"""Fits to arrays at hand."""

import contextlib
import random
import sys

import numpy as np

from sdcd.methods.registry import method


def fit(name, X, intervened=None, *, seed=0, names=None, **settings):
    """What a method learns; variables are called x0, x1, ... unless they have names."""
    chosen = method(name)
    names = names or tuple(f"x{j}" for j in range(X.shape[1]))
    intervened = np.zeros(X.shape, dtype=bool) if intervened is None else intervened
    return chosen.fit(X, intervened, names, seed, **chosen.parameters(settings))


@contextlib.contextmanager
def generators_untouched():
    """At the end of the block the global generators are where they were."""

    def states():
        torch = sys.modules.get("torch")
        of_torch = torch.get_rng_state().tolist() if torch else []
        return random.getstate(), np.random.get_state()[1].tolist(), of_torch

    before = states()
    yield
    assert states() == before
