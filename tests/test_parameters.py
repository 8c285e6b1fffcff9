"""What parameters may be: one checker, and a range for every setting of every method."""

import math

import numpy as np
import pytest

from sdcd.errors import InputError
from sdcd.estimator import SDCD
from sdcd.methods.contract import Graph, register
from sdcd.methods.registry import method, methods
from sdcd.parameters import checked, flag, integer, like, number, one_of, optional, text

QUICK = {"epochs_1": 2, "epochs_2": 2, "engine": "model"}


@pytest.mark.parametrize(
    ("kind", "value", "plain"),
    [
        (integer(0), np.int64(3), 3),
        (integer(), np.uint8(3), 3),
        (number(0), np.float32(0.5), 0.5),
        (number(0), np.int32(2), 2),
        (flag(), np.bool_(True), True),
        (text(), np.str_("a"), "a"),
        (optional(integer(1)), None, None),
        (one_of("a", "b"), "b", "b"),
    ],
)
def test_numpy_s_scalars_are_as_good_as_python_s(kind, value, plain):
    found = checked("m", "p", value, kind)
    assert found == plain and type(found) is type(plain)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (integer(0), True, "an integer not below 0"),
        (integer(0), np.bool_(True), "an integer not below 0"),
        (integer(0), -1, "an integer not below 0"),
        (integer(0), 2.0, "an integer not below 0"),
        (integer(1, 5), 6, "an integer not below 1 and not above 5"),
        (number(), math.nan, "a finite number"),
        (number(), -math.inf, "a finite number"),
        (number(), 10**400, "a finite number"),
        (number(), "1", "a finite number"),
        (number(), 1j, "a finite number"),
        (number(), False, "a finite number"),
        (number(above=0, below=1), 1, "a number above 0 and below 1"),
        (flag(), 1, "true or false"),
        (flag(), "yes", "true or false"),
        (one_of("a", "b"), ["a"], "one of a, b"),
        (optional(integer(1)), 0, "none or an integer not below 1"),
        (like([]), {}, "list"),
    ],
)
def test_what_is_refused(kind, value, expected):
    with pytest.raises(InputError) as caught:
        checked("method m", "p", value, kind)
    message = str(caught.value)
    assert message.startswith("method m: p is ") and message.endswith(f", expected {expected}")
    assert "\n" not in message


def test_the_estimator_takes_numpy_s_scalars_and_no_boolean_for_a_number():
    X = np.random.default_rng(0).normal(size=(60, 3))
    given = {"seed": np.int64(0), "hidden": np.int64(4), "alpha_1": np.float32(0.01)}
    plain = {"seed": 0, "hidden": 4, "alpha_1": float(np.float32(0.01))}
    one, other = SDCD(**QUICK, **given).fit(X), SDCD(**QUICK, **plain).fit(X)
    assert one.weights_.tobytes() == other.weights_.tobytes()
    assert one.stage_1_.identity == other.stage_1_.identity
    assert one.get_params()["seed"] is given["seed"]
    for name in ("seed", "alpha_1", "threads", "target_block"):
        with pytest.raises(InputError, match=f"SDCD: {name} is True"):
            SDCD(**QUICK, **{name: True}).fit(X)


OF_ANY_TYPE = {"checkpoint", "knowledge"}


@pytest.mark.parametrize("name", list(methods()))
def test_every_setting_of_every_method_has_a_range(name):
    chosen = method(name)
    assert set(chosen.ranges) == set(chosen.defaults)
    for key, default in chosen.defaults.items():
        # What the default's type alone would allow is not enough for a number.
        if isinstance(default, int | float) and not isinstance(default, bool):
            for wrong in (min(-1, default - 1), math.nan, math.inf, True, "1", None):
                with pytest.raises(InputError, match=f"method .*: parameter {key!r} is "):
                    chosen.parameters({key: wrong})
        elif key not in OF_ANY_TYPE:
            with pytest.raises(InputError, match=f"parameter {key!r} is "):
                chosen.parameters({key: object()})


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("NOBEARS", "rounds", 0),
        ("DCDI-G", "hidden", 0),
        ("DCD-FG", "modules", 0),
        ("NOTEARS", "lambda_1", -5),
        ("sortnregress", "threshold", math.nan),
        ("NOTEARS", "threshold", math.inf),
        ("SCORE", "p_value", 1.0),
        ("DCDI-DSF", "controller", "other"),
        ("SDCD", "penalty", "none"),
        ("GIES+prune", "prune_scored_fraction", 1),
    ],
)
def test_values_that_once_went_unchecked(name, key, value):
    with pytest.raises(InputError, match=f"method .*: parameter {key!r} is "):
        method(name).parameters({key: value})


def test_the_nearest_name_is_said():
    with pytest.raises(InputError, match=r"unknown method 'sdcd' \(did you mean 'SDCD'\?\)"):
        method("sdcd")
    with pytest.raises(InputError, match=r"'aplha_1' \(did you mean 'alpha_1'\?\)"):
        method("SDCD").parameters({"aplha_1": 1})
    with pytest.raises(InputError, match=r"'epoch_1' \(did you mean 'epochs_1'\?\)"):
        SDCD().set_params(epoch_1=1)


@pytest.mark.parametrize(
    "ranges", [{"b": number()}, {"a": integer(2)}], ids=["of no parameter", "not of the default"]
)
def test_a_range_that_cannot_be_right_is_refused_when_it_is_registered(ranges):
    with pytest.raises(ValueError, match=r"ranges of no parameters|default of 'a'"):

        @register(name="wrong", data="observational", defaults={"a": 1}, source="", ranges=ranges)
        def fit(X, intervened, names, seed, *, a):
            return Graph(np.zeros((2, 2)))

    assert "wrong" not in methods()
