"""Settings of processes that run for long: where they listen, whom they follow, what they log and trace."""

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field, model_validator

from jobs.config.values import File, Group, Headers, Secret, Span, base_url


class ServeSettings(Group):
    cluster: str | None = Field(
        None,
        description="the cluster whose pods are admitted; default: the only one configured; name an imported one",
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
    token: Secret | None = Field(None, description="bearer token asked for by everything but health")
    token_file: File | None = Field(None, description="file holding the bearer token")
    replica_token: Secret | None = Field(
        None, description="bearer token that opens only what replicas ask their writer for"
    )
    replica_token_file: File | None = Field(None, description="file holding the token of replicas")
    open_admission: bool = Field(
        False, description="answer /mutate to anybody: for API servers that show webhooks no certificate"
    )
    workers: int = Field(1, ge=1, description="serving processes")
    metrics_pairs: int = Field(100, ge=0, description="pairs, functions and drives in the metrics: the strongest")


class ReplicaSettings(Group):
    writer: Annotated[str, base_url("give token or token_file")] | None = Field(
        None,
        description="base URL of the service that collects and learns: this one then answers from that one's "
        "snapshot, and hands its decisions back",
    )
    token: Secret | None = Field(None, description="bearer token for the writer (its `serve.replica_token`)")
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


class LogSettings(Group):
    form: Literal["json", "console"] = Field(
        "json", description="json: an object a line, for programs; console: a line for people"
    )
    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="least of what runs for long logs; a command logs warnings, with `--verbose` this"
    )


class TraceSettings(Group):
    endpoint: Annotated[str, base_url("give headers")] | None = Field(
        None,
        description="base URL that takes OpenTelemetry traces by OTLP over HTTP, such as http://collector:4318; "
        "needs the extra `otel`",
    )
    headers: Headers = Field(default_factory=dict, description="extra headers, such as Authorization")
    ca_file: File | None = Field(None, description="CA certificates to verify it with")
    ratio: float = Field(
        1.0, ge=0, le=1, description="share of traces that are kept, where the caller has not decided that already"
    )
    timeout: Span = Field(timedelta(seconds=5), description="limit of one batch, its repetitions included")
