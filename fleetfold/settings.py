"""What can be set, with its default and its rule (floor 4). Reading it from its places is `settings_sources`.

A setting is one leaf of `Settings`: `liveness.interval_s` is `FLEETFOLD_LIVENESS__INTERVAL_S` in the
environment and `interval_s` under `[liveness]` in `fleetfold.toml`. An empty string means "not set"
everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from fleetfold.addresses import DEFAULT_HTTP, host_and_port, is_loopback
from fleetfold.dialect_settings import AriaSettings, CaravanseraiSettings, FuseSettings, StratumSettings
from fleetfold.liveness_settings import LivenessSettings
from fleetfold.setting_group import Group

ENV_PREFIX = "FLEETFOLD_"
ENV_BETWEEN_LEVELS = "__"
TOML_FILE = "fleetfold.toml"
DEFAULT_BROKER_PORT = 4222


class NatsSettings(Group):
    """Where the broker is."""

    url: str | None = Field(
        default=None,
        description="The broker to use; `up` starts one of its own on 127.0.0.1:4222 where none is given",
        json_schema_extra={"flag": "--nats"},
    )

    @field_validator("url")
    @classmethod
    def _is_a_broker_url(cls, url: str | None) -> str | None:
        if url is not None and urlsplit(url).scheme not in {"nats", "tls", "ws", "wss"}:
            raise ValueError("a broker's address looks like nats://127.0.0.1:4222")
        return url


class SqlSettings(Group):
    """Where analysts' SQL is answered."""

    url: str | None = Field(
        default=None,
        description="The SQL replica that `POST /fleet/v1/sql` goes to; none: `up` and `serve` start one",
    )
    timeout_s: float = Field(
        default=30.0, gt=0, le=3_600, description="Seconds after which a replica stops a statement"
    )
    max_rows: int = Field(
        default=1_000_000, ge=1, description="Rows that a replica returns at most, whatever is asked for"
    )
    memory_bytes: int = Field(
        default=2**30, ge=2**27, description="Memory of a replica's engine, for tables and statements alike"
    )
    address_space_bytes: int = Field(
        default=2**32,
        ge=2**31,
        description="Addresses that a replica may have; a statement that wants more fails, the rest goes on",
    )

    @field_validator("url")
    @classmethod
    def _is_an_http_url(cls, url: str | None) -> str | None:
        if url is not None and urlsplit(url).scheme not in {"http", "https"}:
            raise ValueError("a replica's address looks like http://127.0.0.1:8471")
        return url


class Settings(BaseSettings):
    """Every setting of a process; frozen, checked as a whole."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        env_prefix=ENV_PREFIX,
        env_nested_delimiter=ENV_BETWEEN_LEVELS,
        env_ignore_empty=True,
        hide_input_in_errors=True,
    )

    http: str = Field(
        default=DEFAULT_HTTP,
        description="Where the API and the page listen; port 0 takes a free one",
        json_schema_extra={"flag": "--http"},
    )
    data: Path = Field(
        default=Path("fleetfold-data"),
        description="Folder of the broker's store and the tables",
        json_schema_extra={"flag": "--data"},
    )
    ephemeral: bool = Field(
        default=False,
        description="Empty temporary store, free ports, no agent, gone at exit",
        json_schema_extra={"flag": "--ephemeral"},
    )
    admin_token: SecretStr | None = Field(
        default=None,
        description="Bearer token that native routes ask for (not `livez`, `readyz`); none: loopback only",
    )
    nats: NatsSettings = NatsSettings()
    liveness: LivenessSettings = LivenessSettings()
    sql: SqlSettings = SqlSettings()
    fuse: FuseSettings = FuseSettings()
    caravanserai: CaravanseraiSettings = CaravanseraiSettings()
    aria: AriaSettings = AriaSettings()
    stratum: StratumSettings = StratumSettings()

    @field_validator("http")
    @classmethod
    def _is_host_and_port(cls, text: str) -> str:
        host_and_port(text)
        return text

    @field_validator("admin_token")
    @classmethod
    def _fits_a_header(cls, token: SecretStr | None) -> SecretStr | None:
        if token is not None and not all("!" <= character <= "~" for character in token.get_secret_value()):
            raise ValueError("a token is printable ASCII without spaces, since it travels in a header")
        return token

    @model_validator(mode="after")
    def _strangers_need_a_token(self) -> Self:
        host, _ = host_and_port(self.http)
        if self.admin_token is None and not is_loopback(host):
            raise ValueError(
                f"{self.http} can be reached from other machines, and no token is set: "
                f"set {ENV_PREFIX}ADMIN_TOKEN, or listen on 127.0.0.1"
            )
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the places in the order of their weight: arguments, environment, file."""
        return init_settings, env_settings, _TomlWithoutEmpty(settings_cls, TOML_FILE)


class _TomlWithoutEmpty(TomlConfigSettingsSource):
    """The file, without the members that are empty strings."""

    def __call__(self) -> dict[str, Any]:
        """Return what the file sets."""
        return without_empty(super().__call__())


def without_empty(table: dict[str, Any]) -> dict[str, Any]:
    """Return the table without its empty strings, at every level."""
    kept = {name: without_empty(value) if isinstance(value, dict) else value for name, value in table.items()}
    return {name: value for name, value in kept.items() if value not in ("", {})}


def token_of(settings: Settings) -> str:
    """Return the admin token, "" where none is set."""
    return settings.admin_token.get_secret_value() if settings.admin_token is not None else ""


def secrets_of(settings: Settings) -> list[str]:
    """Return every secret that is set, to be kept out of the log."""
    found: list[str] = []
    for leaf in leaves():
        value: object = settings
        for name in leaf.path:
            value = getattr(value, name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, SecretStr):
                found.append(part.get_secret_value())
    return found


@dataclass(frozen=True, slots=True)
class Leaf:
    """One setting: its path from the root, and where it can be given."""

    path: tuple[str, ...]
    annotation: Any
    default: Any
    description: str
    flag: str

    @property
    def name(self) -> str:
        """Return the dotted name."""
        return ".".join(self.path)

    @property
    def variable(self) -> str:
        """Return the name of the environment variable."""
        return ENV_PREFIX + ENV_BETWEEN_LEVELS.join(self.path).upper()


def leaves() -> tuple[Leaf, ...]:
    """Return every setting, in the order of its declaration."""
    found: list[Leaf] = []
    for name, field in Settings.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, Group):
            found += [_leaf((name, below), field) for below, field in inner.model_fields.items()]
        else:
            found.append(_leaf((name,), field))
    return tuple(found)


def _leaf(path: tuple[str, ...], field: FieldInfo) -> Leaf:
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    return Leaf(path, field.annotation, field.default, field.description or "", str(extra.get("flag", "")))
