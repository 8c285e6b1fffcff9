"""Signals that end programs: this one, in good order, and those that it has started."""

import contextlib
import signal
from collections.abc import Iterator

ENDING = (signal.SIGTERM, signal.SIGHUP)
"""What a scheduler sends, and a terminal that is closed. (Ctrl-C is KeyboardInterrupt already.)"""

FROM_OUTSIDE = (
    *("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP"),
    *("SIGQUIT", "SIGXCPU", "SIGUSR1", "SIGUSR2"),
)
"""What people, schedulers and systems end processes with; others are of a program's own making."""


def name_of(number: int) -> str:
    """A signal's name; empty if it is none."""
    return signal.Signals(number).name if number in list(signal.Signals) else ""


class Terminated(BaseException):
    """The program was sent the signal ``number``."""

    def __init__(self, number: int):
        super().__init__(number)
        self.number = number


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Raise :class:`Terminated` inside the block when a signal of :data:`ENDING` comes.

    So children are ended and temporary files go. Further ones are then left unheard, so that this
    is not cut short; one that was ignored before, as under ``nohup``, still is. In another thread
    than the first nothing is changed: whoever runs it deals with signals.
    """

    def terminate(number, frame):
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        raise Terminated(number)

    before = {}
    try:
        for number in ENDING:
            if signal.getsignal(number) != signal.SIG_IGN:
                before[number] = signal.signal(number, terminate)
    except ValueError:
        before = {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
