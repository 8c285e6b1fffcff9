"""The command line: its commands, and what options share."""

import argparse
import json
import math
import textwrap

import sdcd
from sdcd.errors import InputError
from sdcd.parameters import closest

_EPILOG = """\
examples:
  sdcd simulate --d 20 --s 4 --seed 3 -o data.npz
  sdcd fit data.npz --method SDCD -o fit.npz
  sdcd score fit.npz --truth data.npz
  sdcd methods

'sdcd COMMAND --help' says more.
"""


class Parser(argparse.ArgumentParser):
    """Says what is wrong as an :class:`InputError`, with the nearest known word."""

    def error(self, message: str):
        """Raise instead of exiting."""
        raise InputError(f"{message} (see {self.prog} --help)")

    def refuse_unknown(self, arguments: list[str]) -> None:
        """Refuse arguments that no option takes."""
        options = [option for action in self._actions for option in action.option_strings]
        word = arguments[0].partition("=")[0]
        hint = closest(word, options) if word.startswith("-") else ""
        self.error(f"unrecognized arguments: {' '.join(arguments)}{hint}")

    def _check_value(self, action, value):
        if action.choices is not None and value not in action.choices:
            known = ", ".join(map(str, action.choices))
            raise argparse.ArgumentError(
                action,
                f"invalid choice: {value!r}{closest(value, action.choices)} (known: {known})",
            )


def make_parser() -> Parser:
    """The parser of the whole command line; each command sets ``run`` and ``parser``."""
    from sdcd.cli import fit, methods, progress, results, score, simulate

    parser = Parser(
        prog="sdcd",
        description="Stable Differentiable Causal Discovery and the methods it is compared with.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"sdcd {sdcd.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)

    def command(name: str, run, description: str, epilog: str = "") -> Parser:
        added = commands.add_parser(
            name,
            help=description,
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            epilog=textwrap.dedent(epilog),
        )
        added.set_defaults(run=run, parser=added)
        return added

    for module in (simulate, fit, score, progress, methods, results):
        module.add(command)
    return parser


# Types of options


def setting(text: str) -> tuple[str, object]:
    """``KEY=VALUE``, the value as JSON or else as text."""
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise argparse.ArgumentTypeError(f"{text!r}, expected key=value")
    try:
        return key, json.loads(value)
    except (json.JSONDecodeError, RecursionError):
        return key, value


def positive(text: str) -> float:
    """A finite number above zero."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r}, expected a positive number")
    return number


def count(text: str) -> int:
    """An integer above zero."""
    return _integer(text, 1, "a positive integer")


def natural(text: str) -> int:
    """An integer not below zero."""
    return _integer(text, 0, "an integer not below 0")


def share(text: str) -> float:
    """A number between zero and one, neither included."""
    number = positive(text)
    if number >= 1:
        raise argparse.ArgumentTypeError(f"{text!r}, expected a number between 0 and 1")
    return number


def _integer(text: str, least: int, expected: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise argparse.ArgumentTypeError(f"{text!r}, expected {expected}")
    return number
