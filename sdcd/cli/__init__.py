"""The ``sdcd`` command: :func:`main`, and one module for each command or group of them.

Exit codes: 0 success; 2 wrong input, said in one line on standard error, nothing written; 3 the fit
failed, its record is kept; 4 the system would not (a full disk, no permission, no memory), or the
fit's process was killed by somebody else, in one line that says which outputs are there; 129, 130
and 143 interrupted: a fit that was complete stays.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Sequence

from sdcd.cli._files import Outputs, StandardOutputError
from sdcd.errors import FitKilled, InputError
from sdcd.signals import Terminated, terminable

__all__ = ["EXIT_FAILED_FIT", "EXIT_INPUT", "EXIT_SYSTEM", "main"]

EXIT_INPUT = 2
EXIT_FAILED_FIT = 3
EXIT_SYSTEM = 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    outputs = Outputs()
    _fill_standard_streams()
    try:
        with terminable():
            # Here, so that whoever interrupts what takes long to import gets a line.
            from sdcd.cli._parser import make_parser

            parser = make_parser()
            options, rest = parser.parse_known_args(arguments)
            if rest:
                options.parser.refuse_unknown(rest)
            return options.run(options, outputs)
    except InputError as error:
        _last_words(f"error: {error}")
        return EXIT_INPUT
    except FitKilled as error:
        _last_words(f"error: {error}{outputs.in_words()}")
        return EXIT_SYSTEM
    except KeyboardInterrupt:
        return _interrupted()
    except RuntimeError as error:
        # So Python 3.11 hands on what interrupts it while it makes a class.
        if isinstance(error.__cause__, KeyboardInterrupt):
            return _interrupted()
        # And so torch says that memory ran out.
        if "can't allocate memory" not in str(error):
            raise
        _last_words(f"error: memory ran out{outputs.in_words()}")
        return EXIT_SYSTEM
    except Terminated as end:
        _last_words("terminated")
        return 128 + end.number
    except BrokenPipeError:
        _close_standard_output()
        return 128 + signal.SIGPIPE
    except StandardOutputError as error:
        _close_standard_output()
        _last_words(f"error: standard output: {error}{outputs.in_words()}")
        return EXIT_SYSTEM
    except MemoryError:
        _last_words(f"error: memory ran out{outputs.in_words()}")
        return EXIT_SYSTEM
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _last_words(f"error: {where}{error.strerror or error}{outputs.in_words()}")
        return EXIT_SYSTEM


def _fill_standard_streams() -> None:
    """Where one is closed, the first file that is opened would take its place, and its text."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            # Fits are processes that get it too.
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def _interrupted() -> int:
    _last_words("interrupted")
    return 128 + signal.SIGINT


def _last_words(text: str) -> None:
    with contextlib.suppress(OSError):
        print(f"sdcd: {' '.join(text.split())}", file=sys.stderr, flush=True)


def _close_standard_output() -> None:
    # Keep Python from flushing into it once more at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
