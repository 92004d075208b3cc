"""The plain arrays that kernels take, and the moment that stands for an end that a run has not. Needs no compiler."""

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Codes: TypeAlias = npt.NDArray[np.int32]
Counts: TypeAlias = npt.NDArray[np.uint16]
Floats: TypeAlias = npt.NDArray[np.float64]

#: The end of a run that has none.
OPEN: Final = int(np.iinfo(np.int64).max)
