"""Where the Kubernetes API is and how to log in there: kubeconfig, in-cluster configuration, environment."""

import os
from pathlib import Path

import yaml
from kubernetes.client import Configuration
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config

from pipeline.errors import BadInput

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


def configuration(kubeconfig: Path | None, context: str | None) -> Configuration:
    """Read the credentials as they are now: *kubeconfig*, else KUBECONFIG, else in-cluster, else ~/.kube/config.

    Exec plugins are run and token files are read. Raises `BadInput` naming the file, without its content.
    """
    found = Configuration()
    given = str(kubeconfig) if kubeconfig is not None else os.environ.get("KUBECONFIG", "")
    in_cluster = not given and "KUBERNETES_SERVICE_HOST" in os.environ and _SERVICE_ACCOUNT.exists()
    where = "in-cluster configuration" if in_cluster else given or "~/.kube/config"
    try:
        if in_cluster:
            load_incluster_config(client_configuration=found)  # type: ignore[no-untyped-call]
        elif not any(_expanded(each).exists() for each in where.split(os.pathsep) if each):
            fix = "clusters.kubernetes.kubeconfig or KUBECONFIG names one"
            raise BadInput(f"{where}: no such kubeconfig ({fix})")
        else:
            load_kube_config(  # type: ignore[no-untyped-call]
                where, context=context, client_configuration=found, persist_config=False
            )
    except ConfigException as error:
        raise BadInput(f"{where}: {_harmless(str(error))}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{where}: {getattr(error, 'strerror', None) or 'cannot be read'}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise BadInput(f"{where}: is no YAML{f' (line {mark.line + 1})' if mark else ''}") from None
    except (TypeError, KeyError, ValueError, AttributeError):
        # What the official loader runs into where a part of the file has another shape than it expects.
        raise BadInput(f"{where}: is no kubeconfig") from None
    return found


def _expanded(name: str) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError:  # a user without a home, as containers have them
        return Path(name)


def _harmless(message: str) -> str:
    """The first line, unless it may quote what a login program printed."""
    first = message.split("\n")[0]
    return "the login program (exec) failed" if first.startswith("exec:") else first[:200]
