"""The one error tree of the project (floor 1).

    FleetfoldError
    ├── InvalidNodeIdError          a text that cannot be a node id
    ├── InvalidSubjectError         a subject that is none of ours
    ├── UnreadableError             a body that cannot be read: goes to quarantine, with a reason code
    ├── ConflictError               an append whose expectation no longer held
    ├── OversizedError              a record that the stream would refuse
    ├── StreamDriftError            a stream that exists with another configuration than declared
    ├── BrokerUnavailableError      no answer from the broker in time
    ├── LogGapError                 a hole in a stream that the broker could not prove
    ├── EpochChangedError           a stream was deleted and made again
    ├── LogRewoundError             a stream ends before the cursor, or holds another record there
    ├── StoreError                  the DuckDB file cannot be used
    ├── SettingsError               a setting that is unknown or breaks a rule
    ├── UnreachableError            no usable answer from the API
    └── RefusedError                a request that is understood and not allowed

Each says what, which and what now, and keeps the parts as fields. `code` is stable: it is what the wire,
the quarantine table and the counters carry.
"""

from __future__ import annotations

from typing import ClassVar


class FleetfoldError(Exception):
    """Anything that this project raises on purpose."""

    code: ClassVar[str] = "error"


class InvalidNodeIdError(FleetfoldError):
    """A text that cannot be a node id."""

    code = "invalid_node_id"

    def __init__(self, text: str, *, why: str) -> None:
        self.text, self.why = text, why
        super().__init__(f"{text[:80]!r} cannot be a node id: {why}")


class InvalidSubjectError(FleetfoldError):
    """A subject that none of our streams would carry."""

    code = "invalid_subject"

    def __init__(self, subject: str, *, why: str) -> None:
        self.subject, self.why = subject, why
        super().__init__(f"subject {subject[:200]!r} is not one of ours: {why}")


class UnreadableError(FleetfoldError):
    """A body that cannot be read as what its subject says.

    `reason` is one of the stable codes in `events.reasons`, `field` the path of the member ("" for all).
    """

    code = "unreadable"

    def __init__(self, reason: str, *, field: str = "", detail: str = "") -> None:
        self.reason, self.field, self.detail = reason, field, detail
        where = f" at {field}" if field else ""
        why = f": {detail}" if detail else ""
        super().__init__(f"{reason}{where}{why}: correct it and send it again")


class ConflictError(FleetfoldError):
    """The log holds a newer record about this node than the writer had read."""

    code = "version_conflict"

    def __init__(self, about: str, *, expected: int, found: int | None) -> None:
        self.about, self.expected, self.found = about, expected, found
        at = "a newer version" if found is None else f"version {found}"
        super().__init__(f"{about} is at {at}, expected {expected}: read it again and retry")


class OversizedError(FleetfoldError):
    """A record larger than the stream takes."""

    code = "oversized"

    def __init__(self, subject: str, *, size_bytes: int, limit_bytes: int) -> None:
        self.subject, self.size_bytes, self.limit_bytes = subject, size_bytes, limit_bytes
        super().__init__(
            f"the record for {subject} has {size_bytes} bytes, the limit is {limit_bytes}: "
            f"send fewer or shorter members"
        )


class StreamDriftError(FleetfoldError):
    """A stream exists, but not as declared. It is never changed silently."""

    code = "stream_drift"

    def __init__(self, stream: str, *, differences: dict[str, tuple[object, object]]) -> None:
        self.stream, self.differences = stream, differences
        listed = "; ".join(
            f"{name} is {have!r}, declared {want!r}" for name, (have, want) in sorted(differences.items())
        )
        super().__init__(
            f"stream {stream} differs from its declaration: {listed}: "
            f"change it with the nats tool, or declare what you want in the settings"
        )


class BrokerUnavailableError(FleetfoldError):
    """The broker did not answer in time, or there is no connection."""

    code = "broker_unavailable"

    def __init__(self, doing: str, *, why: str) -> None:
        self.doing, self.why = doing, why
        super().__init__(f"{doing}: the broker did not answer ({why}): check that it runs and retry")


class LogGapError(FleetfoldError):
    """Records are missing and the broker does not say that they are deleted."""

    code = "log_gap"

    def __init__(self, stream: str, *, low: int, high: int, found: int) -> None:
        self.stream, self.low, self.high, self.found = stream, low, high, found
        super().__init__(
            f"stream {stream}: records {low} to {high} were not delivered, but the broker still has {found}: "
            f"they are asked for again, look at the broker's own log if this goes on"
        )


class EpochChangedError(FleetfoldError):
    """The stream was deleted and made again: its sequences now mean other records."""

    code = "epoch_changed"

    def __init__(self, stream: str, *, known: str, found: str) -> None:
        self.stream, self.known, self.found = stream, known, found
        super().__init__(
            f"stream {stream} was created at {found}, the stored position belongs to the one created at "
            f"{known}: it is another log, with which the service begins anew by itself"
        )


class LogRewoundError(FleetfoldError):
    """The stream ends before the stored position, or holds another record there."""

    code = "log_rewound"

    def __init__(self, stream: str, *, cursor_seq: int, last_seq: int, why: str) -> None:
        self.stream, self.cursor_seq, self.last_seq, self.why = stream, cursor_seq, last_seq, why
        super().__init__(
            f"stream {stream} went back ({why}): it ends at {last_seq}, the stored position is {cursor_seq}: "
            f"a backup was restored or a tail was lost, and the service begins anew with it by itself"
        )


class StoreError(FleetfoldError):
    """The DuckDB file cannot be opened, read or written.

    `is_fatal` says that the open file will never work again: it has to be moved aside and built anew.
    """

    code = "store"

    def __init__(self, path: str, *, why: str, instead: str = "", is_fatal: bool = False) -> None:
        self.path, self.why, self.instead, self.is_fatal = path, why, instead, is_fatal
        super().__init__(f"the tables in {path} cannot be used ({why})" + (f": {instead}" if instead else ""))


class SettingsError(FleetfoldError):
    """A setting that nobody knows, or a value that breaks its rule."""

    code = "setting"


class UnreachableError(FleetfoldError):
    """The API of a server gives no usable answer now."""

    code = "unreachable"

    def __init__(self, url: str, *, why: str, instead: str = "") -> None:
        self.url, self.why, self.instead = url, why, instead
        super().__init__(f"{url} {why}: {instead}" if instead else f"{url} {why}")


class RefusedError(FleetfoldError):
    """A request that is understood and not allowed; `instead` names the right way, where there is one."""

    code = "refused"

    def __init__(self, code: str, message: str, *, instead: str = "") -> None:
        self.reason, self.instead = code, instead
        super().__init__(f"{message}: {instead}" if instead else message)
