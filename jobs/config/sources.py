"""Settings of what is collected from: clusters, and of each its API server, Prometheus and OpenWhisk."""

from datetime import timedelta
from typing import Annotated

from pydantic import Field, SecretStr, model_validator

from jobs.config.values import Bearer, File, Group, Headers, Span, base_url


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
    url: Annotated[str, base_url("give username and password, or token or token_file")] = Field(
        description="base URL, without credentials"
    )
    token: Bearer | None = Field(None, description="bearer token")
    token_file: File | None = Field(None, description="file holding the bearer token, read again for each collection")
    username: str | None = Field(None, description="basic auth user")
    password: SecretStr | None = Field(None, description="basic auth password")
    ca_file: File | None = Field(None, description="CA certificates to verify the server with")
    insecure: bool = Field(False, description="do not verify the server's certificate")
    headers: Headers = Field(default_factory=dict, description="extra headers, such as X-Scope-OrgID")
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
        if self.token is not None and self.token_file is not None:
            raise ValueError("give token or token_file, not both")
        if self.password is not None and self.username is None:
            raise ValueError("password: needs username")
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
    url: Annotated[str, base_url("give the key of each of namespaces, as key_file, key_env or key")] = Field(
        description="API host, https://HOST[:PORT]"
    )
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


#: What a cluster may be called.
CLUSTER_NAME = r"^[^\x00-\x1f\x7f]*$"


class ClusterSettings(Group):
    name: str = Field(
        min_length=1,
        pattern=CLUSTER_NAME,
        description="name of the cluster in every table, metric and answer",
    )
    kubernetes: KubernetesSettings | None = None
    prometheus: PrometheusSettings | None = None
    openwhisk: OpenWhiskSettings | None = None
