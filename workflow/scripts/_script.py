"""What all scripts share: the package of their own clone, and bad input said in one line."""

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


def run(main: Callable[[], None]) -> None:
    """Run a script; bad input ends it with one line on standard error and exit code 2."""
    from sdcd.errors import InputError

    try:
        main()
    except InputError as error:
        print(f"{Path(sys.argv[0]).name}: {error}", file=sys.stderr)
        sys.exit(2)
