"""The command line: its commands, and what options share."""

import argparse
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

'sdcd COMMAND --help' describes a command in detail.
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
    from sdcd.cli import fit, methods, predict, progress, results, score, simulate

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

    for module in (simulate, fit, score, predict, progress, methods, results):
        module.add(command)
    return parser
