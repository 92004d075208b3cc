"""``hosts apply --create``: every check first, then nodes, pools and pods, or nothing and an event that says why."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from featurestore.store.control import Control
from jobs.hosts import changing, hostpools, reading, stored
from jobs.hosts.answering import Answer, answer
from jobs.hosts.changing import Ledger
from pipeline.clients.kubernetes import KubernetesClient
from pipeline.errors import BadInput, SourceError, Temporary
from rules.advice import Json
from rules.hosts import keys
from rules.hosts.model import Job

_TRIES: Final = 5
_LONGEST: Final = 1024


@dataclass(frozen=True, slots=True)
class Submission:
    """A job and its *document*, to be submitted to *cluster* at *at*.

    *limit* bounds the search for a placement; *change_nodes* allows labels and taints of nodes to be changed.
    """

    job: Job
    document: Any
    cluster: str
    at: datetime
    limit: timedelta
    change_nodes: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """What was done: how many pods were *created* and how many nodes *changed*; *warning* where something lacks."""

    answer: Answer
    created: int = 0
    changed: int = 0
    warning: str = ""


def submit(
    client: KubernetesClient, store: Control, given: Submission, pause: Callable[[float], None] = time.sleep
) -> Done:
    """Create what *given* asks for; a refusal leaves an event of the reason SubmissionFailed and nothing else.

    Raises `BadInput` where the job cannot be created as it is, and `Temporary` where nodes do not stop changing.
    """
    _creatable(given.job)
    for tries in range(1, _TRIES + 1):
        seen = reading.live(client)
        before = stored.known(store, given.cluster, given.job)
        found = answer(given.job, seen, given.limit, None if before is None else before.pools)
        if found.plan is None:
            _tell(client, given, found)
            return Done(found)
        try:
            return _created(client, store, given, found, seen)
        except Temporary as error:
            if error.reason != "changed" or tries == _TRIES:
                raise
            pause(0.1 * tries)
    raise AssertionError("unreachable")


def _creatable(job: Job) -> None:
    for number, pe in enumerate(job.pes):
        if not (pe.template.get("spec") or {}).get("containers"):
            raise BadInput(f"job {job.name}: pes[{number}].template.spec.containers: missing, no pod can be created")


def _created(client: KubernetesClient, store: Control, given: Submission, found: Answer, seen: reading.Seen) -> Done:
    assert found.plan is not None
    actions = found.changes(seen)
    if actions and not given.change_nodes:
        names = ", ".join(each.name for each in actions[:5]) + (", ..." if len(actions) > 5 else "")
        raise BadInput(
            f"job {given.job.name}: its pools need labels or taints on {names}: allow it by --change-nodes"
        )
    new = _new_pods(client, given.job, found)
    pools = hostpools.changes(client, found.plan)
    nodes = changing.nodes(client, actions, seen)
    before = stored.get(store, given.cluster, given.job.name)
    storing = stored.change(store, given.cluster, found.plan, given.document, given.at, before)
    Ledger().carry_out([*nodes, *(pools or ()), storing, *(changing.pod(client, each) for each in new)])
    warning = f"the cluster has no kind HostPool: its pools are stored in {store.path} alone"
    return Done(found, len(new), len(actions), warning if pools is None and given.job.pools else "")


def _new_pods(client: KubernetesClient, job: Job, found: Answer) -> list[Json]:
    """Return the pods that are not there yet, those with the fewest nodes to go to first.

    Raises `BadInput` where one is there with other constraints, or is of somebody else.
    """
    assert found.plan is not None
    items = [msgspec.json.decode(raw) for raw in client.list(changing.pods_of(job.namespace)).items]
    there: dict[str, Mapping[str, Any]] = {each["metadata"]["name"]: each for each in items}
    by_pe = dict(zip((pe.id for pe in job.pes), found.pods, strict=True))
    new = []
    for pe in found.plan.order:
        pod = by_pe[pe]
        standing = there.get(pod["metadata"]["name"])
        if standing is None:
            new.append(pod)
        elif (standing["metadata"].get("labels") or {}).get(keys.JOB) != job.name:
            raise BadInput(f"pod {pod['metadata']['name']} is there already, and is not of job {job.name}")
        elif not _alike(standing, pod):
            raise BadInput(f"pod {pod['metadata']['name']} is there with other constraints: delete it first")
    return new


def _alike(standing: Mapping[str, Any], wanted: Json) -> bool:
    """Whether the pod that is there obeys what is wanted; the server and others may have added to it."""
    labels, spec = standing["metadata"].get("labels") or {}, standing["spec"]
    mine = {key: value for key, value in labels.items() if key.startswith(keys.PREFIX)}
    asked = {key: value for key, value in wanted["metadata"]["labels"].items() if key.startswith(keys.PREFIX)}
    node = wanted["spec"].get("nodeName")
    return (
        mine == asked
        and (node is None or node == spec.get("nodeName"))
        and all(each in (spec.get("tolerations") or []) for each in wanted["spec"].get("tolerations") or [])
        and _holds(spec.get("affinity") or {}, wanted["spec"].get("affinity") or {})
    )


def _holds(standing: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether every list of terms in *standing* has those that are *wanted*."""
    for kind, strengths in wanted.items():
        for strength, terms in strengths.items():
            there = (standing.get(kind) or {}).get(strength)
            if isinstance(terms, list):
                if any(each not in (there or []) for each in terms):
                    return False
            elif there is None or any(
                not any(_includes(term, each) for each in terms["nodeSelectorTerms"])
                for term in there["nodeSelectorTerms"]
            ):
                return False
    return True


def _includes(term: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(each in (term.get(part) or []) for part, asked in wanted.items() for each in asked)


def _tell(client: KubernetesClient, given: Submission, found: Answer) -> None:
    """Leave an event on the job object, whether there is one or not."""
    job, moment = given.job, given.at.strftime("%Y-%m-%dT%H:%M:%SZ")
    about: Json = {"apiVersion": hostpools.GROUP, "kind": "Job", "name": job.name, "namespace": job.namespace}
    try:
        body = client.get(f"/apis/{hostpools.GROUP}/namespaces/{job.namespace}/jobs/{job.name}")
        about["uid"] = changing.decoded(body)["metadata"]["uid"]
    except SourceError:
        pass  # an event about an object that is not there is one all the same
    text = "; ".join(f"{each.conflict}: {each.message}" for each in found.conflicts)
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{job.name.lower().replace('_', '-')}.", "namespace": job.namespace},
        "involvedObject": about,
        "reason": "SubmissionFailed",
        "type": "Warning",
        "message": text if len(text) <= _LONGEST else f"{text[: _LONGEST - 4]} ...",
        "source": {"component": "colocation-advisor"},
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }
    client.send("POST", f"/api/v1/namespaces/{job.namespace}/events", changing.encoded(event))
