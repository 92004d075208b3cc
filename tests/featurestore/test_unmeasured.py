"""Declared against measured classes, by hand."""

import numpy as np
import pyarrow as pa

from featurestore.profiles import Profiles
from featurestore.unmeasured import disagreements


def test_a_declared_class_that_is_not_the_measured_one_is_told():
    share = np.array([[0.5, 0.05, np.nan, 0.2], [0.05, 0.05, 0.05, 0.05]])
    nothing = np.full((2, 4), np.nan)
    measured = Profiles(np.array([1, 0]), np.array([-1, -1]), nothing, nothing, nothing, share)
    limits = np.tile([0.1, 1 / 3], (4, 1))
    declared = {"f1": {"cpu": "low", "memory": "low", "network": "high", "disk": "high"}, "f0": {"cpu": "low"}}
    assert disagreements(pa.array(["f0", "f1"]), measured, limits, declared) == [
        {"function": "f1", "resource": "cpu", "declared": "low", "measured": "high"},
        {"function": "f1", "resource": "disk", "declared": "high", "measured": "medium"},
    ]
