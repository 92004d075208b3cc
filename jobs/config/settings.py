"""All settings, and how they are read from a TOML file and the environment (``COLOCATE_``, ``__``)."""

import contextlib
import os
import tomllib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from jobs.config.serving import LogSettings, ReplicaSettings, ServeSettings, TraceSettings
from jobs.config.sources import ClusterSettings
from jobs.config.work import (
    AdviceSettings,
    DiskSettings,
    HostsSettings,
    LearnSettings,
    RegionsSettings,
    ScheduleSettings,
    StoreSettings,
)
from pipeline.errors import BadInput


class _Environment(EnvSettingsSource):
    """The environment, where nesting of any depth is an error like others."""

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        """Return the JSON *value* of a variable that ends in *field_name*; raises `ValueError` of its name."""
        try:
            return super().decode_complex_value(field_name, field, value)
        except (ValueError, RecursionError):
            ends = (f"_{field_name}".upper(), value)
            found = [name for name, given in os.environ.items() if (name[-len(ends[0]) :].upper(), given) == ends]
            raise ValueError(" or ".join(found)) from None


class Settings(BaseSettings):
    """All settings; see README.md for the reference made from these descriptions."""

    model_config = SettingsConfigDict(env_prefix="COLOCATE_", env_nested_delimiter="__", extra="forbid", frozen=True)

    # Asks for the working directory, which may be gone: as settings are read, not as this is imported.
    store: StoreSettings = Field(default_factory=StoreSettings)
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
        return _Environment(settings_cls), init_settings

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
_NOT_SETTINGS = frozenset({"COLOCATE_CONFIG", "COLOCATE_LOGGED"})


def load(path: Path | None) -> Settings:
    """Read the settings from *path* (default ``colocate.toml`` if present) under the environment's.

    Files that they name are relative to the working directory, wherever they are named, or begin with ``~``, and come
    out in full.
    Raises `BadInput` in one line naming the file or variable and the field.
    """
    where = path if path is not None else Path(os.environ.get("COLOCATE_CONFIG", "colocate.toml"))
    given: dict[str, Any] = {}
    if path is not None or "COLOCATE_CONFIG" in os.environ or where.exists():
        try:
            given = tomllib.loads(where.read_text(encoding="utf-8-sig"))
        except OSError as error:
            raise BadInput(f"{_in_full(where)}: {error.strerror}") from None
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise BadInput(f"{where}: {str(error).splitlines()[0]}") from None
        except ValueError:  # of Python's, that reads no number of thousands of digits
            raise BadInput(f"{where}: a number has too many digits") from None
        except RecursionError:
            raise BadInput(f"{where}: nested too deep") from None
    known = {f"COLOCATE_{name.upper()}" for name in Settings.model_fields}
    for variable in os.environ:
        upper = variable.upper()
        if upper.startswith("COLOCATE_") and upper not in _NOT_SETTINGS and upper.split("__")[0] not in known:
            raise BadInput(f"environment variable {variable}: no such setting")
    try:
        return _from_here(Settings(**given))
    except FileNotFoundError:  # of the working directory: nothing else is looked for
        raise BadInput("the working directory, which files are relative to, is not there any more") from None
    except SettingsError as error:
        raise BadInput(f"environment variable {error.__cause__}: is no JSON") from None
    except RecursionError:  # of what both say of one setting
        raise BadInput(f"{where} or environment: nested too deep") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        reason = _plain(first["type"]) or first["msg"].removeprefix("Value error, ")
        raise BadInput(f"{where} or environment: {field or 'settings'}: {reason}") from None


_Model = TypeVar("_Model", bound=BaseModel)


def _from_here(group: _Model) -> _Model:
    """Return *group* with each file that it names in full, so that every message says which one is meant."""
    return group.model_copy(update={name: _named(getattr(group, name)) for name in type(group).model_fields})


def _named(value: Any) -> Any:
    if isinstance(value, Path):
        with contextlib.suppress(RuntimeError):  # of a user without a home, as containers have them
            value = value.expanduser()
        return value.absolute()
    if isinstance(value, BaseModel):
        return _from_here(value)
    return [_named(each) for each in value] if isinstance(value, list) else value


def _in_full(path: Path) -> Path:
    with contextlib.suppress(FileNotFoundError):  # without a working directory there is no more to say
        return path.absolute()
    return path


def _plain(kind: str) -> str:
    """Return what is wrong in the words of this product, where its own settings have a form that pydantic does not
    know."""
    if kind == "extra_forbidden":
        return "no such setting"
    if kind.startswith("time_delta"):
        return "must be a span such as 30s, 5m, 24h or 14d"
    return ""
