"""What a parameter may be: one checker for methods, the estimator, pruning and the command.

A :class:`Kind` says in words what is expected and gives a value back as plain Python, so that
numpy's scalars are as good as Python's. A boolean is no number, and no number is infinite.
"""

import difflib
import math
import numbers
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from sdcd.errors import InputError


@dataclass(frozen=True)
class Kind:
    """What a parameter may be.

    Attributes
    ----------
    expected : str
        In words, to stand after "expected".
    plain : callable
        Gives a value as plain Python; raises ``ValueError`` if it is not as expected.
    """

    expected: str
    plain: Callable[[object], object]


def integer(least: int | None = None, most: int | None = None) -> Kind:
    """An integer, ``least`` and ``most`` included."""

    def plain(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            raise ValueError
        return int(_within(int(value), least=least, most=most))

    return Kind("an integer" + _limits(least=least, most=most), plain)


def number(
    least: float | None = None,
    most: float | None = None,
    *,
    above: float | None = None,
    below: float | None = None,
) -> Kind:
    """A finite number, ``least`` and ``most`` included, ``above`` and ``below`` not."""

    def plain(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise ValueError
        # An integer stays one: it is written into the record as it was given.
        own = int(value) if isinstance(value, numbers.Integral) else float(value)
        if not math.isfinite(own):
            raise ValueError
        return _within(own, least=least, most=most, above=above, below=below)

    limits = _limits(least=least, most=most, above=above, below=below)
    return Kind(("a number" if limits else "a finite number") + limits, plain)


def flag() -> Kind:
    """True or false, as Python's ``bool`` or numpy's."""

    def plain(value: object) -> bool:
        if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
            return bool(value)
        raise ValueError

    return Kind("true or false", plain)


def text() -> Kind:
    """A string."""

    def plain(value: object) -> str:
        if not isinstance(value, str):
            raise ValueError
        return str(value)

    return Kind("text", plain)


def one_of(*choices: str) -> Kind:
    """One of some words."""

    def plain(value: object) -> str:
        if not isinstance(value, str) or value not in choices:
            raise ValueError
        return str(value)

    return Kind(f"one of {', '.join(choices)}", plain)


def optional(kind: Kind) -> Kind:
    """``None``, or what ``kind`` says."""
    return Kind(
        f"none or {kind.expected}", lambda value: None if value is None else kind.plain(value)
    )


def anything() -> Kind:
    """Whatever it is: looked at elsewhere."""
    return Kind("anything", lambda value: value)


def like(default: object) -> Kind:
    """What a parameter may be of which only the default is known: the same type."""
    if isinstance(default, bool):
        return flag()
    if isinstance(default, int):
        return integer()
    if isinstance(default, float):
        return number()
    if isinstance(default, str):
        return text()
    if default is None:
        return anything()
    kind = type(default)

    def plain(value: object) -> object:
        if not isinstance(value, kind):
            raise ValueError
        return value

    return Kind(kind.__name__, plain)


def checked(whose: str, name: str, value: object, kind: Kind) -> object:
    """A parameter's value as plain Python.

    Parameters
    ----------
    whose : str
        Names what has the parameter, for the message.
    name, value, kind
        The parameter.

    Raises
    ------
    InputError
        If the value is not as ``kind`` says: one line with whose, name, value, what is expected.
    """
    try:
        return kind.plain(value)
    except (ValueError, OverflowError):
        shown = repr(value)
        shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
        shown = " ".join(shown.split())
        raise InputError(f"{whose}: {name} is {shown}, expected {kind.expected}") from None


def known(whose: str, names: Iterable[str], options: Mapping[str, object] | Iterable[str]) -> None:
    """Refuse a name that is not among the options, with the nearest one; :class:`InputError`."""
    options = list(options)
    for name in names:
        if name not in options:
            raise InputError(
                f"{whose}: unknown parameter {name!r}{closest(name, options)} "
                f"(known: {', '.join(options) or 'none'})"
            )


def closest(word: str, options: Iterable[str]) -> str:
    """`` (did you mean 'x'?)`` if one of the options is close, whatever its case, else nothing."""
    by_lower = {str(option).lower(): str(option) for option in options}
    matches = difflib.get_close_matches(str(word).lower(), list(by_lower), n=1)
    return f" (did you mean {by_lower[matches[0]]!r}?)" if matches else ""


def _within(value, *, least=None, most=None, above=None, below=None):
    if (
        (least is not None and value < least)
        or (most is not None and value > most)
        or (above is not None and value <= above)
        or (below is not None and value >= below)
    ):
        raise ValueError
    return value


def _limits(*, least=None, most=None, above=None, below=None) -> str:
    parts = []
    if least is not None:
        parts.append(f"not below {least:g}")
    if above is not None:
        parts.append(f"above {above:g}")
    if most is not None:
        parts.append(f"not above {most:g}")
    if below is not None:
        parts.append(f"below {below:g}")
    return " " + " and ".join(parts) if parts else ""
