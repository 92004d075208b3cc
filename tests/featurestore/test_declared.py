"""Declared against measured classes, by hand."""

import json

import numpy as np
import pyarrow as pa

from featurestore.declared import disagreements, otherwise
from featurestore.profiles import Profiles


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


def test_what_a_workflow_declares_otherwise_stands_beside_the_measured_class():
    """Only measured rows, of the workflow's own cluster, and only the resources that differ."""
    columns = ("cluster", "function", "source", "cpu", "memory", "network", "disk")
    rows = [
        ("c1", "guest/a", "measured", "high", "low", "", "medium"),
        ("c1", "guest/b", "declared", "high", "low", "low", "low"),
        ("c2", "guest/a", "measured", "high", "low", "low", "low"),
    ]
    functions = pa.table({name: [row[at] for row in rows] for at, name in enumerate(columns)})
    profile = {"cpu": "low", "memory": "low", "network": "high", "disk": "high"}
    actions = [{"name": name, "performanceProfile": profile} for name in ("a", "b")]
    document = json.dumps({"namespace": "default", "name": "flow", "actions": actions})
    workflows = pa.table({"cluster": ["c1"], "document": [document]})
    assert otherwise(functions, workflows).to_pylist() == ["cpu low, disk high", "", ""]
