"""The controllers and loops of DCDI and DCD-FG against traces worked by hand."""

import math

import numpy as np
import pytest
import torch

from sdcd.baselines.dcdi_models.augmented_lagrangian import (
    ORIGINAL,
    PORT,
    AugmentedLagrangian,
    Rows,
    minimise_by_epochs,
    minimise_by_steps,
    split,
)
from sdcd.baselines.dcdi_models.networks import Parameters, RMSprop
from sdcd.errors import InputError, MethodFailure


def lagrangian(rules, dtype=np.float64, regularisation=0.0):
    return AugmentedLagrangian(rules, dtype, regularisation)


# One update, by hand


def test_port_trace():
    """h stays at 2, lambda reg = 0.1 * 3 = 0.3. Every number below is worked by hand.

    start: gamma 0, mu 1e-8, so the penalty is 0.3 + 0 * 2 + 1e-8 * 2^2 / 2 = 0.3 + 2e-8
    """
    L = lagrangian(PORT, regularisation=0.1)
    for nll in (1.0, 2.0):
        assert not L.update()  # fewer than three losses
        L.record(nll, 3.0, 2.0)
    assert L.losses == pytest.approx([1.3 + 2e-8, 2.3 + 2e-8], abs=1e-15)

    # Losses 1.3, 2.3, 3.3: monotone, so the port does not look at the change (0.02 > 0).
    L.record(3.0, 3.0, 2.0)
    assert not L.update()

    # 2.3, 3.3, 2.305 : not monotone, change (2.305 - 2.3) / 100 = 5e-5 < 1e-4.
    # gamma = 0 + 1e-8 * 2 = 2e-8; no earlier update, so mu stays;
    # penalty 0.3 + 2e-8 * 2 + 2e-8 = 0.3 + 6e-8, that is 4e-8 more.
    L.record(2.005, 3.0, 2.0)
    assert L.change() == pytest.approx(5e-5)
    assert L.update()
    assert (L.gamma, L.mu) == (2e-8, 1e-8)
    assert L.losses[-1] == pytest.approx(2.305 + 2e-8 + 4e-8, abs=1e-14)

    # 3.3, 2.305, 2.5: not monotone, change -0.008: falling, not stationary.
    L.record(2.2, 3.0, 2.0)
    assert not L.update()

    # 2.305, 2.5, 2.4: not monotone, change 9.5e-4, not small but positive.
    # gamma = 2e-8 + 1e-8 * 2 = 4e-8; one earlier update: mu still stays.
    L.record(2.1, 3.0, 2.0)
    assert L.update()
    assert (L.gamma, L.mu) == (pytest.approx(4e-8), 1e-8)

    # Third update, h = 2 > 0.9 * 2: now mu doubles, after gamma grew by the old mu.
    # gamma = 4e-8 + 1e-8 * 2 = 6e-8, mu = 2e-8.
    L.record(2.05, 3.0, 2.0)
    L.record(2.1, 3.0, 2.0)
    assert L.update()
    assert (L.gamma, L.mu) == (pytest.approx(6e-8), 2e-8)

    # Fourth update, h = 1.7 <= 0.9 * 2 = 1.8: mu stays; gamma = 6e-8 + 2e-8 * 1.7 = 9.4e-8.
    L.record(2.05, 3.0, 2.0)
    L.record(2.1, 3.0, 1.7)
    assert L.update()
    assert (L.gamma, L.mu) == (pytest.approx(9.4e-8), 2e-8)
    assert L.constraints == [2.0, 2.0, 2.0, 1.7]


def test_original_trace():
    """The reverse pattern, and mu may double one update earlier."""
    L = lagrangian(ORIGINAL)
    for nll in (1.0, 2.0, 1.001):
        L.record(nll, 0.0, 2.0)
    assert not L.update()  # 1, 2, 1.001: not monotone
    L.record(0.9999, 0.0, 2.0)
    L.record(0.9998, 0.0, 2.0)
    # 1.001, 0.9999, 0.9998: monotone, change -0.0012 / 100 = -1.2e-5, stationary.
    assert L.update()
    assert (L.gamma, L.mu) == (2e-8, 1e-8)
    # 0.9999, 0.9998, 0.9: change -0.0999 / 100 = -1e-3: still falling.
    L.record(0.9, 0.0, 2.0)
    assert not L.update()
    # 0.9998, 0.9, 0.8999: change -0.0999 / 100: still falling.
    L.record(0.8999, 0.0, 2.0)
    assert not L.update()
    # 0.9, 0.8999, 0.8998: second update, h has not improved: mu doubles.
    L.record(0.8998, 0.0, 2.0)
    assert L.update()
    assert (L.gamma, L.mu) == (4e-8, 2e-8)


def test_equal_losses_are_not_monotone():
    for rules, updated in ((PORT, True), (ORIGINAL, False)):
        L = lagrangian(rules)
        for _ in range(3):
            L.record(1.0, 0.0, 1.0)
        assert L.update() is updated


def test_shrinking_penalty_is_refused():
    # gamma = -100 (h was negative by rounding), h = 1: gamma h + mu h^2 / 2 falls by
    # 90 when mu = -90 is added to gamma.
    L = lagrangian(PORT)
    L.mu = -90.0
    for _ in range(3):
        L.record(1.0, 0.0, 1.0)
    with pytest.raises(MethodFailure, match="changed the loss by -90") as failure:
        L.update()
    assert failure.value.status == "error"


def test_numbers_keep_the_precision_of_the_parameters():
    L = lagrangian(PORT, np.float32)
    L.mu = np.float32(2e38)
    L.constraints = [np.float32(1e-20)] * 2
    for _ in range(3):
        L.record(1.0, 0.0, 1e-20)
    L.update()
    assert np.isinf(L.mu)
    assert type(L.mu) is type(L.gamma) is type(L.losses[-1]) is np.float32
    with np.errstate(invalid="ignore"):
        assert np.isnan(L.slope(np.float32(0)))


# The loops, on a problem that is nothing but numbers


class Scripted:
    """Validation losses come from a list; gradients are zero; the calls are noted."""

    def __init__(self, losses, h=1.0):
        self.parameters = Parameters({"theta": (2,)}, "float64")
        self.losses, self.h, self.steps = iter(losses), h, []

    def descend(self, rows, order, batch_size, lagrangian, optimiser):
        for first in range(0, len(order), batch_size):
            self.steps.append(rows.x[0, order[first : first + batch_size]].tolist())
            optimiser.step()

    def nll(self, rows, order):
        return next(self.losses)

    def penalties(self):
        return np.float64(0), np.float64(self.h)


def rows(n):
    return Rows(np.arange(n, dtype=np.float64)[None], np.ones((1, n)))


def test_port_loop_asks_the_controller_before_it_notes_the_epoch():
    """One validation batch, so one loss per pass: the sanity check, then epochs 0, 1, 2, ...

    pass    check  0    1    2    3     4
    loss    5.0    4.0  4.5  1.0  4.51  ...
    Epoch 0 sees the check alone. Epoch 2 sees check, 0, 1 = 5, 4, 4.5: not monotone, change
    -0.005: no. Had its own loss been noted, 4, 4.5, 1 would say -0.03: no either. Epoch 4 sees 1,
    2, 3 = 4.5, 1, 4.51: not monotone, change +1e-4 > 0: yes; with its own, 1, 4.51, 6 is monotone.
    """
    problem = Scripted([5.0, 4.0, 4.5, 1.0, 4.51, 6.0], h=2.0)
    L = lagrangian(PORT)
    asked = []

    def feasible(L):
        asked.append(len(L.losses))
        return False

    outcome = minimise_by_epochs(problem, rows(5), rows(1), L, feasible, max_epochs=5, batch_size=2)
    assert (outcome.rounds, outcome.stopped) == (5, "limit")
    assert asked == [1, 3, 5]
    assert L.updates == 1
    # The change is added to the last noted loss, epoch 3's: gamma h = 2e-8 * 2.
    assert L.losses[4] == pytest.approx(4.51 + 2e-8 + 4e-8, abs=1e-14)
    # Rows in the same order in every epoch, the last batch short.
    assert problem.steps == [[0, 1], [2, 3], [4]] * 5


def test_port_loop_stops_after_five_epochs_without_improvement_once_satisfied():
    """`satisfied` is set at the end of epoch 2 and never unset; counting starts with epoch 3.

    epoch   3    4        5    6     7..11
    loss    1.0  0.99995  0.9  0.95  0.8999...
    3: best 1.0; 4: better by 5e-5 only, waits 1; 5: best 0.9; 6: waits 1; 7 to 10: better by less
    than 1e-4, waits 2 to 5: ends after epoch 10, which is 11 epochs.
    """
    losses = [2.0, 3.0, 3.0, 3.0, 1.0, 0.99995, 0.9, 0.95] + [0.89995] * 10
    L = lagrangian(PORT)
    L.mu = 0.0
    outcome = minimise_by_epochs(
        Scripted(losses), rows(2), rows(1), L, lambda L: len(L.losses) == 3, max_epochs=100
    )
    assert (outcome.rounds, outcome.stopped) == (11, "converged")


def test_original_loop_notes_first_and_draws_rows_afresh():
    """Checks at steps 0, 100, 200, ...; the controller at 0, 200, 400 sees the newest loss.

    step    0    100   200     300     400
    loss    1.0  0.99  0.9899  0.9898  0.9897
    200: 1, 0.99, 0.9899 monotone, change -1.01e-4: no. 400: 0.9899, 0.9898, 0.9897: yes.
    """
    problem = Scripted([1.0, 0.99, 0.9899, 0.9898, 0.9897], h=2.0)
    L = lagrangian(ORIGINAL)
    seen = []

    def feasible(L):
        seen.append((len(L.losses), L.updates))
        return False

    minimise_by_steps(
        problem, rows(30), rows(1), L, feasible,
        max_steps=401, batch_size=4, generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    assert seen == [(1, 0), (3, 0), (5, 0)]
    assert L.updates == 1
    assert all(len(set(step)) == 4 for step in problem.steps)
    counts = np.bincount(np.array(problem.steps, int).ravel(), minlength=30)
    assert counts.min() > 0
    expected = 401 * 4 / 30
    assert ((counts - expected) ** 2 / expected).sum() < 29 + 5 * math.sqrt(2 * 29)


def test_original_loop_stops_after_ten_checks_without_a_lower_loss():
    # Feasible from step 0; checks at 0 (best), then 1000, ..., 10000 do not improve.
    L = lagrangian(ORIGINAL)
    L.mu = 0.0
    outcome = minimise_by_steps(
        Scripted([1.0] * 200), rows(4), rows(1), L, lambda L: True,
        max_steps=50_000, batch_size=2, generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    assert (outcome.rounds, outcome.stopped) == (10_001, "converged")


def test_parameters_that_are_not_finite_end_the_run():
    problem = Scripted([1.0] * 10)
    problem.parameters.flat_gradient[0] = math.nan
    with pytest.raises(MethodFailure, match="not finite in epoch 0") as failure:
        minimise_by_epochs(
            problem, rows(2), rows(1), lagrangian(PORT), lambda L: False, max_epochs=2
        )
    assert failure.value.status == "nan"


# Shared pieces


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rmsprop_is_torchs(dtype):
    rng = np.random.default_rng(0)
    ours = Parameters({"a": (3, 4), "b": (5,)}, dtype)
    ours.flat[:] = rng.standard_normal(17)
    theirs = torch.from_numpy(ours.flat.copy()).requires_grad_()
    optimiser = RMSprop(ours, 1e-3)
    reference = torch.optim.RMSprop([theirs], lr=1e-3, alpha=0.99, eps=1e-8)
    for step in range(20):
        if step == 10:
            optimiser.restart()
            reference = torch.optim.RMSprop([theirs], lr=1e-3, alpha=0.99, eps=1e-8)
        ours.flat_gradient[:] = rng.standard_normal(17)
        theirs.grad = torch.from_numpy(ours.flat_gradient.copy())
        optimiser.step()
        reference.step()
    np.testing.assert_allclose(ours.flat, theirs.detach(), rtol=1e-6, atol=1e-7)
    assert ours.values["b"].tolist() == ours.flat[12:].tolist()


def test_split_is_80_to_20_without_repetition():
    X = np.arange(50, dtype=np.float32).reshape(25, 2)
    intervened = np.zeros((25, 2), bool)
    intervened[7, 1] = True
    train, validation = split(X, intervened, "float64", torch.Generator().manual_seed(0))
    assert train.x.shape == (2, 20)
    assert validation.x.shape == (2, 5)
    together = np.concatenate([train.x, validation.x], 1)
    assert sorted(together[0].tolist()) == X[:, 0].tolist()
    assert (together[1] == together[0] + 1).all()
    observed = np.concatenate([train.observed, validation.observed], 1)
    assert observed.sum() == 49
    assert together[1, observed[1] == 0].tolist() == [15.0]


@pytest.mark.parametrize("shape", [(10, 1), (4, 3)])
def test_too_little_data_is_an_input_error(shape):
    with pytest.raises(InputError, match="at least 2 variables and 5 rows"):
        split(np.zeros(shape, np.float32), np.zeros(shape, bool), "float32", torch.Generator())
