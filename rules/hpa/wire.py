"""The fields of the intent API's bodies, in their one spelling: types to decode by, and to describe the API with."""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

NAME_PATTERN: Final = "^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
REPLICAS: Final = 2**31 - 1

Name = Annotated[str, Meta(extra_json_schema={"pattern": NAME_PATTERN, "maxLength": 128})]
_Text = Annotated[str, Meta(extra_json_schema={"maxLength": 512})]
Quantity = Annotated[int | float | str, Meta(extra_json_schema={"examples": [4, 0.5, "500m", "2Gi"]})]


class Metadata(Struct, omit_defaults=True, forbid_unknown_fields=True, rename="camel"):
    """Who an item is."""

    name: Name
    description: Annotated[str, Meta(extra_json_schema={"maxLength": 1024})] | None = None
    user_data1: _Text | None = None
    user_data2: _Text | None = None


class Parent(Struct, omit_defaults=True):
    """A project, an application or a cluster: only its name counts, what else it says is kept."""

    metadata: Metadata
    spec: dict[str, Any] | None = None


class CompositeAppSpec(Struct):
    """A composite application has a version, which is part of its path."""

    version: Annotated[Name, Meta(description="also spelled version")] = msgspec.field(name="compositeAppVersion")


class CompositeApp(Struct):
    """A composite application."""

    metadata: Metadata
    spec: CompositeAppSpec


class Placement(Struct, omit_defaults=True, forbid_unknown_fields=True, rename="camel"):
    """On which clusters: on one of *anyOf*, or on *allOf* of them."""

    any_of: list[str] | None = None
    all_of: list[str] | None = None


class GroupSpec(Struct, omit_defaults=True):
    """A group says where its applications may go; without *placement* on one of all clusters."""

    placement: Placement | None = None


class Group(Struct, omit_defaults=True):
    """A deployment intent group; further fields of its spec are kept."""

    metadata: Metadata
    spec: GroupSpec | None = None


class IntentSpec(Struct, forbid_unknown_fields=True, rename="camel"):
    """Which application the intent is for; also spelled app and app-name."""

    app_name: Name


class Intent(Struct, forbid_unknown_fields=True):
    """What one application needs of the hardware: the parent of its resource consumers."""

    metadata: Metadata
    spec: IntentSpec


class Object(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A Kubernetes object with pods, and one container of them."""

    name: str
    kind: str | None = None
    api_version: str | None = msgspec.field(name="apiVersion", default=None)
    container: Annotated[str, Meta(description="also spelled container and containerName")] | None = msgspec.field(
        name="container-name", default=None
    )
    namespace: Annotated[str, Meta(description="default: default")] | None = None
    replicas: Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": REPLICAS})] | None = None


class ConsumerSpec(Struct, forbid_unknown_fields=True):
    """The consumer; its fields may also stand in the spec itself."""

    consumer: Object


class Consumer(Struct, forbid_unknown_fields=True):
    """Whoever needs the resources: the parent of their requirements."""

    metadata: Metadata
    spec: ConsumerSpec


class RequirementSpec(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """One resource: *requests*, *limits* and *units* of an allocatable one, the *value* of a label otherwise.

    The fields from *name* on may also stand under ``resource``, and the name of a label may be called ``key``.
    """

    allocatable: bool
    name: str
    mandatory: bool | None = None
    weight: Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": 10})] | None = None
    requests: Quantity | None = None
    limits: Quantity | None = None
    units: Annotated[str, Meta(examples=["MB", "Mi"])] | None = None
    value: str | None = None


class Requirement(Struct, forbid_unknown_fields=True):
    """One resource that a consumer needs, or would like."""

    metadata: Metadata
    spec: RequirementSpec
