"""Functions compiled by numba, also where nothing may be written."""

from collections.abc import Callable


def compiled(**options) -> Callable[[Callable], Callable]:
    """Decorate a function that :func:`numba.njit` compiles; kept on disk where that is possible.

    numba keeps compiled code beside the source file or in the user's cache folder, and refuses to
    decorate if it may write neither, as in a read-only installation without a home. Then the
    function is compiled anew by each process.

    Parameters
    ----------
    **options
        Of :func:`numba.njit`, without ``cache``.
    """
    from numba import njit

    def decorate(function: Callable) -> Callable:
        try:
            return njit(cache=True, **options)(function)
        except RuntimeError:  # numba: "cannot cache function: no locator available"
            return njit(**options)(function)

    return decorate
