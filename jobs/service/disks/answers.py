"""The handlers of disk affinity."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from jobs.disks import answer
from jobs.service import body, text
from jobs.service.counts import TurnedDown
from jobs.service.disks.desk import DiskDesk
from jobs.service.disks.extender import Company, ExtenderArgs, Plans, filtered, prioritized
from jobs.service.disks.operations import DiskPlanRequest
from jobs.service.handlers import Handler
from jobs.service.problems import problem
from pipeline.errors import BadInput
from rules.disks.plan import Plan

#: What became of volumes that were not placed, by the plan's status.
_CAUSES = {"REJECTED": "rejected", "REQUEUE": "waits"}
_OBJECT = msgspec.json.Decoder(dict[str, Any])


def handlers(
    desk: DiskDesk, reserving: Plans | None, turned_down: TurnedDown, company: Company | None = None
) -> Mapping[str, Handler]:
    """Return the handlers by the names of their operations; *reserving*, where it is given, answers the scheduler.

    *company*, where it is given, counts in priorities. *turned_down* is told of plans that were rejected, or put off.
    """
    plans_of = reserving or desk.plan

    def plans(given: bytes) -> object:
        asked = _asked(given)
        return answer.document(noted(desk.plan(asked.pod, asked.nodes, objects=asked.objects, cluster=asked.cluster)))

    def noted(found: Plan) -> Plan:
        if found.status != "RESERVED":
            turned_down("disks", _CAUSES[found.status])
        return found

    return {
        "disk_plans": _handler(plans),
        "extender_filter": _handler(
            lambda given: filtered(_args(given), lambda pod, nodes: noted(plans_of(pod, nodes)))
        ),
        "extender_prioritize": _handler(lambda given: prioritized(_args(given), plans_of, company)),
    }


def _handler(work: Callable[[bytes], object]) -> Handler:
    def answered(given: bytes) -> Response:
        return Response(msgspec.json.encode(work(given)), media_type="application/json")

    async def handle(request: Request) -> Response:
        try:
            given = await body.read(request.receive)
        except body.TooLarge as error:
            return problem(413, str(error))
        return await run_in_threadpool(answered, given)

    return handle


def _asked(given: bytes) -> DiskPlanRequest:
    """Read a Pod, or what holds one beside other things."""
    found: dict[str, Any] = text.mapping(given)
    if "pod" not in found or "kind" in found:
        return DiskPlanRequest(found)
    try:
        return msgspec.convert(found, DiskPlanRequest)
    except msgspec.ValidationError as error:
        raise BadInput(f"body: {error}") from None


def _args(given: bytes) -> ExtenderArgs:
    """Read the scheduler's question, in whatever case it spells its fields: versions differ, and Go minds none."""
    try:
        return msgspec.convert({key.lower(): value for key, value in _OBJECT.decode(given).items()}, ExtenderArgs)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadInput(f"body: no ExtenderArgs: {str(error).splitlines()[0]}") from None
