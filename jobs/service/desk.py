"""Where the rules are asked: for a pod under admission, and for a person who wants to know."""

import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec

from featurestore.store.decisions import Decision
from jobs.service.decide import Decided
from jobs.service.reservations import Reservations
from jobs.service.review import AdmissionRequest, encode_patch
from jobs.service.routes import RecommendationRequest
from jobs.service.state import State
from pipeline import objects
from pipeline.errors import BadInput
from rules.policy import Policy
from rules.recommend import Recommendation, recommend
from rules.request import Request, from_pod
from rules.view import Reservation, View

_OBJECT = msgspec.json.Decoder(dict[str, Any])


class Desk:
    """Answers from the current view of *state* under *policy*."""

    def __init__(
        self,
        state: State[View],
        policy: Policy,
        reservations: Reservations,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._state = state
        self._policy = policy
        self._reservations = reservations
        self._now = now

    def decide(self, review: AdmissionRequest, at: datetime, *, dry_run: bool) -> Decided:
        """Decide about the pod of *review*; the decision bears the review's uid."""
        view = self._state.current.view
        request = self._request(_OBJECT.decode(review.object), view, review.namespace)
        answer = recommend(request, view, self._policy, decision=review.uid, at=at)
        if not dry_run:
            self._reserve(request, answer)
        kept = Decision(
            decision=review.uid,
            at=at,
            cluster=request.cluster,
            namespace=request.namespace,
            pod=request.name,
            function=request.function_name,
            mode=answer.mode,
            snapshot=answer.snapshot,
            satisfiable=answer.satisfiable,
            outcome=answer.outcome,
            document=answer,
        )
        return Decided(kept, answer.cause or "none", encode_patch(answer.patch))

    def recommend(self, asked: RecommendationRequest) -> Recommendation:
        """Answer a person: as for admission, but what `observe` would only record is shown as `prefer`.

        Raises `BadInput` where the pod cannot be read.
        """
        cluster = asked.cluster or self._state.cluster
        if cluster not in (self._state.cluster, *self._state.current.snapshot.clusters):
            raise BadInput(f"cluster: {cluster!r} is not known here")
        view = self._state.view_of(cluster)
        metadata = asked.pod.get("metadata") or {}
        namespace = metadata.get("namespace") if isinstance(metadata, dict) else None
        request = self._request(asked.pod, view, namespace or "default")
        mode = asked.mode or ("prefer" if request.mode == "observe" else request.mode)
        request = replace(request, mode=mode)
        return recommend(request, view, self._policy, decision=str(uuid.uuid4()), at=self._now())

    def _request(self, pod: dict[str, Any], view: View, namespace: str) -> Request:
        record = objects.pod_of(pod)
        return from_pod(pod, record, view, namespace=namespace, cluster=view.cluster, policy=self._policy)

    def _reserve(self, request: Request, answer: Recommendation) -> None:
        """Count the pod where it is expected to go, until one that carries the decision is seen there.

        A pod without a patch carries none; one that is asked about again carries the first, which counts already.
        """
        annotations = (request.pod.get("metadata") or {}).get("annotations") or {}
        if answer.outcome != "patched" or not answer.nodes or self._policy.own("decision") in annotations:
            return
        self._reservations.add(
            Reservation(answer.decision, answer.nodes[0].name, request.function_name, request.requests)
        )
