"""The Helm chart: the same manifests, with expressions where a value is chosen and conditions around parts."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from deploy import traffic
from deploy.install import Install, Manifest
from deploy.parts import BASE, CHOSEN, SETTINGS

_HERE: Final = Path(__file__).parent
_MARK: Final = re.compile(r"'?@@(.*?)@@'?")
#: Kinds that are there before anything else; Helm installs them once and never changes or deletes them.
_CRDS: Final = {"workflows": "workflows/crd.yaml", "hosts": "hosts/crd.yaml", "regions": "regions/crds.yaml"}


def _said(expression: str) -> str:
    """Return a value that stands for *expression* until it is written."""
    return f"@@{{{{ {expression} }}}}@@"


INSTALL: Final = Install(
    namespace="{{ .Release.Namespace }}",
    image=_said(".Values.image | toJson"),
    settings=_said(".Values.settings | toJson"),
    storage=_said(".Values.storage | toJson"),
    replicas=_said(".Values.replicas"),
)

_VALUES: Final = f"""\
# The image, which no registry has: see README.md of the directory above.
image: colocation-advisor:0.1.0

# Pods that answer the API server.
replicas: 2

# The volume of the history.
storage: 20Gi

# Who keeps the certificates: own (the product itself), certManager, or none (you make colocation-advisor-tls).
certificates: own

# Answer reviews only to who shows a certificate of the CA in the ConfigMap colocation-advisor-client-ca.
clientCertificates: false

# Who collects and learns: builtIn (the writer), or cron (CronJobs on the writer's node).
schedule: builtIn

networkPolicies: true
serviceMonitor: false

# Each brings the rights that it needs.
features:
  disks: false
  diskReservations: false
  hosts: false
  regions: false
  regionOperators: false

# colocate.toml
settings: |
{"".join(f"  {line}" if line.strip() else line for line in SETTINGS.splitlines(keepends=True))}"""


def _needs() -> dict[str, str]:
    """Return the features that need another one, by their names in the values."""

    def value(name: str) -> str:
        return CHOSEN[name].chart.rpartition(".")[2]

    return {value(name): value(part.needs) for name, part in CHOSEN.items() if part.needs}


def _schema() -> dict[str, Any]:
    """Return what values may be: Helm refuses others before it renders anything."""
    flag, text = {"type": "boolean"}, {"type": "string", "minLength": 1}
    features = {
        "type": "object",
        "additionalProperties": False,
        "properties": dict.fromkeys(yaml.safe_load(_VALUES)["features"], flag),
        "allOf": [
            {
                "if": {"properties": {feature: {"const": True}}, "required": [feature]},
                "then": {"properties": {needed: {"const": True}}},
            }
            for feature, needed in _needs().items()
        ],
    }
    properties = {
        "global": {"type": "object"},
        "image": text,
        "replicas": {"type": "integer", "minimum": 1},
        "storage": {"type": "string", "pattern": "^[0-9]+([.][0-9]+)?([EPTGMk]|[EPTGMK]i)?$"},
        "certificates": {"enum": ["own", "certManager", "none"]},
        "clientCertificates": flag,
        "schedule": {"enum": ["builtIn", "cron"]},
        "networkPolicies": flag,
        "serviceMonitor": flag,
        "features": features,
        "settings": text,
    }
    about = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}
    return {**about, "additionalProperties": False, "properties": properties}


_NOTES: Final = """\
Co-location Advisor observes: it decides about each new pod, records, and changes nothing.

  kubectl -n {{ .Release.Namespace }} exec sts/colocation-advisor -- \\
    colocate --config /etc/colocate/settings/colocate.toml doctor

says what is missing. Namespaces are left alone by their label colocation.internal/ignore; on clusters older than 1.21
set it on kube-system and on {{ .Release.Namespace }}.
"""


def dump(documents: Sequence[Any]) -> str:
    """Return *documents* as a template."""
    text = yaml.safe_dump_all(documents, sort_keys=False, width=10_000, default_flow_style=False)
    return _MARK.sub(r"\1", text)


def documents() -> dict[str, str]:
    """Return the text of each file by its path below ``deploy``."""
    about = {
        "apiVersion": "v2",
        "name": "colocation-advisor",
        "description": "Learns which functions disturb which on a node, and advises where new pods should run.",
        "type": "application",
        "version": "0.1.0",
        "appVersion": "0.1.0",
        "kubeVersion": ">=1.21.0-0",
    }
    found = {
        "chart/Chart.yaml": yaml.safe_dump(about, sort_keys=False, width=118),
        "chart/values.yaml": _VALUES,
        "chart/values.schema.json": json.dumps(_schema(), indent=2) + "\n",
        "chart/templates/NOTES.txt": _NOTES,
        "chart/templates/webhook.yaml": _webhook(),
    }
    for name, build in BASE.items():
        found[f"chart/templates/{name}.yaml"] = dump(build(INSTALL))
    for name, part in CHOSEN.items():
        found[f"chart/templates/{name}.yaml"] = _when(part.chart, dump(part.build(INSTALL)))
    for name, path in _CRDS.items():
        found[f"chart/crds/{name}.yaml"] = (_HERE / path).read_text(encoding="utf-8")
    return found


def _when(condition: str, text: str, otherwise: str = "") -> str:
    other = f"{{{{- else }}}}\n{otherwise}" if otherwise else ""
    return f"{{{{- if {condition} }}}}\n{text}{other}{{{{- end }}}}\n"


def _webhook() -> str:
    injected: Manifest = traffic.webhook(INSTALL, **{traffic.INJECT: traffic.injected(INSTALL)})
    return _when(CHOSEN["cert-manager"].chart, dump([injected]), dump([traffic.webhook(INSTALL)]))
