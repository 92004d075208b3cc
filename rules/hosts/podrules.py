"""What one pod of a stream job gets, as it is stored with the job and advised when the pod is created."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from msgspec import structs

from pipeline.records import Labels, Pod, PodSelection, Requirement
from rules.advice import Json, NodeNeed, PodFields, PodTerm, Settled
from rules.hosts import keys


@dataclass(frozen=True, slots=True)
class PodRules:
    """What one pod gets; *freedom* sorts pods, those first that have the fewest nodes to go to."""

    labels: Mapping[str, str]
    node: str = ""
    tolerations: tuple[Json, ...] = ()
    needs: tuple[NodeNeed, ...] = ()
    terms: tuple[PodTerm, ...] = ()
    freedom: tuple[int, ...] = ()

    def advised(self) -> Iterator[Settled]:
        """Yield what is to be added to the pod."""
        yield from self.needs
        yield from self.terms
        yield PodFields(self.labels, self.tolerations, self.node)

    def onto(self, pod: Pod) -> Pod:
        """Return *pod* as it will be with these rules, as far as other rules look at it; its node stays open."""
        return structs.replace(
            pod,
            labels={**pod.labels, **self.labels},
            tolerations=(*pod.tolerations, *self.tolerations),
            beside=(*pod.beside, *self._selections(pod, apart=False)),
            apart=(*pod.apart, *self._selections(pod, apart=True)),
        )

    def _selections(self, pod: Pod, *, apart: bool) -> Iterator[PodSelection]:
        for term in self.terms:
            if term.apart == apart and term.weight is None:
                wanted = tuple(Requirement(each.key, each.operator, each.values) for each in term.expressions)
                yield PodSelection(wanted, term.topology_key, (pod.namespace,))


#: What the pods of stored jobs get: by the job's namespace and name, and by PE.
HostRules = Mapping[tuple[str, str], Mapping[str, PodRules]]


def of_pod(known: HostRules, namespace: str, labels: Labels) -> PodRules | None:
    """Return what a pod with *labels* gets: it names its job, and its PE as ``JOB-PE`` or ``PE``."""
    job = labels.get(keys.JOB)
    if job is None or not known:
        return None
    of_job, pe = known.get((namespace, job), {}), labels.get(keys.PE, "")
    return of_job.get(pe.removeprefix(f"{job}-")) or of_job.get(pe)
