"""Settings: typed, grouped and documented in place; from a TOML file and the environment (``COLOCATE_``, ``__``).

A wrong setting is one line that names the field and the file; a secret is a `SecretStr`, a file, or an environment
variable, and never printed.
"""

import os
import re
import tomllib
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, SettingsError

from pipeline.errors import BadInput
from rules.policy import Mode

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def _span(value: object) -> object:
    """Read ``30s``, ``5m``, ``24h``, ``14d`` and ``1h30m``; leave other forms to pydantic."""
    if isinstance(value, str):
        parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", value)
        if parts and "".join(number + unit for number, unit in parts) == value:
            try:
                return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in parts))
            except OverflowError:
                return timedelta.max
    return value


_LONGEST = timedelta(days=36525)


def _sensible(value: timedelta) -> timedelta:
    if value <= timedelta(0):
        raise ValueError("must be longer than zero")
    if value > _LONGEST:
        raise ValueError("must be no longer than 100 years")
    return value


Span = Annotated[timedelta, BeforeValidator(_span), AfterValidator(_sensible)]


def _nameable(value: Path) -> Path:
    if "\0" in str(value) or value == Path():
        raise ValueError("is no file name")
    return value


File = Annotated[Path, AfterValidator(_nameable)]

_LABEL = r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
_DOMAIN = r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"


class Group(BaseModel):
    """A group of settings; a misspelled field is an error, not a default."""

    model_config = ConfigDict(extra="forbid", frozen=True)


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


class KubernetesSettings(Group):
    kubeconfig: File | None = Field(
        None, description="kubeconfig file; default: KUBECONFIG, else in-cluster, else ~/.kube/config"
    )
    context: str | None = Field(None, description="context of the kubeconfig")
    page: int = Field(500, ge=1, description="objects a page")
    timeout: Span = Field(timedelta(seconds=30), description="limit of one request")
    bandwidth_label: str = Field(
        "colocation.internal/network-bandwidth",
        description="node label with the network bandwidth, a quantity of bits per second",
    )
    disk_label: str = Field("disktype", description="node label with the disk type")
    function_labels: tuple[str, str] = Field(
        ("openwhisk/namespace", "openwhisk/action"),
        description="pod labels naming the function's namespace and action",
    )


class PrometheusSettings(Group):
    url: str = Field(description="base URL, without credentials")
    token: SecretStr | None = Field(None, description="bearer token")
    token_file: File | None = Field(None, description="file holding the bearer token, read again for each collection")
    username: str | None = Field(None, description="basic auth user")
    password: SecretStr | None = Field(None, description="basic auth password")
    ca_file: File | None = Field(None, description="CA certificates to verify the server with")
    insecure: bool = Field(False, description="do not verify the server's certificate")
    headers: dict[str, SecretStr] = Field(default_factory=dict, description="extra headers, such as X-Scope-OrgID")
    replica_labels: tuple[str, ...] = Field(
        ("replica", "prometheus_replica", "__replica__"),
        description="labels that differ between replicas of one server",
    )
    node_label: tuple[str, ...] = Field(
        ("node", "kubernetes_node", "instance"),
        description="labels that name the node in node_exporter series, tried in order",
    )
    timeout: Span = Field(timedelta(seconds=60), description="limit of one request")
    queries: dict[str, str] = Field(
        default_factory=dict,
        description="PromQL by scope and metric (`node.cpu_cores`) for the built-in one, "
        "`$step`, `$match` and `$by` filled in; empty: none",
    )
    match: str = Field("", description='label matchers that all series of this cluster have, such as cluster="c1"')

    @model_validator(mode="after")
    def _one_kind_of_login(self) -> "PrometheusSettings":
        if (self.token or self.token_file) and self.username:
            raise ValueError("give a bearer token or a user name, not both")
        return self


class OpenWhiskNamespace(Group):
    name: str = Field(description="namespace whose activations are collected")
    key: SecretStr | None = Field(None, description="user:password key")
    key_file: File | None = Field(None, description="file holding the key")
    key_env: str | None = Field(None, description="environment variable holding the key")

    @model_validator(mode="after")
    def _one_key(self) -> "OpenWhiskNamespace":
        if sum(given is not None for given in (self.key, self.key_file, self.key_env)) != 1:
            raise ValueError("give exactly one of key, key_file, key_env")
        return self


class OpenWhiskSettings(Group):
    url: str = Field(description="API host, https://HOST[:PORT]")
    namespaces: list[OpenWhiskNamespace] = Field(min_length=1, description="namespaces with a key each")
    ca_file: File | None = Field(None, description="CA certificates to verify the server with")
    insecure: bool = Field(False, description="do not verify the server's certificate")
    page: int = Field(200, ge=1, le=2000, description="records a page; halved when the server refuses it")
    timeout: Span = Field(timedelta(seconds=60), description="limit of one request")

    @model_validator(mode="after")
    def _names_differ(self) -> "OpenWhiskSettings":
        names = [namespace.name for namespace in self.namespaces]
        if len(set(names)) != len(names):
            raise ValueError("namespaces: two have the same name")
        return self


class ClusterSettings(Group):
    name: str = Field(
        min_length=1,
        pattern=r"^[^\x00-\x1f\x7f]*$",
        description="name of the cluster in every table, metric and answer",
    )
    kubernetes: KubernetesSettings | None = None
    prometheus: PrometheusSettings | None = None
    openwhisk: OpenWhiskSettings | None = None


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


class LearnSettings(Group):
    skew: Span = Field(timedelta(seconds=1), description="tolerated difference between clocks of machines")
    window: Span = Field(timedelta(days=14), description="history that a full fit looks at")
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
        "kubernetes.io/hostname", pattern=_LABEL, description="topology key of emitted pod terms"
    )
    label_prefix: str = Field(
        "colocation.internal", pattern=_DOMAIN, description="prefix of the product's own labels and annotations"
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


class LogSettings(Group):
    form: Literal["json", "console"] = Field(
        "json", description="json: an object a line, for programs; console: a line for people"
    )
    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="least of what runs for long logs; a command logs warnings, with `--verbose` this"
    )


class TraceSettings(Group):
    endpoint: str | None = Field(
        None,
        pattern=r"^https?://[^/@?#\s]+(/[^@?#\s]*)?$",
        description="base URL that takes OpenTelemetry traces by OTLP over HTTP, such as http://collector:4318; "
        "needs the extra `otel`",
    )
    headers: dict[str, SecretStr] = Field(default_factory=dict, description="extra headers, such as Authorization")
    ca_file: File | None = Field(None, description="CA certificates to verify it with")
    ratio: float = Field(
        1.0, ge=0, le=1, description="share of traces that are kept, where the caller has not decided that already"
    )
    timeout: Span = Field(timedelta(seconds=5), description="limit of one batch, its repetitions included")


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


class ServeSettings(Group):
    cluster: str | None = Field(
        None, description="the cluster whose pods are admitted; default: the only one configured"
    )
    host: str | None = Field(
        None, description="address to listen on; default: all with a token or a client CA, else loopback"
    )
    port: int | None = Field(None, ge=0, le=65535, description="default 8443 with TLS, else 8080")
    tls_cert: File | None = Field(None, description="certificate file, reloaded when it changes")
    tls_key: File | None = Field(None, description="key file, reloaded when it changes")
    client_ca: File | None = Field(
        None, description="CA whose clients may call /mutate and /extender without a token"
    )
    token: SecretStr | None = Field(None, description="bearer token asked for by everything but health")
    token_file: File | None = Field(None, description="file holding the bearer token")
    replica_token: SecretStr | None = Field(
        None, description="bearer token that opens only what replicas ask their writer for"
    )
    replica_token_file: File | None = Field(None, description="file holding the token of replicas")
    open_admission: bool = Field(
        False, description="answer /mutate to anybody: for API servers that show webhooks no certificate"
    )
    workers: int = Field(1, ge=1, description="serving processes")
    metrics_pairs: int = Field(100, ge=0, description="pairs, functions and drives in the metrics: the strongest")


class ReplicaSettings(Group):
    writer: str | None = Field(
        None,
        pattern=r"^https?://[^/@\s]+(/[^@\s]*)?$",
        description="base URL of the service that collects and learns: this one then answers from that one's "
        "snapshot, and hands its decisions back",
    )
    token: SecretStr | None = Field(None, description="bearer token for the writer (its `serve.replica_token`)")
    token_file: File | None = Field(None, description="file holding the bearer token, read again each time")
    ca_file: File | None = Field(None, description="CA certificates to verify the writer with, read again each time")
    every: Span = Field(
        timedelta(seconds=5), description="how often the writer is asked for news and decisions are handed back"
    )
    timeout: Span = Field(timedelta(seconds=30), description="limit of one request")

    @model_validator(mode="after")
    def _one_token(self) -> "ReplicaSettings":
        if self.token is not None and self.token_file is not None:
            raise ValueError("give token or token_file, not both")
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


class Settings(BaseSettings):
    """All settings; see README.md for the reference made from these descriptions."""

    model_config = SettingsConfigDict(env_prefix="COLOCATE_", env_nested_delimiter="__", extra="forbid", frozen=True)

    store: StoreSettings = StoreSettings()
    clusters: list[ClusterSettings] = Field(default_factory=list, description="the clusters to collect from")
    schedule: ScheduleSettings = ScheduleSettings()
    learn: LearnSettings = LearnSettings()
    advice: AdviceSettings = AdviceSettings()
    hosts: HostsSettings = HostsSettings()
    serve: ServeSettings = ServeSettings()
    disks: DiskSettings = DiskSettings()
    regions: RegionsSettings = RegionsSettings()
    replica: ReplicaSettings = ReplicaSettings()
    log: LogSettings = LogSettings()
    trace: TraceSettings = TraceSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return env_settings, init_settings

    @model_validator(mode="after")
    def _names_differ(self) -> "Settings":
        names = [cluster.name for cluster in self.clusters]
        if len(set(names)) != len(names):
            raise ValueError("clusters: two clusters have the same name")
        return self


def admitted(settings: Settings) -> str:
    """Return the cluster whose pods are admitted; raises `BadInput` where it is not clear."""
    names = [cluster.name for cluster in settings.clusters]
    if settings.serve.cluster is not None:
        if names and settings.serve.cluster not in names:
            raise BadInput(f"serve.cluster: {settings.serve.cluster!r} is not one of {', '.join(names)}")
        return settings.serve.cluster
    if len(names) > 1:
        raise BadInput(f"serve.cluster: name the one whose pods are admitted: {', '.join(names)}")
    return names[0] if names else "default"


#: Environment variables with the prefix that are not settings.
_NOT_SETTINGS = frozenset({"COLOCATE_CONFIG"})


def load(path: Path | None) -> Settings:
    """Read the settings from *path* (default ``colocate.toml`` if present) under the environment's.

    Raises `BadInput` in one line naming the file or variable and the field.
    """
    where = path if path is not None else Path(os.environ.get("COLOCATE_CONFIG", "colocate.toml"))
    given: dict[str, Any] = {}
    if path is not None or "COLOCATE_CONFIG" in os.environ or where.exists():
        try:
            given = tomllib.loads(where.read_text(encoding="utf-8-sig"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise BadInput(f"{where}: {str(error).splitlines()[0]}") from None
    known = {f"COLOCATE_{name.upper()}" for name in Settings.model_fields}
    for variable in os.environ:
        upper = variable.upper()
        if upper.startswith("COLOCATE_") and upper not in _NOT_SETTINGS and upper.split("__")[0] not in known:
            raise BadInput(f"environment variable {variable}: no such setting")
    try:
        return Settings(**given)
    except SettingsError as error:
        found = re.search(r'field "(\w+)"', str(error))
        variable = f"COLOCATE_{found[1].upper()}" if found else "COLOCATE_..."
        raise BadInput(f"environment variable {variable}: is no JSON") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        unknown = first["type"] == "extra_forbidden"
        reason = "no such setting" if unknown else first["msg"].removeprefix("Value error, ")
        raise BadInput(f"{where} or environment: {field or 'settings'}: {reason}") from None
