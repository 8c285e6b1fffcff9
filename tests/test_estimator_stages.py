"""The loop over epochs, with an engine that says what it is told to say."""

import math

import numpy as np
import pytest

from sdcd.errors import MethodFailure
from sdcd.estimator.stages import StageProgress, StageRules, acyclic_above, run_stage
from sdcd.estimator.state import Candidates, StageState

CYCLE = Candidates.of_edges(2, np.array([0, 1]), np.array([1, 0]))


class Scripted:
    """Validation losses and weights of the two edges of ``CYCLE``, one entry per check."""

    def __init__(self, losses, weights=None):
        self.losses = losses
        self.weights = weights or [(1.0, 1.0)] * len(losses)
        self.gammas = []
        self.checked_at = []

    def epoch(self, order, gamma):
        assert sorted(order) == [0, 1, 2]
        self.gammas.append(gamma)

    def edge_weights(self):
        return np.array(self.weights[len(self.checked_at)], dtype=np.float32)

    def validation_loss(self):
        self.checked_at.append(len(self.gammas))
        return self.losses[len(self.checked_at) - 1]

    def parameters(self):
        epochs = np.full((2, 1), len(self.gammas), dtype=np.float32)
        one = np.ones(2, dtype=np.float32)
        return StageState(CYCLE, epochs, epochs, epochs, epochs, one, one, {}, {}, 0, one, one)


def run(engine, **rules):
    defaults = {"stage": 1, "epochs": 9, "check_every": 2, "patience": 3, "count_threshold": 0.1}
    progress = StageProgress()
    calls = []
    state = run_stage(
        engine,
        CYCLE,
        StageRules(**{**defaults, **rules}),
        progress,
        lambda: np.array([2, 0, 1]),
        lambda: calls.append(progress.epoch),
    )
    assert calls == list(range(1, progress.epoch + 1))
    return state, progress


STAGE_2 = {"stage": 2, "gamma_increment": 0.5, "freeze_threshold": 0.01, "thaw_threshold": 0.1}


def test_checks_come_after_the_first_epoch_and_every_so_many_later():
    engine = Scripted([5.0, 4, 3, 2, 1])
    _, progress = run(engine)
    assert engine.checked_at == [1, 3, 5, 7, 9]
    assert [record["epoch"] for record in progress.history] == [1, 3, 5, 7, 9]


def test_early_stopping_after_patience_checks_gives_the_best_state():
    state, progress = run(Scripted([5.0, 4.0, 4.0, 4.5, 4.1]))
    assert progress.epoch == 9 and progress.stopped
    assert state.W[0, 0] == 3  # the state after the third epoch, whose loss was 4 first
    assert state.first == {} and state.second == {}


def test_without_early_stopping_the_last_state_is_used_though_an_earlier_was_better():
    state, progress = run(Scripted([5.0, 4.0, 4.5, 4.5, 3.0, 9.0]), epochs=11)
    assert progress.epoch == 11 and not progress.stopped
    assert state.W[0, 0] == 11


def test_gamma_is_the_published_schedule():
    engine = Scripted([1.0] * 200)
    _, progress = run(
        engine, **{**STAGE_2, "gamma_increment": 0.005}, epochs=2000, check_every=20, patience=10
    )
    assert progress.epoch == 2000
    # The published logs' gamma at their last logged epoch, the 1,901st.
    assert engine.gammas[1900] == pytest.approx(9.504752, abs=5e-7)
    np.testing.assert_allclose(engine.gammas, np.linspace(0, 10, 2000), atol=1e-12)


def test_gamma_freezes_below_the_low_threshold_and_thaws_above_the_high_one():
    acyclic, between, cyclic = (1.0, 0.0), (1.0, 0.05), (1.0, 0.2)
    engine = Scripted(
        [1.0] * 9, [acyclic, between, acyclic, between, cyclic, between, *[cyclic] * 3]
    )
    _, progress = run(engine, **STAGE_2, epochs=17)
    # Not at the first check; frozen at the third (after 5 epochs); not thawed by `between`; thawed
    # at the fifth (after 9).
    assert [record["frozen"] for record in progress.history] == [
        *(False, False, True, True),
        *[False] * 5,
    ]
    step = 0.5 * 17 / 16
    expected = [*range(5), *[4] * 4, *range(5, 13)]
    expected[4:9] = [4] * 5
    np.testing.assert_allclose(engine.gammas, step * np.array(expected), atol=1e-12)


def test_stage_2_stops_early_only_while_frozen_and_thawing_resets_the_patience():
    acyclic, cyclic = (1.0, 0.0), (1.0, 0.2)
    script = [cyclic, acyclic, acyclic, cyclic, acyclic, acyclic, acyclic, acyclic]
    losses = [0.1, 1.0, 1.5, 0.2, 3.0, 3.5, 3.5, 3.5]
    state, progress = run(Scripted(losses, script), **STAGE_2, epochs=99)
    assert progress.stopped and progress.epoch == 15
    # The losses before the thaw (0.1, 0.2, 1.0) count no more: 3.0, after epoch 9, is the best.
    assert state.W[0, 0] == 9


@pytest.mark.parametrize(("loss", "weight"), [(math.nan, 1.0), (math.inf, 1.0), (1.0, math.nan)])
def test_a_number_that_is_not_finite_is_a_failure_with_its_place(loss, weight):
    with pytest.raises(MethodFailure, match="stage 1, epoch 3, gamma 0: validation loss") as caught:
        run(Scripted([1.0, loss], [(1.0, 1.0), (1.0, weight)]))
    assert caught.value.status == "nan"


def test_acyclic_above_is_strict():
    weights = np.array([0.5, 0.25], dtype=np.float32)
    assert not acyclic_above(CYCLE, weights, 0.2)
    assert acyclic_above(CYCLE, weights, 0.25)
    assert acyclic_above(CYCLE, weights, 1.0)
