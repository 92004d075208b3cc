"""Where the rules are asked: for a pod under admission, and for a person who wants to know."""

import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import msgspec

from featurestore.store.decision import Decision
from jobs.asking import ADMISSION, Beside, InTurn, Told
from jobs.service import shape
from jobs.service.ahead import Ahead
from jobs.service.decide import Decided
from jobs.service.prepared import PLACE, Prepared, Spent
from jobs.service.renewing import Answers, Renewing, alike, stands
from jobs.service.reservations import Reservations
from jobs.service.review import AdmissionRequest, encode_patch
from jobs.service.routes import RecommendationRequest
from jobs.service.state import State
from pipeline import objects
from pipeline.errors import BadInput
from rules.affinity.interference import interference
from rules.affinity.repeated import unbroken
from rules.candidates import Sparse
from rules.changes import Changes, updated
from rules.disks.volumes import Volumes
from rules.hpa import admission
from rules.hpa.admission import Index
from rules.labels import LONGEST_NAME, cut
from rules.policy import Policy
from rules.recommend import Recommendation, answer, recommend, stale
from rules.request import Request, from_pod, of_another
from rules.scoring import shown
from rules.view import View

#: A person waits so long for claims that are being made, in seconds.
_PATIENCE = 1.0
#: So many shapes of pods have their answers kept; beyond, all are forgotten.
_ROOM = 4096
#: So many decisions are known again when their pods are asked about once more.
_LATELY: Final = 4096
#: What a pod of a namespace mounts; claims that are not there yet are waited for, so many seconds.
VolumesOf = Callable[[Mapping[str, Any], str, float], Volumes | None]
_OBJECT = msgspec.json.Decoder(dict[str, Any])


class Desk:
    """Answers from the current view of *state* under *policy*; `decide` is for one thread, the server's, `renew` for
    another.

    *volumes* says what a pod mounts, None where disks are not looked at. *retire* gets the answers of a former view;
    with *renewing* they stand until it has worked them out anew. *ahead* keeps answers that nobody has asked for yet,
    which `prepare_ahead` works out, in a thread of its own.

    *left_out* is told of each rule that took an admission longer than *deadline* seconds, or failed.

    An answer that a rule was left out of is for its own pod alone: the next one may fare better.
    """

    def __init__(
        self,
        state: State[View],
        policy: Policy,
        reservations: Reservations,
        spent: Spent | None = None,
        left_out: Told = lambda rule, cause: None,
        deadline: float = ADMISSION,
        intents: Callable[[], Index] = Index,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        volumes: VolumesOf | None = None,
        retire: Callable[[dict[Any, Any]], None] = lambda former: None,
        renewing: Renewing | None = None,
        ahead: Ahead | None = None,
        named: bool = True,
    ) -> None:
        self._state = state
        self._policy = policy
        self._reservations = reservations
        self._spent = spent or Spent()
        self._intents = intents
        self._now = now
        self._volumes = volumes
        self._retire = retire
        self._in_turn, self._beside = InTurn(left_out, deadline), Beside(left_out)
        self._names = shape.Names.of(policy)
        self._view: View | None = None
        self._old = False
        self._lately: OrderedDict[str, None] = OrderedDict()  # a dict takes long to find its first
        self._prepared: Answers = {}
        self._former: Answers = {}
        self._shapes: tuple[View | None, dict[object, Request]] = (None, {})
        self._renewing = renewing
        self._ahead = ahead
        self._named = named

    def decide(self, review: AdmissionRequest, at: datetime, *, dry_run: bool) -> Decided:
        """Decide about the pod of *review*; the decision bears the review's uid.

        Pods that are alike get one answer until the view changes, or until as many as it has best nodes were sent.
        """
        pod = shape.decode(review.object)
        if (earlier := (pod.metadata.annotations or {}).get(self._names.decision)) is not None:
            return self._alone(review, at, repeated=earlier in self._lately)
        prepared = self._prepared_for(pod, review, at)
        if not prepared.sound:
            return self._alone(review, at)
        self._lately[review.uid] = None
        if len(self._lately) > _LATELY:
            self._lately.popitem(last=False)
        if not dry_run and (reservation := prepared.reserve(review.uid)) is not None:
            self._reservations.add(reservation)
        name = pod.name
        kept = _kept(review, at, prepared.cluster, name, prepared.function, prepared, prepared)
        return Decided(kept, prepared.reason, prepared=prepared)

    def _prepared_for(self, pod: shape.Admitted, review: AdmissionRequest, at: datetime) -> Prepared:
        view = self._state.current.view
        old = stale(view, self._policy, at)
        if view is not self._view or old is not self._old or len(self._prepared) >= _ROOM:
            self._turn_to(view, old)
        if self._volumes is not None and pod.claims:  # its own, and disks change faster than views
            return self._prepare(None, review, view, at)
        key = shape.key_of(pod, review.namespace, view, self._policy, self._names)
        if (intents := self._intents()).consumers:
            key += shape.consumers_of(pod, review.namespace, intents)
        prepared = self._prepared.get(key)
        if prepared is None and (found := self._ready(key, view, at, old)) is not None:
            ready, until = found
            prepared = self._prepared[key] = ready
            if ready.view is not view and self._renewing is not None:
                self._renewing.later(key, review, view, until)
        if prepared is None or prepared.spent:
            if prepared is not None and prepared.view.at >= view.at:
                view = updated(prepared.view, at, Changes(reserved=tuple(prepared.reserved)))
            prepared = self._prepare(key, review, view, at)
            if not prepared.left_out:
                self._prepared[key] = prepared
        return prepared

    def _ready(self, key: shape.Key, view: View, at: datetime, old: bool) -> tuple[Prepared, datetime | None] | None:
        """Return the answer that stands for a pod nobody asked for yet in *view*: of a former one, or made ahead.

        And until when it was up to date, where that is known: what is made ahead stands by when its view ended, and
        where nothing changed that is long after it was made.
        """
        former, ahead = self._former.get(key), None
        if self._renewing is None or not stands(former, view):
            former = None
        if self._ahead is not None and not old:
            ahead = self._ahead.take(key, view, at)
        if self._ahead is not None and ahead is not None and (former is None or ahead.view.at >= former.view.at):
            return ahead, self._ahead.until(ahead)
        return None if former is None else (former, None)

    def _turn_to(self, view: View, old: bool) -> None:
        """Answer from *view* from now on; answers of the former one may stand for a while where it is much alike."""
        before, done = self._former, self._prepared
        current = not old and not self._old and view is not self._view
        self._former = done if current and self._renewing is not None and alike(self._view, view) else {}
        for answers in (before, done):
            if answers and answers is not self._former:
                self._retire(answers)
        self._view, self._old, self._prepared = view, old, {}
        self._shapes = (view, {})
        if self._renewing is not None:
            self._renewing.follow(self._prepared)

    def renew(self) -> None:
        """Work out anew what was answered from a former view; for a thread of its own."""
        if self._renewing is not None:
            self._renewing.work(lambda key, review, view: self._prepare(key, review, view, self._now()))

    def prepare_ahead(self) -> None:
        """Work out answers that nobody has asked for yet; for a thread of its own."""
        at = self._now()
        if self._ahead is not None and not stale(self._state.current.view, self._policy, at):
            self._ahead.work(lambda request, view, spent: self._answered(request, view, self._now(), spent), at)

    def _prepare(self, key: shape.Key | None, review: AdmissionRequest, view: View, at: datetime) -> Prepared:
        with self._spent:
            return self._answered(self._read(key, review, view), view, at, self._spent)

    def _answered(self, request: Request, view: View, at: datetime, spent: Spent) -> Prepared:
        made = answer(request, view, self._policy, decision=PLACE, at=at, ask=self._in_turn)
        return Prepared(made, spent)

    def _read(self, key: shape.Key | None, review: AdmissionRequest, view: View) -> Request:
        """Read the request, from that of a pod that differed in its function alone where there was one in *view*."""
        of, shapes = self._shapes
        rest, known = (None, None) if key is None or of is not view else shape.apart(key)
        if known is not None and (like := shapes.get(rest)) is not None:
            if self._ahead is not None and rest is not None:
                self._ahead.asked(rest, like, view)
            return of_another(like, *known)
        request = self._request(_OBJECT.decode(review.object), view, review.namespace)
        if known is not None and request.hpa is None and request.hosts is None and self._volumes is None:
            shapes[rest] = request
        return request

    def _alone(self, review: AdmissionRequest, at: datetime, *, repeated: bool = False) -> Decided:
        """Decide about a pod that is asked about again, and carries its first decision, by itself.

        That decision counts already: nothing is reserved for it. Where it was made here lately (*repeated*), and what
        it gave is all there, the pod stays as it is: in a burst others were sent to its best nodes meanwhile.
        """
        view = self._state.current.view
        request = self._request(_OBJECT.decode(review.object), view, review.namespace)
        told = recommend(request, view, self._policy, decision=review.uid, at=at, ask=self._in_turn)
        if repeated and unbroken(request.pod, told.affinity, told.patch, self._policy.label_prefix):
            told = replace(told, affinity=request.affinity, patch=(), outcome="unchanged")
        kept = _kept(review, at, request.cluster, request.name, request.function_name, told, told)
        return Decided(kept, told.cause or "none", encode_patch(told.patch))

    def recommend(self, asked: RecommendationRequest) -> Recommendation:
        """Answer a person: as for admission, but what `observe` would only record is shown as `prefer`.

        Raises `BadInput` where the pod cannot be read.
        """
        cluster = asked.cluster or self._meant()
        known = tuple(dict.fromkeys((self._state.cluster, *self._state.current.snapshot.clusters)))
        if cluster not in known:
            raise BadInput(f"cluster: {cluster!r} is not known here; there are {', '.join(known)}")
        view = self._state.view_of(cluster)
        metadata = asked.pod.get("metadata") or {}
        namespace = metadata.get("namespace") if isinstance(metadata, dict) else None
        request = self._request(asked.pod, view, namespace or "default", patience=_PATIENCE)
        mode = asked.mode or ("prefer" if request.mode == "observe" else request.mode)
        request = replace(request, mode=mode)
        decision = str(uuid.uuid4())
        return recommend(request, view, self._policy, decision=decision, at=self._now(), ask=self._beside)

    def _meant(self) -> str:
        """Return the cluster that is served; where the settings name none, the only one that is known."""
        known = self._state.current.snapshot.clusters
        if self._named or not known or self._state.cluster in known:
            return self._state.cluster
        if len(known) > 1:
            raise BadInput(f"cluster: say which of {', '.join(known)}")
        return known[0]

    def company(self, pod: dict[str, Any]) -> Mapping[str, float]:
        """Return how good the company on each node is for *pod*, 0 to 1; empty where nothing is known of it.

        Raises `BadInput` where the pod cannot be read.
        """
        view = self._state.current.view
        if stale(view, self._policy, self._now()):
            return {}
        metadata = pod.get("metadata") or {}
        request = self._intended(pod, view, str(metadata.get("namespace") or "default"))
        found = interference(request, view, self._policy).scores
        if found is None:
            return {}
        dense = found.dense(len(view.nodes)) if isinstance(found, Sparse) else found
        return dict(zip(view.nodes.names, (shown(dense) / 100.0).tolist(), strict=True))

    def _request(self, pod: dict[str, Any], view: View, namespace: str, patience: float = 0.0) -> Request:
        """Read what is asked for *pod*, which waits for its claims for at most *patience* seconds."""
        request = self._intended(pod, view, namespace)
        if self._volumes is None or request.left_alone or view.cluster != self._state.cluster:
            return request
        return replace(request, disks=self._volumes(request.pod, namespace, patience))

    def _intended(self, pod: dict[str, Any], view: View, namespace: str) -> Request:
        record = objects.pod_of(pod)
        read = partial(from_pod, view=view, namespace=namespace, cluster=view.cluster, policy=self._policy)
        request = read(pod, record)
        known = self._intents()
        if request.left_alone or not known.consumers:
            return request
        containers = [each.get("name") for each in request.spec.get("containers") or ()]
        owner = (record.owner_kind, record.owner_name)
        found = known.matching(namespace, record.name, owner, record.labels, containers)
        if not found:
            return request
        asked, changed = admission.ask(request, [known.consumers[number] for number in found], view, self._policy)
        return replace(request if asked.conflict else read(changed, objects.pod_of(changed)), hpa=asked)


def _kept(
    review: AdmissionRequest,
    at: datetime,
    cluster: str,
    pod: str,
    function: str,
    told: Prepared | Recommendation,
    document: Recommendation | Prepared,
) -> Decision:
    """Return what the history keeps of an admission; a prepared *document* is rendered when it is written."""
    return Decision(
        decision=review.uid,
        at=at,
        cluster=cluster,
        namespace=review.namespace,
        pod=cut(pod, LONGEST_NAME),
        function=function,
        mode=told.mode,
        snapshot=told.snapshot,
        satisfiable=told.satisfiable,
        outcome=told.outcome,
        document=document,
    )
