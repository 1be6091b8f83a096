"""What analysts' SQL is answered with instead of rows (floor 3, pure).

Each is a problem of RFC 9457 with a stable `code`. The replica raises them, the core passes them on. None
of them names a path, a setting or a table outside the schema `fleet`.
"""

from __future__ import annotations

from typing import ClassVar

from events.errors import FleetfoldError

SCHEMA_ROUTE = "GET /fleet/v1/sql/schema"


class SqlProblemError(FleetfoldError):
    """A statement or request that gets no rows; `members` are further members of the problem."""

    status: ClassVar[int] = 400
    title: ClassVar[str] = "The statement was not run"

    def __init__(
        self, detail: str, *, members: dict[str, object] | None = None, retry_after_s: int | None = None
    ) -> None:
        self.detail, self.members, self.retry_after_s = detail, dict(members or {}), retry_after_s
        super().__init__(detail)

    def body(self) -> dict[str, object]:
        """Return the members of the problem but for `instance`."""
        return {
            "type": f"urn:fleetfold:problem:{self.code}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            **self.members,
        }


class SqlRefusedError(SqlProblemError):
    """A statement that is not allowed; `construct` is what in it, `instead` the right way."""

    code = "sql_refused"
    title = "The statement is not allowed here"

    def __init__(self, construct: str, why: str, *, instead: str = "") -> None:
        self.construct, self.why, self.instead = construct, why, instead
        members: dict[str, object] = {"construct": construct}
        if instead:
            members["instead"] = instead
        said = f"{construct}: {why}"
        super().__init__(f"{said}; {instead}" if instead else said, members=members)


class SqlSyntaxError(SqlRefusedError):
    """A text that is not one readable statement; `position` counts characters from 0, None where unknown."""

    code = "sql_error"
    title = "The statement cannot be read or run"

    def __init__(self, detail: str, *, position: int | None = None, instead: str = "") -> None:
        super().__init__("syntax", detail, instead=instead)
        self.position = position
        if position is not None:
            self.members["position"] = position


class SqlFailedError(SqlProblemError):
    """A statement that the engine could not bind or run; `detail` is its own message, `kind` its class."""

    code = "sql_error"
    title = "The statement cannot be read or run"

    def __init__(self, detail: str, *, kind: str) -> None:
        super().__init__(detail, members={"kind": kind})


class SqlTimeoutError(SqlProblemError):
    """A statement that was stopped at its limit of time."""

    code = "sql_timeout"
    status = 504
    title = "The statement took too long"

    def __init__(self, limit_s: float) -> None:
        super().__init__(
            f"the statement was stopped after {limit_s:g} s: narrow it with WHERE, or aggregate earlier",
            members={"limit_s": limit_s},
        )


class SqlMemoryError(SqlProblemError):
    """A statement that needed more memory than statements are given."""

    code = "sql_memory"
    status = 413
    title = "The statement needs too much memory"

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(
            "the statement needs more memory than there is: select fewer columns, or aggregate earlier",
            members={"limit_bytes": limit_bytes},
        )


class SqlCancelledError(SqlProblemError):
    """A statement whose caller went away; nobody reads this answer."""

    code = "sql_cancelled"
    status = 499
    title = "The caller went away"


class SqlBusyError(SqlProblemError):
    """More statements at a time than the replica takes."""

    code = "sql_busy"
    status = 503
    title = "Too many statements at a time"

    def __init__(self, *, running: int, waiting: int) -> None:
        super().__init__(
            f"{running} statements run and {waiting} wait already: retry",
            members={"running": running, "waiting": waiting},
            retry_after_s=2,
        )


class SqlUnavailableError(SqlProblemError):
    """The replica does not answer at the moment; `detail` says why."""

    code = "sql_unavailable"
    status = 503
    title = "The SQL replica is away"

    def __init__(self, why: str, *, retry_after_s: int = 2) -> None:
        super().__init__(why, members={"retry_after_s": retry_after_s}, retry_after_s=retry_after_s)


class SqlInternalError(SqlProblemError):
    """An error of the engine that is not about the statement; the log tells more under the error id."""

    code = "internal"
    status = 500
    title = "Something went wrong here"

    def __init__(self, error_id: str) -> None:
        super().__init__(
            f"the log of the replica tells more under the error id {error_id}", members={"error_id": error_id}
        )


class SqlBodyError(SqlProblemError):
    """A request whose body is not a statement."""

    code = "invalid_body"
    title = "The body cannot be read"


class SqlParameterError(SqlProblemError):
    """A request whose query cannot be read."""

    code = "invalid_parameter"
    title = "A parameter cannot be read"


class SqlPositionError(SqlProblemError):
    """A request for a position that was not folded in time."""

    code = "position_not_reached"
    status = 504
    title = "The position was not reached in time"

    def __init__(self, *, min_seq: int, reached: int) -> None:
        super().__init__(
            f"FLEET is folded up to {reached} in the replica, asked was {min_seq}: retry, or ask without",
            members={"min_seq": min_seq, "reached": reached},
            retry_after_s=1,
        )


class SqlOversizedError(SqlProblemError):
    """A request with a longer body than any statement has."""

    code = "oversized"
    status = 413
    title = "The request is too large"


class SqlNotAcceptableError(SqlProblemError):
    """A request for a format that there is not."""

    code = "not_acceptable"
    status = 406
    title = "There is no such format"


class SqlUnauthorizedError(SqlProblemError):
    """A request without the token of this replica."""

    code = "unauthorized"
    status = 401
    title = "A token is needed"


class SqlRouteError(SqlProblemError):
    """A request for something else than SQL."""

    code = "unknown_route"
    status = 404
    title = "There is no such route"


OWN_PROBLEMS: tuple[type[SqlProblemError], ...] = (
    SqlRefusedError,
    SqlFailedError,
    SqlTimeoutError,
    SqlMemoryError,
    SqlBusyError,
    SqlUnavailableError,
    SqlNotAcceptableError,
)
"""One for each code that only SQL is answered with; the others are the API's own, spelled as there."""
