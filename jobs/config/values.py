"""The forms that settings are given in: spans of time, files, headers, names of labels."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, SecretStr

from pipeline.clients.urls import plain, split
from pipeline.errors import BadInput

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


def base_url(instead: str) -> AfterValidator:
    """Return the check of a base URL; where it has a user or a password, *instead* says where these belong.

    No message has a part of the URL: what stands in it may be a secret.
    """

    def check(url: str) -> str:
        try:
            parts = split("url", url)
        except BadInput:
            raise ValueError("must be http(s)://HOST[:PORT][/PATH]") from None
        if "@" in parts.netloc:
            raise ValueError(f"must be without user and password: {instead}")
        if parts.query or parts.fragment:
            raise ValueError("must be http(s)://HOST[:PORT][/PATH], without a query")
        return url.strip()

    return AfterValidator(check)


def _told(value: SecretStr) -> SecretStr:
    if not value.get_secret_value().strip():
        raise ValueError("is empty: nobody would be asked for it")
    return value


#: A token that is empty, such as that of a variable which is not set, is a mistake and never no token.
Secret = Annotated[SecretStr, AfterValidator(_told)]


def _plain(value: SecretStr) -> SecretStr:
    if not plain(value.get_secret_value()):
        raise ValueError("is not one line of plain characters")
    return value


#: A token that is sent in a header.
Bearer = Annotated[SecretStr, AfterValidator(_plain)]

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def _sendable(value: dict[str, SecretStr]) -> dict[str, SecretStr]:
    for name, secret in value.items():
        given = secret.get_secret_value()
        if not _HEADER.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a header")
        if not plain(given) or given != given.strip():
            raise ValueError(f"{name}: the value is not one line of plain characters")
    return value


Headers = Annotated[dict[str, SecretStr], AfterValidator(_sendable)]

#: What a label's key, and the domain before its slash, look like.
LABEL = r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
DOMAIN = r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"


class Group(BaseModel):
    """A group of settings; a misspelled field is an error, not a default."""

    model_config = ConfigDict(extra="forbid", frozen=True)
