"""The five notifications of a region to its PEs; each message is made from the region after its transition."""

import re

from rules.regions.events import Notification
from rules.regions.region import RegionStatus


def trigger_drain(status: RegionStatus) -> Notification:
    """Checkpoint as the current id."""
    return Notification("triggerDrain", f"seqId={status.current_seq_id}")


def trigger_reset(status: RegionStatus) -> Notification:
    """Go back to the last completed checkpoint; the attempt is the one that the answer has to name."""
    attempt = status.current_reset_attempt - 1
    return Notification("triggerReset", f"seqId={status.last_completed_seq_id};resetAttempt={attempt}")


def resume(status: RegionStatus, *, pending: bool) -> Notification:
    """Go on with the current id; checkpoints up to the retired one may be deleted."""
    ids = f"seqId={status.current_seq_id};retId={status.to_retire_seq_id}"
    return Notification("resumeSubmission", f"{ids};pendCkpt={int(pending)}")


def drained(status: RegionStatus) -> Notification:
    """The checkpoint that was pending is completed, and is the last completed one now."""
    return Notification("drained", f"seqId={status.last_completed_seq_id}")


def reset_failed(status: RegionStatus) -> Notification:
    """The attempts are used up."""
    return Notification("resetFailed", f"seqId={status.last_completed_seq_id}")


def read(notification: Notification) -> dict[str, int]:
    """The numbers of a message; raises ValueError for another form."""
    if not re.fullmatch(r"\w+=-?\d+(;\w+=-?\d+)*", notification.message):
        raise ValueError(f"{notification.type}: message {notification.message!r}")
    pairs = (part.split("=") for part in notification.message.split(";"))
    return {key: int(value) for key, value in pairs}
