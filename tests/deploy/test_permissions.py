"""What the doctor asks for is what the roles give, feature by feature."""

from collections.abc import Iterable
from typing import Any

import pytest

from deploy import rights
from jobs import permissions


def given(rules: Iterable[Any]) -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def asked(*features: str) -> set[tuple[str, str, str]]:
    return {
        (right.group, right.resource, verb)
        for feature in features
        for right in permissions.NEEDS[feature].rights
        for verb in right.verbs
    }


ROLES = {
    ("answering",): rights.ANSWERING,
    ("disks",): rights.DISKS,
    ("disk reservations",): rights.RESERVING,
    ("lease of disk reservations",): rights.LEASES,
    ("host pools",): rights.NODE_CHANGES,
    ("regions",): rights.REGIONS,
    ("region operators",): rights.OPERATORS,
}


@pytest.mark.parametrize("features", ROLES, ids="+".join)
def test_the_doctor_asks_for_each_right_of_the_role(features: tuple[str, ...]) -> None:
    assert asked(*features) == given(ROLES[features])


def test_every_feature_has_a_role() -> None:
    assert {each for features in ROLES for each in features} == set(permissions.NEEDS)
