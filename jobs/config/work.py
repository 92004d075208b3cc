"""Settings of the work: what is kept, when it is collected and learned, and what is advised of it."""

import os
from datetime import timedelta
from pathlib import Path

from pydantic import Field, model_validator

from jobs.config.values import DOMAIN, LABEL, File, Group, Span
from rules.policy import Mode


class StoreSettings(Group):
    path: File = Field(Path("colocation.duckdb"), description="the DuckDB file of what happened and was learned")
    control: File = Field(Path("colocation.control.sqlite"), description="the SQLite file of what was asked for")
    snapshot: File = Field(Path("colocation.snapshot"), description="the published snapshot that answers come from")
    spool: File = Field(Path("colocation.spool"), description="directory for pages and decisions not yet stored")
    deadline: Span = Field(timedelta(seconds=30), description="how long to wait for the file while another holds it")
    retain_usage: Span = Field(timedelta(days=30), description="usage older than this is deleted")
    retain_activations: Span = Field(timedelta(days=30), description="activations older than this are deleted")
    retain_placements: Span = Field(timedelta(days=90), description="ended placements older than this are deleted")
    retain_decisions: Span = Field(timedelta(days=90), description="decisions older than this are deleted")

    @model_validator(mode="after")
    def _apart(self) -> "StoreSettings":
        """A snapshot replaces the file that has its name: under that of the history nothing would be left of it."""
        seen: dict[Path, str] = {}
        for name in ("path", "control", "snapshot", "spool"):
            where = Path(os.path.abspath(getattr(self, name)))  # noqa: PTH100 - links are not followed
            if where in seen:
                raise ValueError(f"{seen[where]} and {name} are the same file")
            seen[where] = name
        return self


class ScheduleSettings(Group):
    built_in: bool = Field(True, description="collect and learn while serving; false where cron does")
    usage: Span = Field(timedelta(minutes=5), description="how often usage is collected")
    activations: Span = Field(timedelta(minutes=5), description="how often activations are collected")
    placements: Span = Field(
        timedelta(minutes=5), description="how often placements are listed; changes are watched while serving"
    )
    workflows: Span = Field(timedelta(minutes=5), description="how often workflows are listed")
    disks: Span = Field(timedelta(minutes=5), description="how often drives, volumes and claims are listed")
    nodes: Span = Field(
        timedelta(days=1), description="how often nodes are listed; changes are watched while serving"
    )
    learn: Span = Field(
        timedelta(minutes=15), description="how often the model is refitted and the snapshot published"
    )
    overlap: Span = Field(timedelta(minutes=10), description="how much before the watermark a collection reads again")
    first_window: Span = Field(timedelta(hours=24), description="how far back the first collection reads")
    step: Span = Field(timedelta(minutes=5), description="step of usage series")
    job_limit: Span = Field(timedelta(minutes=10), description="a job running longer than this is ended")


#: So many activations of a thousand functions are learned from together in some 2.6 gigabytes; parts cost more time.
MOST_FITTED = 1_000_000


class LearnSettings(Group):
    skew: Span = Field(timedelta(seconds=1), description="tolerated difference between clocks of machines")
    window: Span = Field(timedelta(days=14), description="history that a full fit looks at")
    activations: int = Field(
        MOST_FITTED,
        ge=1,
        description="activations that are fitted together, in memory, at most; older ones stay known as folded",
    )
    full_every: Span = Field(timedelta(days=1), description="how long increments go on before all is fitted in full")
    min_overlaps: float = Field(
        30.0, ge=0, allow_inf_nan=False, description="effective overlaps below which a pair is unknown"
    )
    min_effect: float = Field(0.05, ge=0, allow_inf_nan=False, description="slowdown that counts as interference")


class AdviceSettings(Group):
    mode: Mode = Field(
        "observe", description="observe: record only; prefer: preferred rules; require: required where sure"
    )
    namespaces: dict[str, Mode] = Field(default_factory=dict, description="mode by namespace")
    probability: float = Field(0.9, gt=0, le=1, description="probability from which a pair is acted upon")
    topology_key: str = Field(
        "kubernetes.io/hostname", pattern=LABEL, description="topology key of emitted pod terms"
    )
    label_prefix: str = Field(
        "colocation.internal", pattern=DOMAIN, description="prefix of the product's own labels and annotations"
    )
    stale_after: Span = Field(timedelta(hours=1), description="older snapshots give stated hard needs only")
    deadline: Span = Field(
        timedelta(milliseconds=250), description="rules that a pod would wait longer for are left out of its answer"
    )
    excluded_namespaces: tuple[str, ...] = Field(
        ("kube-system", "colocation-system"), description="namespaces left alone"
    )
    across_namespaces: tuple[str, ...] = Field(
        (),
        description="namespaces whose pods may get terms that reach other namespaces (a quota scope can forbid them)",
    )


class HostsSettings(Group):
    deadline: Span = Field(timedelta(seconds=5), description="how long to search for a placement of a stream job")
    change_nodes: bool = Field(
        False, description="let the service label and taint nodes for the host pools of stream jobs"
    )
    reconcile: Span = Field(
        timedelta(minutes=1),
        description="how often nodes are brought back to what stored jobs ask for, if they may be",
    )


class RegionsSettings(Group):
    follow: bool = Field(True, description="list consistent regions, while serving every ten seconds")
    manage: bool = Field(False, description="while serving, run an operator for each job with consistent regions")
    image: str | None = Field(None, description="image of the operators, needed to manage them")
    service_account: str = Field(
        "colocation-regions", description="service account of the operators, in the namespace of each job"
    )

    @model_validator(mode="after")
    def _an_image(self) -> "RegionsSettings":
        if self.manage and not self.image:
            raise ValueError("image: needed where manage is true")
        return self


class DiskSettings(Group):
    collect: bool = Field(True, description="list drives, volumes and claims for the history")
    live: bool = Field(
        False,
        description="watch drives, volumes and claims while serving, for the scheduler's extender and the webhook",
    )
    sequential: bool = Field(
        False, description="let a pod wait while another reservation asks for the same class of volume group"
    )
    reserve: bool = Field(
        False,
        description="make and settle reservations, never beside csi-baremetal's own controller; needs `disks.live`",
    )
    interference: bool = Field(
        False,
        description="let half of the extender's priorities be how a pod and its neighbours would disturb each other",
    )
    namespace: str = Field("default", description="where the lease of the process that settles reservations lies")
    symmetric: bool = Field(
        False,
        description="keep pods off drives whose users, there before, require to be apart from them",
    )

    @model_validator(mode="after")
    def _reserves_live(self) -> "DiskSettings":
        if self.reserve and not self.live:
            raise ValueError("reserve: needs live = true")
        return self
