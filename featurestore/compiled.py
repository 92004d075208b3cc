"""Compilation of the hot loops by numba: cached on disk where that is possible, and never a reason to fail."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

from numba import njit

_P = ParamSpec("_P")
_R = TypeVar("_R")


#: Sums may be taken in any order, so that several terms are added at once; nothing else is allowed, NaN least of all.
_ANY_ORDER = {"reassoc", "contract", "nsz"}


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile *function* on first use, without the interpreter's lock, so that nodes can run on several threads.

    The machine code is kept beside the module or in the user's cache; where neither can be written (a read-only
    container) each process compiles for itself.
    """
    return _compiled(function, False)


def summed(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile *function* as `compiled` does, and let its sums be taken in any order: the same on one machine, and
    next to the same on all."""
    return _compiled(function, _ANY_ORDER)


def _compiled(function: Callable[_P, _R], fastmath: bool | set[str]) -> Callable[_P, _R]:
    try:
        return cast(Callable[_P, _R], njit(function, cache=True, nogil=True, fastmath=fastmath))
    except RuntimeError:  # numba's "cannot cache function: no locator available"
        return cast(Callable[_P, _R], njit(function, nogil=True, fastmath=fastmath))
