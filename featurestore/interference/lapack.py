"""BLAS and LAPACK for compiled loops: scipy's own, called without the interpreter and so without its lock.

numba's wrappers copy and raise; those of scipy hold the lock, so that victims in threads would wait for each other.
The routines are found by names that are the same in each process, so that machine code that calls them can be kept.
Matrices are rows of C order: what is an upper triangle here is a lower one for Fortran.
"""

from collections.abc import Callable
from typing import cast

import numpy as np
from llvmlite import binding
from numba import types
from numba.extending import get_cython_function_address

from featurestore.compiled import compiled
from featurestore.interference.evidence import Floats

_pointer = cast(Callable[[object], object], types.CPointer)
_D, _I, _C = _pointer(types.float64), _pointer(types.int32), _pointer(types.uint8)


def _outside(library: str, name: str, *arguments: object) -> Callable[..., None]:
    """Return what calls a routine of scipy's *library* from compiled code."""
    own = f"colocate_{name}"
    binding.add_symbol(own, get_cython_function_address(f"scipy.linalg.cython_{library}", name))
    return cast(Callable[..., None], types.ExternalFunction(own, types.void(*arguments)))


_syrk = _outside("blas", "dsyrk", _C, _C, _I, _I, _D, _D, _I, _D, _D, _I)
_trmm = _outside("blas", "dtrmm", _C, _C, _C, _C, _I, _I, _D, _D, _I, _D, _I)
_potrf = _outside("lapack", "dpotrf", _C, _I, _D, _I, _I)
#: Letters that say which side, triangle and form are meant.
_L, _R, _U, _N = ord("L"), ord("R"), ord("U"), ord("N")
#: Triangles of so many rows stay in the processor's cache.
_ROWS = 48


@compiled
def add_square(rows: Floats, to: Floats) -> None:
    """Add the products of the columns of *rows* [n, d] to the lower triangle of *to* [d, d]."""
    n, d = rows.shape
    if n == 0 or d == 0:
        return
    size, one, how = np.array([d, n], np.int32), np.ones(1), np.array([_U, _N], np.uint8)
    _syrk(
        how.ctypes,
        how[1:].ctypes,
        size.ctypes,
        size[1:].ctypes,
        one.ctypes,
        rows.ctypes,
        size.ctypes,
        one.ctypes,
        to.ctypes,
        size.ctypes,
    )


@compiled
def factored(upper: Floats) -> bool:
    """Put the Cholesky factor in place of the upper triangle of *upper* [p, p]; return whether there is one."""
    p = len(upper)
    if p == 0:
        return True
    size, failed, how = np.array([p], np.int32), np.zeros(1, np.int32), np.array([_L], np.uint8)
    _potrf(how.ctypes, size.ctypes, upper.ctypes, size.ctypes, failed.ctypes)
    if failed[0] != 0:
        return False
    return bool((np.diag(upper) > 0).all())  # what is no number passes without a word


@compiled
def invert(upper: Floats) -> None:
    """Put the inverse of an *upper* triangle [p, p] in its place; what is below is not looked at, but for some rows
    at the diagonal, where it becomes zero."""
    p = len(upper)
    values = upper.reshape(p * p)
    for low in range(0, p, _ROWS):
        high = min(low + _ROWS, p)
        own = upper[low:high, low:high].copy()
        invert_small(own)
        if low:  # the columns above: those rows' inverse, times them, times this inverse
            _times(_R, high - low, low, -1.0, values, p, values[low:], p)
            _times(_L, high - low, low, 1.0, own.reshape(own.size), high - low, values[low:], p)
        upper[low:high, low:high] = own


@compiled
def _times(side: int, rows: int, columns: int, by: float, triangle: Floats, step: int, to: Floats, each: int) -> None:
    """Multiply *to*, by Fortran's count of so many *rows* and *columns*, by a lower *triangle* from the *side*."""
    how = np.array([side, _L, _N, _N], np.uint8)
    size, one = np.array([rows, columns, step, each], np.int32), np.full(1, by)
    _trmm(
        how.ctypes,
        how[1:].ctypes,
        how[2:].ctypes,
        how[3:].ctypes,
        size.ctypes,
        size[1:].ctypes,
        one.ctypes,
        triangle.ctypes,
        size[2:].ctypes,
        to.ctypes,
        size[3:].ctypes,
    )


@compiled
def invert_small(upper: Floats) -> None:
    """As `invert`, by loops that become vector instructions: of few rows the calls would take longer."""
    p = len(upper)
    own = np.empty(p)
    for row in range(p - 1, -1, -1):
        for at in range(row, p):
            own[at] = upper[row, at]
            upper[row, at] = 0.0
        upper[row, row] = 1.0
        k = row + 1
        while k < p and (p - k) % 4:
            for at in range(k, p):
                upper[row, at] -= own[k] * upper[k, at]
            k += 1
        while k < p:
            a, b, c, d = own[k], own[k + 1], own[k + 2], own[k + 3]
            upper[row, k] -= a * upper[k, k]
            upper[row, k + 1] -= a * upper[k, k + 1] + b * upper[k + 1, k + 1]
            upper[row, k + 2] -= a * upper[k, k + 2] + b * upper[k + 1, k + 2] + c * upper[k + 2, k + 2]
            for at in range(k + 3, p):
                upper[row, at] -= (
                    a * upper[k, at] + b * upper[k + 1, at] + c * upper[k + 2, at] + d * upper[k + 3, at]
                )
            k += 4
        a = 1.0 / own[row]
        for at in range(row, p):
            upper[row, at] *= a
        for at in range(row):
            upper[row, at] = 0.0
