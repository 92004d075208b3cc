"""Compilation of the hot loops by numba: cached on disk where that is possible, and never a reason to fail."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

from numba import njit

_P = ParamSpec("_P")
_R = TypeVar("_R")


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile *function* on first use, without the interpreter's lock, so that nodes can run on several threads.

    The machine code is kept beside the module or in the user's cache; where neither can be written (a read-only
    container) each process compiles for itself.
    """
    try:
        return cast(Callable[_P, _R], njit(function, cache=True, nogil=True))
    except RuntimeError:  # numba's "cannot cache function: no locator available"
        return cast(Callable[_P, _R], njit(function, nogil=True))
