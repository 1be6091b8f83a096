"""Create the streams, or check them (floor 1, edge). An existing stream is never changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from events.errors import BrokerUnavailableError, RefusedError, StreamDriftError
from events.jetstream import NO_SUCH_STREAM, STREAM_NAME_IN_USE, SUBJECTS_OVERLAP, ask, error_code
from events.streams import ALL, StreamSpec, config

if TYPE_CHECKING:
    from nats.aio.client import Client


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """What the broker says of a stream. `epoch` is its creation time, spelled as the broker spells it."""

    name: str
    epoch: str
    first_seq: int
    last_seq: int
    size_bytes: int
    config: dict[str, Any]


async def ensure_streams(
    nc: Client, specs: tuple[StreamSpec, ...] = ALL, *, timeout_s: float = 10.0
) -> dict[str, str]:
    """Return the epoch of each declared stream by name, after creating those that are missing.

    Two processes may do this at once. Raises StreamDriftError where a stream exists otherwise than declared,
    RefusedError where the broker will not have it, BrokerUnavailableError where nobody answers.
    """
    return {spec.name: (await _ensure(nc, spec, timeout_s=timeout_s)).epoch for spec in specs}


async def stream_info(nc: Client, name: str, *, timeout_s: float = 5.0) -> StreamInfo:
    """Return what the broker says of a stream; raise BrokerUnavailableError where there is none."""
    doing = f"looking at stream {name}"
    answer = await ask(nc, f"STREAM.INFO.{name}", doing=doing, timeout_s=timeout_s)
    if "error" in answer:
        raise BrokerUnavailableError(doing, why=_description(answer))
    return _info(answer)


async def _ensure(nc: Client, spec: StreamSpec, *, timeout_s: float) -> StreamInfo:
    doing = f"creating stream {spec.name}"
    answer = await ask(nc, f"STREAM.INFO.{spec.name}", doing=doing, timeout_s=timeout_s)
    if error_code(answer) == NO_SUCH_STREAM:
        answer = await ask(nc, f"STREAM.CREATE.{spec.name}", config(spec), doing=doing, timeout_s=timeout_s)
        if error_code(answer) == STREAM_NAME_IN_USE:
            # Somebody else made it since we asked; what they made is compared like any other.
            answer = await ask(nc, f"STREAM.INFO.{spec.name}", doing=doing, timeout_s=timeout_s)
    if error_code(answer) == SUBJECTS_OVERLAP:
        taken = ("taken by another stream", list(spec.subjects))
        raise StreamDriftError(spec.name, differences={"subjects": taken})
    if "error" in answer:
        message = f"the broker refuses stream {spec.name}: {_description(answer)}"
        raise RefusedError("stream_refused", message, instead="see the limits of its JetStream account")
    found = _info(answer)
    differences = drift(found.config, config(spec))
    if differences:
        raise StreamDriftError(spec.name, differences=differences)
    return found


def drift(found: dict[str, Any], declared: dict[str, Any]) -> dict[str, tuple[object, object]]:
    """Return the declared members that differ, each as (found, declared); lists are compared as sets.

    The broker leaves out what is false or zero, so a missing member counts as that.
    """
    differences: dict[str, tuple[object, object]] = {}
    for name, want in declared.items():
        have = found.get(name, type(want)())
        is_same = sorted(have) == sorted(want) if isinstance(want, list) else have == want
        if not is_same:
            differences[name] = (have, want)
    return differences


def _info(answer: dict[str, Any]) -> StreamInfo:
    state = answer["state"]
    return StreamInfo(
        name=answer["config"]["name"],
        epoch=answer["created"],
        first_seq=state["first_seq"],
        last_seq=state["last_seq"],
        size_bytes=state["bytes"],
        config=answer["config"],
    )


def _description(answer: dict[str, Any]) -> str:
    error = answer["error"]
    return f"{error.get('description', 'no reason given')} (code {error_code(answer)})"
