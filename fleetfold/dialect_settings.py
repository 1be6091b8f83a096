"""What can be set about the dialects (floor 4), and how the API takes it."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from decimal import Decimal
from ipaddress import ip_network
from typing import TYPE_CHECKING, Literal

from pydantic import Field, SecretStr, field_validator

from fleetfold.setting_group import Group

if TYPE_CHECKING:
    from api.dialects.rules import DialectRules
    from fleetfold.settings import Settings

Secrets = tuple[SecretStr, ...]
Profile = Literal["safe", "documented"]
KEY_BYTES = 32
# Of a Fernet key: half of it signs, half of it encrypts.


class FuseSettings(Group):
    """The dialect `fuse`."""

    master_token: SecretStr | None = Field(
        default=None,
        description="Bearer token of the dialect `fuse` for everything; none: open, as its document says",
    )
    api_keys: Secrets = Field(
        default=(), description="Further keys of the dialect `fuse`, which may not register hosts (JSON list)"
    )
    registration: Literal["enabled", "disabled"] = Field(
        default="enabled", description="Whether hosts may register through the dialect `fuse`"
    )
    reregister: Profile = Field(
        default="safe",
        description="What a second registration may overwrite: `safe` keeps what operators decided",
    )
    agent_networks: tuple[str, ...] = Field(
        default=(),
        description="The only networks in which hosts' agents are asked (JSON list, such as "
        '`["10.0.0.0/8"]`); none: all but link-local, multicast and the addresses at which clouds hand out '
        "credentials",
    )
    probe_timeout_s: float = Field(
        default=5.0, gt=0, le=60, description="Seconds that a host's agent has to answer in all"
    )
    secrets_key: SecretStr | None = Field(
        default=None,
        description="Seals the tokens of hosts' agents where they are kept: 32 random bytes in URL-safe "
        "base64; none: they lie in a file that only its owner may read",
    )

    @field_validator("agent_networks")
    @classmethod
    def _are_networks(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        for text in texts:
            try:
                ip_network(text)
            except ValueError as err:
                raise ValueError("a network looks like 10.0.0.0/8 or fd00::/8, without host bits") from err
        return texts

    @field_validator("secrets_key")
    @classmethod
    def _is_a_key(cls, key: SecretStr | None) -> SecretStr | None:
        if key is not None:
            try:
                is_long_enough = len(urlsafe_b64decode(key.get_secret_value())) == KEY_BYTES
            except ValueError:
                is_long_enough = False
            if not is_long_enough:
                raise ValueError("a key is what `openssl rand -base64 32 | tr +/ -_` says")
        return key


class CaravanseraiSettings(Group):
    """The dialect `caravanserai`."""

    name_rule: Literal["label", "subdomain"] = Field(
        default="label", description="Which names the dialect `caravanserai` takes"
    )
    heartbeat_state: Profile | None = Field(
        default=None,
        description="What a beat's state of the dialect `caravanserai` may do: `safe` never ends a drain, "
        "`documented` does; none: as `fuse.reregister`, which is the switch for all dialects",
    )


class AriaSettings(Group):
    """The dialect `aria-pin`."""

    agent_tokens: Secrets = Field(
        default=(), description="Tokens with which agents of the dialect `aria-pin` register (JSON list)"
    )


class HostReservation(Group):
    """What a host keeps for itself."""

    vcpus: float = Field(default=0, ge=0)
    memory_bytes: int = Field(default=0, ge=0)


class StratumSettings(Group):
    """The dialect `stratum`."""

    agent_tokens: Secrets = Field(
        default=(), description="Tokens of agents of the dialect `stratum` (JSON list)"
    )
    user_tokens: Secrets = Field(default=(), description="Tokens of its readers (JSON list)")
    admin_tokens: Secrets = Field(default=(), description="Tokens of its operators (JSON list)")
    default_region: str = Field(default="default", description="Region of a node that names none")
    default_availability_zone: str = Field(
        default="default", description="Availability zone of a node that names none"
    )
    topology: Literal["cluster", "single-node"] = Field(
        default="cluster", description="What the dialect `stratum` says it is"
    )
    host_reservation: HostReservation | None = Field(
        default=None,
        description='What each host keeps for itself: JSON `{"vcpus": 2, "memory_bytes": 4294967296}`',
    )


def dialect_rules(settings: Settings) -> DialectRules:
    """Return what is set about the dialects as the API takes it."""
    from api.dialects import rules  # noqa: PLC0415 - not needed to read settings

    fuse, stratum, liveness = settings.fuse, settings.stratum, settings.liveness
    kept = stratum.host_reservation
    pinned: dict[str, float] = dict(liveness.dialect_intervals_s.items())
    return rules.DialectRules(
        intervals_s={
            name: pinned.get(name, round(liveness.interval_s * times, 6))
            for name, times in rules.INTERVALS.items()
        },
        caravanserai=rules.CaravanseraiRules(
            name_rule=settings.caravanserai.name_rule,
            heartbeat_state=settings.caravanserai.heartbeat_state or fuse.reregister,
        ),
        fuse=rules.FuseRules(
            master_token="" if fuse.master_token is None else fuse.master_token.get_secret_value(),
            api_keys=_texts(fuse.api_keys),
            may_register=fuse.registration == "enabled",
            reregister=fuse.reregister,
            agent_networks=fuse.agent_networks,
            probe_timeout_s=fuse.probe_timeout_s,
        ),
        aria_pin=rules.AriaRules(agent_tokens=_texts(settings.aria.agent_tokens)),
        stratum=rules.StratumRules(
            agent_tokens=_texts(stratum.agent_tokens),
            user_tokens=_texts(stratum.user_tokens),
            admin_tokens=_texts(stratum.admin_tokens),
            default_region=stratum.default_region,
            default_availability_zone=stratum.default_availability_zone,
            is_single_node=stratum.topology == "single-node",
            host_reservation=None
            if kept is None
            else rules.HostReservation(Decimal(str(kept.vcpus)), kept.memory_bytes),
        ),
    )


def secrets_key(settings: Settings) -> str:
    """Return the key that seals tokens where they are kept, "" without one."""
    key = settings.fuse.secrets_key
    return "" if key is None else key.get_secret_value()


def _texts(secrets: Secrets) -> tuple[str, ...]:
    return tuple(secret.get_secret_value() for secret in secrets)
