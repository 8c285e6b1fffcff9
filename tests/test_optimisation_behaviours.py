"""The descents behind the figure of optimisation behaviours, and its drawing."""

from io import StringIO
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from sdcd.acyclicity import CONSTRAINTS, spectral_radius
from sdcd.errors import InputError
from sdcd.figures.constraint_asymptotics import CONSTRAINT_COLORS
from sdcd.figures.optimisation_behaviours import FLOOR, draw
from sdcd.graphs import smallest_dag_threshold
from sdcd.studies.optimisation_behaviours import (
    OPTIMISED_CONSTRAINTS,
    optimisation_behaviours,
    optimise,
    oracle,
    target_matrix,
)


def test_target_matrix():
    M = target_matrix()
    assert M.shape == (100, 100)
    assert 0 < M[M > 0].min() < M.max() < 0.05
    assert np.count_nonzero(M) == pytest.approx(3000, abs=150)
    assert spectral_radius(M) == pytest.approx(0.757, abs=1e-3)  # inside every domain
    np.random.seed(5)
    before = np.random.get_state()[1].copy()
    np.testing.assert_array_equal(M, target_matrix())
    assert (np.random.get_state()[1] == before).all()
    assert (target_matrix(seed=1) != M).any()


@pytest.mark.parametrize("name", ["h_exp", "h_log", "h_inv"])
def test_oracles_agree_with_the_constraints(name):
    for M in (
        target_matrix(),
        target_matrix(d=5, density=0.6, scale=2.0),
        np.triu(target_matrix(d=20), 1),
    ):
        value, gradient = CONSTRAINTS[name].value_and_gradient(M)
        fast_value, fast_gradient = oracle(name, len(M))(M)
        assert fast_value == pytest.approx(value, rel=1e-11)
        np.testing.assert_allclose(fast_gradient, gradient, rtol=1e-10, atol=1e-15)


def test_the_spectral_oracle_carries_its_vectors():
    M = target_matrix()
    h = oracle("h_rho", len(M))
    for _ in range(10):
        value, gradient = h(M)
    exact, exact_gradient = CONSTRAINTS["h_rho"].value_and_gradient(M)
    assert value == pytest.approx(exact, rel=1e-3)
    np.testing.assert_allclose(gradient, exact_gradient, atol=1e-4)


@pytest.mark.parametrize("name", ["h_exp", "h_log", "h_inv"])
def test_first_step_by_hand(name):
    M = target_matrix(d=12)
    records = optimise(M, name, "penalty", epochs=1, step=1e-3, weight=10.0)
    value, gradient = CONSTRAINTS[name].value_and_gradient(M)
    A = np.maximum(0, M - 1e-3 * 10 * gradient)  # at A = M the distance has no slope
    first, last = records
    assert (first["epoch"], first["loss"], first["end"]) == (0, 0, "")
    assert first["value"] == pytest.approx(value, rel=1e-11)
    assert first["threshold"] == smallest_dag_threshold(M)
    assert (last["epoch"], last["end"]) == (1, "epochs")
    assert last["loss"] == pytest.approx(((A - M) ** 2).sum(), rel=1e-10)
    assert last["value"] == pytest.approx(CONSTRAINTS[name].value(A), rel=1e-10)
    assert last["threshold"] == pytest.approx(smallest_dag_threshold(A), rel=1e-12)
    assert last["n_edges"] == np.count_nonzero(A)


@pytest.mark.parametrize("mode", ["penalty", "augmented_lagrangian"])
@pytest.mark.parametrize("name", OPTIMISED_CONSTRAINTS)
def test_a_record_every_100_epochs(name, mode):
    records = optimise(target_matrix(d=15), name, mode, epochs=450, stop_threshold=-1.0)
    assert [record["epoch"] for record in records] == [0, 100, 200, 300, 400, 450]
    assert [record["end"] for record in records] == [""] * 5 + ["epochs"]
    assert not any(record["escaped"] for record in records)
    if mode == "penalty":
        assert {record["gamma"] for record in records} == {10.0}
        # The whole loss falls (but for rounding, once at rest).
        whole = [record["loss"] + 10 * record["value"] for record in records]
        if name not in ("h_rho", "h_rho+"):
            assert (np.diff(whole) < 1e-12).all()
    else:
        assert (records[0]["gamma"], records[0]["mu"]) == (0.0, 1.0)


def test_the_hard_mask_keeps_self_loops_out():
    M = 0.5 * np.eye(6)
    M[0, 1] = 0.3
    assert optimise(M, "h_rho", "penalty", epochs=0)[0]["threshold"] == 0.5
    (record,) = optimise(M, "h_rho+", "penalty", epochs=0)
    assert (record["threshold"], record["n_edges"], record["end"]) == (0.0, 1, "dag")


def test_lagrangian_updates_when_at_rest():
    records = optimise(target_matrix(d=12), "h_exp", "augmented_lagrangian", epochs=6000)
    raised = 0
    for before, now in pairwise(records):
        if now["gamma"] == before["gamma"]:
            assert now["mu"] == before["mu"]
            continue
        raised += 1
        assert now["gamma"] == pytest.approx(before["gamma"] + before["mu"] * now["value"])
        slow = now["value"] > 0.9 * before["value"]
        assert now["mu"] == before["mu"] * (2 if slow else 1)
    assert raised >= 3
    assert records[-1]["value"] < records[0]["value"] / 10


def test_lagrangian_waits_until_at_rest():
    never = optimise(target_matrix(d=12), "h_exp", "augmented_lagrangian", epochs=2000, at_rest=0.0)
    assert {record["gamma"] for record in never} == {0.0}
    always = optimise(target_matrix(d=12), "h_exp", "augmented_lagrangian", epochs=500, at_rest=1e9)
    assert all(np.diff([record["gamma"] for record in always]) > 0)


@pytest.mark.parametrize("name", ["h_log", "h_inv"])
def test_a_start_outside_the_domain_is_recorded(name):
    M = target_matrix() * 2
    (record,) = optimise(M, name, "penalty", epochs=1000)
    assert (record["epoch"], record["escaped"], record["end"]) == (0, True, "escape")
    assert record["spectral_radius"] == pytest.approx(spectral_radius(M))
    assert np.isnan(record["value"])
    assert record["threshold"] == smallest_dag_threshold(M)


def test_a_run_that_leaves_the_domain_ends_there():
    # Far below the target, the distance pulls A up, and out of the domain.
    M = 1.4 * np.array([[0.0, 0.5], [0.5, 0.0]])
    records = optimise(M, "h_log", "augmented_lagrangian", epochs=1000, step=3.0)
    assert records[-1]["end"] == "escape"
    assert records[-1]["epoch"] > 0
    assert records[-1]["spectral_radius"] >= 1
    assert [record["escaped"] for record in records[:-1]] == [False] * (len(records) - 1)


def test_at_the_papers_size_only_the_spectral_constraint_gets_there():
    table = pd.DataFrame(optimisation_behaviours(modes=["penalty"], penalty_epochs=1000))
    assert (table.groupby("constraint")["threshold"].first() > 0.045).all()
    last = table.groupby("constraint")[["epoch", "threshold", "end"]].last()
    assert last["end"]["h_rho+"] == "dag"
    assert last["epoch"]["h_rho+"] < 1000
    assert last["threshold"]["h_rho"] < 0.01
    assert (last["threshold"][["h_exp", "h_log", "h_inv"]] > 0.03).all()


def test_deterministic():
    first, second = (
        optimise(target_matrix(d=30), "h_inv", "augmented_lagrangian", epochs=300) for _ in range(2)
    )
    assert first == second or str(first) == str(second)  # NaN differs from itself


def test_unknown_names_are_refused():
    with pytest.raises(InputError, match="constraint is 'h_binom'"):
        optimise(target_matrix(d=5), "h_binom", "penalty", epochs=1)
    with pytest.raises(InputError, match="mode is 'barrier'"):
        optimise(target_matrix(d=5), "h_exp", "barrier", epochs=1)


def test_figure():
    records = optimisation_behaviours(d=20, scale=12.0, penalty_epochs=600, lagrangian_epochs=600)
    # h_log and h_inv start outside their domain here.
    assert {r["constraint"] for r in records if r["escaped"]} == {"h_log", "h_inv"}
    figure = draw(pd.DataFrame(records))
    left, right = figure.axes
    ends = sum(record["end"] in ("dag", "escape") for record in records)
    assert len(left.lines) + len(right.lines) == 10 + ends
    for axes, mode in ((left, "penalty"), (right, "augmented_lagrangian")):
        last = {}
        for name, color in CONSTRAINT_COLORS.items():
            run = [r for r in records if (r["mode"], r["constraint"]) == (mode, name)]
            if not run:
                continue
            points = [(r["epoch"], max(r["threshold"], FLOOR)) for r in run]
            (line,) = (x for x in axes.lines if (x.get_color(), x.get_marker()) == (color, "None"))
            np.testing.assert_allclose(line.get_xydata(), points)
            if run[-1]["end"] in ("dag", "escape"):
                last[color] = ("o" if run[-1]["end"] == "dag" else "x", *points[-1])
        ends = (x for x in axes.lines if x.get_marker() != "None")
        assert {x.get_color(): (x.get_marker(), *x.get_xydata()[0]) for x in ends} == last
    for axes in figure.axes:
        assert axes.get_yscale() == "log"
        assert all((line.get_ydata() >= FLOOR).all() for line in axes.lines)
    (legend,) = figure.legends
    labels = [text.get_text() for text in legend.get_texts()]
    assert "left its domain" in labels
    csv = StringIO(pd.DataFrame(records).to_csv(index=False))
    assert len(draw(pd.read_csv(csv)).axes) == 2
