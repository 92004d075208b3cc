"""Who talks to whom: services, the webhook, network policies, and what Prometheus scrapes."""

from typing import Any, Final

from deploy.install import IGNORE, KEEPER, NAME, PORT, TLS, TOKENS, WEBHOOK, Install, Manifest, labels, meta

#: Namespaces that the API server does not ask about, where it labels namespaces with their names (1.21 and newer).
SYSTEM: Final = ("kube-system", "kube-public", "kube-node-lease")


def namespace(install: Install) -> Manifest:
    """Return the namespace: out of the webhook by a label of ours, and for confined pods alone."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": install.namespace,
            "labels": {
                IGNORE: "true",
                "pod-security.kubernetes.io/enforce": "restricted",
                "pod-security.kubernetes.io/warn": "restricted",
            },
        },
    }


def service(name: str, component: str, install: Install) -> Manifest:
    """Return the service in front of the pods of *component*."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": meta(name, install, component),
        "spec": {
            "selector": labels(component),
            "ports": [{"name": "https", "port": 443, "targetPort": "https"}],
        },
    }


def webhook(install: Install, **annotations: str) -> Manifest:
    """Return what has the API server ask about each new pod, and create it as it is where nobody answers in time.

    The CA to trust is filled in by `colocate bootstrap` or, told by an annotation, by cert-manager.
    """
    noted: dict[str, Any] = {"annotations": annotations} if annotations else {}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": meta(NAME, None, "webhook", **noted),
        "webhooks": [
            {
                "name": "pods.colocation.internal",
                "admissionReviewVersions": ["v1"],
                "failurePolicy": "Ignore",
                "timeoutSeconds": 2,
                "sideEffects": "NoneOnDryRun",  # decisions are recorded, except those of dry runs
                "reinvocationPolicy": "IfNeeded",  # a second answer about the same pod has an empty patch
                "matchPolicy": "Equivalent",
                "clientConfig": {
                    "service": {"name": WEBHOOK, "namespace": install.namespace, "path": "/mutate", "port": 443}
                },
                "rules": [
                    {
                        "operations": ["CREATE"],
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "resources": ["pods"],
                        "scope": "Namespaced",
                    }
                ],
                "namespaceSelector": {
                    "matchExpressions": [
                        {
                            "key": "kubernetes.io/metadata.name",
                            "operator": "NotIn",
                            "values": [*SYSTEM, install.namespace],
                        },
                        {"key": IGNORE, "operator": "DoesNotExist"},
                    ]
                },
                "objectSelector": {
                    "matchExpressions": [
                        {"key": "app.kubernetes.io/name", "operator": "NotIn", "values": [NAME]},
                        {"key": IGNORE, "operator": "DoesNotExist"},
                    ]
                },
            }
        ],
    }


def policies(install: Install) -> list[Manifest]:
    """Return who may reach the pods: the port that serves, and nothing where none does.

    The API server has no address that a policy could name everywhere, so that the port is open to all: what is behind
    it asks for a token, but for reviews of pods. Egress is left alone: Prometheus and OpenWhisk may be anywhere.
    """

    def policy(name: str, component: str, ingress: list[Manifest]) -> Manifest:
        return {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": meta(name, install, component),
            "spec": {
                "podSelector": {"matchLabels": labels(component)},
                "policyTypes": ["Ingress"],
                "ingress": ingress,
            },
        }

    serving = [{"ports": [{"port": PORT, "protocol": "TCP"}]}]
    return [
        policy(NAME, "writer", serving),
        policy(WEBHOOK, "webhook", serving),
        policy(KEEPER, "bootstrap", []),
        policy(f"{NAME}-jobs", "jobs", []),
    ]


#: What replicas count of their own. All else they know from the writer, and it would count twice.
OF_REPLICAS: Final = (
    "(go|process|python)_.*",
    "colocation_(webhook|replica|watch)_.*",
    "colocation_snapshot_(age_seconds|loads_total|load_failures_total)",
    "colocation_(decisions|decisions_dropped|rules_left_out|refusals|unauthorized_requests|serving_restarts)_total",
)


def monitors(install: Install) -> list[Manifest]:
    """Return what the Prometheus operator scrapes: our labels are kept, since they name the observed, not the pod."""

    def monitor(name: str, component: str, **more: Any) -> Manifest:
        endpoint = {
            "port": "https",
            "scheme": "https",
            "path": "/metrics",
            "interval": "30s",
            "honorLabels": True,
            "authorization": {"type": "Bearer", "credentials": {"name": TOKENS, "key": "token"}},
            "tlsConfig": {"serverName": install.host(name), "ca": {"secret": {"name": TLS, "key": "ca.crt"}}},
        }
        return {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "ServiceMonitor",
            "metadata": meta(name, install, component),
            "spec": {
                "selector": {"matchLabels": labels(component)},
                "namespaceSelector": {"matchNames": [install.namespace]},
                "endpoints": [{**endpoint, **more}],
            },
        }

    own = {"sourceLabels": ["__name__"], "regex": "|".join(OF_REPLICAS), "action": "keep"}
    return [monitor(NAME, "writer"), monitor(WEBHOOK, "webhook", metricRelabelings=[own])]


def certificates(install: Install) -> list[Manifest]:
    """Return a CA and the service's certificate, kept by cert-manager."""
    api = "cert-manager.io/v1"
    ca, root = f"{NAME}-ca", f"{NAME}-selfsigned"
    key = {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"}
    return [
        {"apiVersion": api, "kind": "Issuer", "metadata": meta(root, install), "spec": {"selfSigned": {}}},
        {
            "apiVersion": api,
            "kind": "Certificate",
            "metadata": meta(ca, install),
            "spec": {
                "isCA": True,
                "commonName": ca,
                "secretName": ca,
                "duration": "43800h",
                "privateKey": {"algorithm": "ECDSA", "size": 256},
                "issuerRef": {"name": root, "kind": "Issuer"},
            },
        },
        {"apiVersion": api, "kind": "Issuer", "metadata": meta(NAME, install), "spec": {"ca": {"secretName": ca}}},
        {
            "apiVersion": api,
            "kind": "Certificate",
            "metadata": meta(NAME, install),
            "spec": {
                "secretName": TLS,
                "dnsNames": [install.host(NAME), install.host(WEBHOOK)],
                "usages": ["server auth", "digital signature"],
                "duration": "2160h",
                "renewBefore": "720h",
                "privateKey": key,
                "issuerRef": {"name": NAME, "kind": "Issuer"},
            },
        },
    ]


def injected(install: Install) -> str:
    """Return what tells cert-manager where the CA of the webhook is."""
    return f"{install.namespace}/{NAME}"


INJECT: Final = "cert-manager.io/inject-ca-from"
