"""Intents as people post them: the seed's usage example, and short ways to say others."""

from collections.abc import Iterator, Mapping
from typing import Any

import httpx

from rules.hpa import bodies, model
from rules.hpa.model import Consumer

GROUP = "/v2/projects/my-proj1/composite-apps/my-capp1/v1.0/deployment-intent-groups/my-dig1"


def meta(name: str, /, **more: Any) -> dict[str, Any]:
    """A body's metadata."""
    return {"metadata": {"name": name}, "spec": more}


def parents(client: httpx.Client, version: str = "/v2") -> None:
    """Create project p1, composite application ca1 v1 and group dig1."""
    base = f"{version}/projects"
    for path, body in (
        (base, {"metadata": {"name": "p1"}}),
        (f"{base}/p1/composite-apps", meta("ca1", compositeAppVersion="v1")),
        (f"{base}/p1/composite-apps/ca1/v1/deployment-intent-groups", {"metadata": {"name": "dig1"}}),
    ):
        answer = client.post(path, json=body)
        assert answer.status_code == 201, answer.text


def allocatable(name: str, requests: object = None, limits: object = None, **more: Any) -> dict[str, Any]:
    """The spec of a requirement of an allocatable resource, mandatory unless said otherwise."""
    amounts = {key: value for key, value in (("requests", requests), ("limits", limits)) if value is not None}
    return {"mandatory": True, "allocatable": True, "name": name, **amounts, **more}


def label(name: str, value: object, **more: Any) -> dict[str, Any]:
    """The spec of a requirement of a label."""
    return {"mandatory": True, "allocatable": False, "name": name, "value": value, **more}


#: The seed's usage example: (path below the group, YAML body), in its order.
EXAMPLE: tuple[tuple[str, str], ...] = (
    ("hpa-intents", """
metadata:
   name: fwall-hpa-intent
   description: Assign resources to core-fwall and api-server
   userData1: foo
   userData2: bar
spec:
   app: fwall
"""),
    ("hpa-intents/fwall-hpa-intent/hpa-resource-consumers", """
metadata:
   name: core-fwall
   description: core-fwall microservice
spec:
   consumer:
      apiVersion: apps/v1
      kind: StatefulSet
      name: core-fwall
      container-name: palo-alto-e3000
"""),
    ("hpa-intents/fwall-hpa-intent/hpa-resource-consumers", """
metadata:
   name: api-server
   description: api-server microservice
spec:
   consumer:
      apiVersion: apps/v1
      kind: Deployment
      name: api-server
      container-name: nginx
"""),
    ("hpa-intents/fwall-hpa-intent/hpa-resource-consumers/core-fwall/resource-requirements", """
metadata:
   name: core-fwall-cpu-requirement
spec:
   mandatory: true
   allocatable: true
   name: cpu
   requests: 4
   limits: 4
"""),
    ("hpa-intents/fwall-hpa-intent/hpa-resource-consumers/core-fwall/resource-requirements", """
metadata:
   name: core-fwall-RAM-needs
spec:
   mandatory: true
   allocatable: true
   name: memory
   requests: 1000
   limits: 1000
   units: MB
"""),
    ("hpa-intents/fwall-hpa-intent/hpa-resource-consumers/core-fwall/resource-requirements", """
metadata:
   name: core-fwall-gpu-needs
spec:
   mandatory: false
   weight: 9
   allocatable: true
   name: nvidia.com/gpu
   limits: 1
"""),
    ("hpa-intents/fwall-hpa-intent/hpa-resource-consumers/api-server/resource-requirements", """
metadata:
   name: api-server-cpu-needs
spec:
   mandatory: true
   allocatable: true
   name: cpu
   requests: 1
   limits: 2
"""),
    ("hpa-intents/fwall-hpa-intent/hpa-resource-consumers/api-server/resource-requirements", """
metadata:
   name: api-server-ram-needs
spec:
   mandatory: true
   allocatable: true
   name: memory
   requests: 200
   units: MB
"""),
    ("hpa-intents", """
metadata:
   name: analytics-hpa-intent
   description: Assign resources to ai-model and logger
   userData1: foo
   userData2: bar
spec:
   app: analytics
"""),
    ("hpa-intents/analytics-hpa-intent/hpa-resource-consumers", """
metadata:
   name: ai-model
   description: ai-model microservice
spec:
   consumer:
      apiVersion: apps/v1
      kind: StatefulSet
      name: ai-model
      container-name: openvino
"""),
    ("hpa-intents/analytics-hpa-intent/hpa-resource-consumers", """
metadata:
   name: logger
   description: logger microservice
spec:
   consumer:
      apiVersion: apps/v1
      kind: Deployment
      name: logger
      container-name: logger
"""),
    ("hpa-intents/analytics-hpa-intent/hpa-resource-consumers/ai-model/resource-requirements", """
metadata:
   name: ai-model-cpu-requirement
spec:
   mandatory: true
   allocatable: true
   name: cpu
   requests: 2
"""),
    ("hpa-intents/analytics-hpa-intent/hpa-resource-consumers/logger/resource-requirements", """
metadata:
   name: logger-cpu-needs
spec:
   mandatory: true
   allocatable: true
   name: intel.com/qat
   requests: 1
   limits: 1
"""),
)  # fmt: skip


def post_example(client: httpx.Client, version: str = "/v2") -> None:
    """Post the usage example, and the parents that it takes for granted."""
    base = f"{version}/projects"
    group = f"{version}{GROUP.removeprefix('/v2')}"
    made: Mapping[str, Any] = {
        base: {"metadata": {"name": "my-proj1"}},
        f"{base}/my-proj1/composite-apps": meta("my-capp1", compositeAppVersion="v1.0"),
        f"{base}/my-proj1/composite-apps/my-capp1/v1.0/deployment-intent-groups": {"metadata": {"name": "my-dig1"}},
    }
    for path, body in made.items():
        assert client.post(path, json=body).status_code == 201
    for app in ("fwall", "analytics"):
        path = f"{base}/my-proj1/composite-apps/my-capp1/v1.0/apps"
        assert client.post(path, json={"metadata": {"name": app}}).status_code == 201
    for path, text in EXAMPLE:
        answer = client.post(f"{group}/{path}", content=text)
        assert answer.status_code == 201, (path, answer.text)


def example_documents() -> Iterator[str]:
    """The usage example as documents with their paths."""
    for path, text in EXAMPLE:
        yield f"path: {GROUP.removeprefix('/v2/')}/{path}\n{text.lstrip()}"


def consumer(
    *specs: dict[str, Any],
    app: str = "app",
    name: str = "c1",
    kind: str = "Deployment",
    object: str = "web",
    container: str | None = "main",
    where: str = "projects/p/composite-apps/a/v/deployment-intent-groups/g/hpa-intents/i",
    **more: Any,
) -> Consumer:
    """A consumer with requirements r0, r1, ... of these specs, read as the API reads bodies."""
    target = {"kind": kind, "name": object, **({"container-name": container} if container else {}), **more}
    requirements = [
        model.requirement(bodies.requirement(meta(f"r{number}", **spec))) for number, spec in enumerate(specs)
    ]
    return model.consumer(bodies.consumer(meta(name, consumer=target)), app, requirements, where)
