"""One answer for one manifest, outside the service: what ``recommend`` and the demo share."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import uuid4

from featurestore.snapshot import Snapshot
from jobs.asking import Beside
from jobs.disks import layout
from jobs.disks.files import Wanted
from jobs.manifests import Manifest
from pipeline import objects
from rules.disks.volumes import Volumes
from rules.hosts.podrules import HostRules
from rules.policy import Policy
from rules.recommend import Recommendation, recommend
from rules.request import from_pod
from rules.view import prepare


@dataclass(frozen=True, slots=True)
class Answer:
    """What was recommended for *manifest*."""

    manifest: Manifest
    recommendation: Recommendation

    def ranked(self) -> Iterator[dict[str, object]]:
        """Yield the ranked nodes as rows: pod, node, score, reasons in one text."""
        for node in self.recommendation.nodes:
            reasons = "; ".join(node.reasons)
            yield {"pod": self.manifest.name, "node": node.name, "score": node.score, "reasons": reasons}


def answer(
    given: Manifest | Wanted,
    snapshot: Snapshot,
    policy: Policy,
    *,
    cluster: str,
    namespace: str | None,
    at: datetime,
    hosts: HostRules | None = None,
    symmetric: bool = False,
) -> Answer:
    """Recommend for the pod of *given* from *snapshot*, and *hosts* where it is of a stream job.

    Its volumes are looked for on the disks of *snapshot*, by the claims that stand in its file too; *symmetric* as in
    `rules.disks.plan.plan`. Raises `BadInput` naming the pod's odd field.
    """
    manifest = given.manifest if isinstance(given, Wanted) else given
    record = objects.pod_of(manifest.pod)
    labels, prefix = policy.function_labels, policy.label_prefix
    view = prepare(snapshot, cluster, at, function_labels=labels, label_prefix=prefix, overwritten=policy.overwrites)
    view = replace(view, hosts=hosts or {})
    where = namespace or manifest.namespace
    request = from_pod(manifest.pod, record, view, namespace=where, cluster=cluster, policy=policy)
    if len(snapshot["disks"]):
        volumes = given.pod if isinstance(given, Wanted) else layout.mounting(manifest.pod, where)
        if volumes is not None and volumes.claims:
            disks = layout.of_snapshot(snapshot, cluster, given.beside if isinstance(given, Wanted) else ())
            request = replace(request, disks=Volumes(volumes, disks, symmetric))
    return Answer(manifest, recommend(request, view, policy, decision=str(uuid4()), at=at, ask=Beside()))
