"""The computation and the drawing of the asymptotics figure."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from support.fits import generators_untouched

from sdcd.acyclicity import CONSTRAINTS, spectral_radius
from sdcd.errors import InputError
from sdcd.figures.constraint_asymptotics import CONSTRAINT_COLORS, draw
from sdcd.studies.constraint_asymptotics import constraint_asymptotics

SMALL = {"d": 6, "scale_points": 15, "max_d": 60, "dimension_points": 12, "draws": 4}


@pytest.fixture(scope="module")
def table():
    return pd.DataFrame(constraint_asymptotics(**SMALL))


def curve(table, panel, family, constraint):
    chosen = (
        (table["panel"] == panel)
        & (table["family"] == family)
        & (table["constraint"] == constraint)
    )
    return table[chosen].reset_index(drop=True)


def draws(d, number, seed=0):
    rng = np.random.default_rng([seed, d])
    return [rng.uniform(size=(d, d)) for _ in range(number)]


def test_every_curve_is_there(table):
    assert list(table) == [
        *("panel", "family", "constraint", "d", "epsilon", "x"),
        *("value", "escaped", "domain_escape_at"),
    ]
    sizes = table.groupby(["panel", "family", "constraint"]).size()
    assert len(sizes) == 2 * 2 * 5
    scale = curve(table, "scale", "cycle", "h_exp")
    np.testing.assert_allclose(scale["x"], np.linspace(0, 0.7, 15))
    assert (scale["d"] == 6).all()
    dimension = curve(table, "dimension", "noise", "h_exp")
    assert dimension["x"].iloc[[0, -1]].tolist() == [2, 60]
    assert (dimension["epsilon"] == 0.5).all()
    ratios = dimension["x"].to_numpy()[1:] / dimension["x"].to_numpy()[:-1]
    assert ratios[-6:] == pytest.approx(30 ** (1 / 11), rel=0.1)


def test_cycles_of_half_the_nodes(table):
    for panel in ("scale", "dimension"):
        log = curve(table, panel, "cycle", "h_log")
        length = log["d"] // 2
        np.testing.assert_allclose(log["value"], -np.log1p(-(log["epsilon"] ** length)), rtol=1e-12)
        rho = curve(table, panel, "cycle", "h_rho")
        np.testing.assert_allclose(rho["value"], rho["epsilon"], rtol=1e-12)
    assert not table[table["family"] == "cycle"]["escaped"].any()


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_noise_is_the_mean_over_the_draws(table, name):
    for panel in ("scale", "dimension"):
        noise = curve(table, panel, "noise", name)
        for row in noise[~noise["escaped"]].itertuples():
            expected = np.mean([CONSTRAINTS[name].value(row.epsilon * U) for U in draws(row.d, 4)])
            assert row.value == pytest.approx(expected, rel=1e-9)


def test_a_curve_ends_when_the_first_draw_leaves_the_domain(table):
    radii = [spectral_radius(U) for U in draws(6, 4)]
    assert len(set(np.round(radii, 3))) == 4
    for name in ("h_log", "h_inv"):
        noise = curve(table, "scale", "noise", name)
        assert noise["domain_escape_at"].unique() == pytest.approx([1 / max(radii)])
        assert (noise["escaped"] == (noise["x"] >= 1 / max(radii))).all()
        assert (noise["value"].isna() == noise["escaped"]).all()
        noise = curve(table, "dimension", "noise", name)
        outside = [max(spectral_radius(U / 2) for U in draws(d, 4)) >= 1 for d in noise["d"]]
        assert noise["escaped"].tolist() == outside
        assert noise["domain_escape_at"].unique() == noise["x"][outside].min()
    for name in ("h_exp", "h_binom", "h_rho"):
        noise = table[table["constraint"] == name]
        assert not noise["escaped"].any()
        assert noise["domain_escape_at"].isna().all()


def test_seeded_and_nothing_else(table):
    with generators_untouched():
        again = pd.DataFrame(constraint_asymptotics(**SMALL))
    pd.testing.assert_frame_equal(table, again, check_exact=True)
    other = pd.DataFrame(constraint_asymptotics(**SMALL, seed=1))
    assert not table["value"].equals(other["value"])
    cycles = table["family"] == "cycle"
    assert table["value"][cycles].equals(other["value"][cycles])


def test_large_graphs_overflow_to_inf():
    records = constraint_asymptotics(
        constraints=["h_binom"], scale_points=2, max_d=300, dimension_points=3, draws=1
    )
    last = records[-1]
    assert (last["d"], last["family"], last["value"]) == (300, "noise", np.inf)


def test_bad_sizes_are_refused():
    with pytest.raises(InputError, match="dimension_points is 1"):
        constraint_asymptotics(dimension_points=1)
    with pytest.raises(InputError, match="max_d is 1"):
        constraint_asymptotics(max_d=1)


def test_figure(table):
    figure = draw(table)
    left, right = figure.axes
    for axes in (left, right):
        assert axes.get_yscale() == "log"
        assert axes.get_ylim() == (1e-16, 1e16)
        assert len(axes.lines) == 10
        styles = {(to_hex(line.get_color()), line.get_linestyle()) for line in axes.lines}
        assert len(styles) == 10
        # h_log and h_inv leave their domain on noise, and nowhere else.
        dotted = {to_hex(c) for lines in axes.collections for c in lines.get_colors()}
        assert dotted == {CONSTRAINT_COLORS[n].lower() for n in ("h_log", "h_inv")}
    for axes, panel in ((left, "scale"), (right, "dimension")):
        drawn = {(to_hex(x.get_color()), x.get_linestyle()): x.get_xydata() for x in axes.lines}
        for name, color in CONSTRAINT_COLORS.items():
            for family, line in (("cycle", "-"), ("noise", "--")):
                if not len(expected := curve(table, panel, family, name)):
                    continue
                inside = expected[~expected["escaped"] & (expected["value"] > 0)]
                points = inside.sort_values("x")[["x", "value"]].clip(upper=1e32)
                np.testing.assert_array_equal(drawn[color.lower(), line], points)
    escape = curve(table, "scale", "noise", "h_log")["domain_escape_at"][0]
    for lines in left.collections:
        (segment,) = lines.get_segments()
        assert (segment[:, 0] == escape).all()
        assert segment[1, 1] == 1e16
    assert right.get_xscale() == "log"
    assert left.get_xscale() == "linear"
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()][-1] == "leaves its domain"
    # The same from a table that was written and read again.
    assert len(draw(table).axes) == 2
