"""Settings: typed, grouped and documented in place; from a TOML file and the environment.

A wrong setting is one line that names the field and the file; a secret is a `SecretStr`, a file, or an environment
variable, and never printed.
"""

from jobs.config.serving import LogSettings, ReplicaSettings, ServeSettings, TraceSettings
from jobs.config.settings import Settings, admitted, load
from jobs.config.sources import (
    ClusterSettings,
    KubernetesSettings,
    OpenWhiskNamespace,
    OpenWhiskSettings,
    PrometheusSettings,
)
from jobs.config.values import File, Group, Span
from jobs.config.work import (
    AdviceSettings,
    DiskSettings,
    HostsSettings,
    LearnSettings,
    RegionsSettings,
    ScheduleSettings,
    StoreSettings,
)

__all__ = [
    "AdviceSettings",
    "ClusterSettings",
    "DiskSettings",
    "File",
    "Group",
    "HostsSettings",
    "KubernetesSettings",
    "LearnSettings",
    "LogSettings",
    "OpenWhiskNamespace",
    "OpenWhiskSettings",
    "PrometheusSettings",
    "RegionsSettings",
    "ReplicaSettings",
    "ScheduleSettings",
    "ServeSettings",
    "Settings",
    "Span",
    "StoreSettings",
    "TraceSettings",
    "admitted",
    "load",
]
