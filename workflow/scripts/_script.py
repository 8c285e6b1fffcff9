"""What all scripts share: the package of their own clone, and what went wrong said in one line."""

import contextlib
import errno
import signal
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


def run(main: Callable[[], None], *, advice: str = "") -> None:
    """Run a script; bad input or a full disk ends it with one line on standard error, and 2.

    ``advice`` ends the line about a file whose content proves that it is damaged, and no other. A
    fit whose process was killed ends it with :data:`TRY_AGAIN`.
    """
    from sdcd.errors import CorruptFile, FitKilled, InputError
    from sdcd.signals import Terminated, terminable

    try:
        with terminable():
            main()
    except CorruptFile as error:
        _end(f"{error}{advice}")
    except InputError as error:
        _end(str(error))
    except MemoryError as error:
        _end(f"too little memory ({error})" if str(error) else "too little memory")
    except FitKilled as error:
        _end(str(error), TRY_AGAIN)
    except KeyboardInterrupt:
        _end(INTERRUPTED, 128 + signal.SIGINT)
    except Terminated as end:
        _end(INTERRUPTED, 128 + end.number)
    except OSError as error:
        if not error.filename and error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        where = f" for {error.filename}" if error.filename else ""
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        line = f"{error.strerror}{where}" + ": make room and run snakemake again" * full
        # Standard error goes to a log, which may be on that disk.
        print(f"{Path(sys.argv[0]).name}: {line}", flush=True)
        _end(line)


DELETE_IT = ": delete that file and run snakemake again"
"""Advice where all that a script reads was made by the workflow."""


INTERRUPTED = "interrupted"
"""Last words of a script that Ctrl-C or another signal stopped: nothing is to be mended."""

TRY_AGAIN = 75
"""Exit code of a job that may end well if it is run again."""


def _end(line: str, code: int = 2) -> None:
    with contextlib.suppress(OSError):
        print(f"{Path(sys.argv[0]).name}: {line}", file=sys.stderr, flush=True)
    sys.exit(code)
