"""Errors that are meant to be read by the person who caused or can mend them."""


class InputError(ValueError):
    """Bad input: a file, column, row, option or config key that is not as it must be.

    The message is one line. It names the offending thing, what was found there and what is
    expected. The command line prints it alone, without a traceback, and exits with code 2.
    """


class CorruptFile(InputError):
    """A file whose content shows that it is not, or no longer, what it should be.

    Of a file that can be made again, it is safe to say: delete it.
    """


class UnreadableFile(InputError):
    """A file that could not be read, for a reason that says nothing about its content.

    No permission, a fault of the disk or the network, too little memory.
    """


class DataError(InputError):
    """Bad data, found by one who does not know their file's name: who does puts it before."""


class MethodFailure(RuntimeError):
    """A method ended without a graph, for a reason that is itself a result.

    Parameters
    ----------
    status : str
        One of ``FAILURE_STATUSES``.
    reason : str
        One line: what happened, with the numbers that show it.
    """

    def __init__(self, status: str, reason: str):
        if status not in FAILURE_STATUSES:
            raise ValueError(f"unknown failure status {status!r}: one of {FAILURE_STATUSES}")
        # All of the arguments: a copy is made from them.
        super().__init__(status, reason)
        self.status = status
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


FAILURE_STATUSES = ("timeout", "nan", "overflow", "oom", "unavailable", "error")
"""How a fit can fail: the wall-clock limit passed; a loss, parameter or constraint became NaN or
infinite; a constant was not finite at construction; memory ran out; it is impossible here (an
optional dependency or its weights are missing, or the system killed every attempt); anything
else."""


class FitKilled(RuntimeError):
    """The process of a fit was killed by a person or by the system, which says nothing about it."""
