"""Questions of the command line to the API (floor 4): one connection a command, problems as errors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from events.errors import FleetfoldError, RefusedError, SettingsError, UnreachableError
from events.ids import node_id
from fleetfold.addresses import host_and_port, is_loopback, local_url

PREFIX = "/fleet/v1"
ANSWER_WITHIN_S = 30.0
CONNECT_WITHIN_S = 3.0
PAGE = 1_000
_FOR_NOW = frozenset({502, 503, 504})
_UNAUTHORIZED = 401

Params = Mapping[str, str | int | list[str]]


@dataclass(frozen=True, slots=True)
class Exported:
    """The rows of a statement as a file holds them; `truncated_by` says what cut them, "" for nothing."""

    content: bytes
    rows: int
    truncated_by: str
    as_of: dict[str, Any]


class Api:
    """The API at one address. Use it with `with`."""

    def __init__(self, server: str | None) -> None:
        """Take the address (`http://127.0.0.1:8470`); None: where the settings say that it listens.

        Raises SettingsError for a text that is no address.
        """
        import httpx  # noqa: PLC0415 - 0.2 s, and `--help` needs none of it

        from fleetfold.settings_sources import load  # noqa: PLC0415 - 0.25 s

        settings = load().settings
        self.url = _address(server) if server else local_url(*host_and_port(settings.http))
        token = settings.admin_token
        try:
            self._client = httpx.Client(
                base_url=self.url,
                headers={"Authorization": f"Bearer {token.get_secret_value()}"} if token else {},
                timeout=httpx.Timeout(ANSWER_WITHIN_S, connect=CONNECT_WITHIN_S),
                trust_env=not is_loopback(urlsplit(self.url).hostname or ""),
            )
        except httpx.InvalidURL as err:
            raise _no_address(server or self.url) from err

    def __enter__(self) -> Api:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def get(self, path: str, params: Params | None = None) -> dict[str, Any]:
        """Return the answer to a question; RefusedError for a problem, UnreachableError without an answer."""
        return self._answer("GET", path, params=params)

    def post(self, path: str, said: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a decision; raises as `get` does."""
        return self._answer("POST", path, json=said)

    def patch(self, path: str, said: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a declaration; raises as `get` does."""
        return self._answer("PATCH", path, json=said)

    def items(
        self, path: str, params: Params | None = None, *, limit: int | None = None
    ) -> Iterator[dict[str, Any]]:
        """Return the items of a list, page after page, `limit` at most."""
        left = limit
        cursor: str | None = None
        while left is None or left > 0:
            asked: dict[str, Any] = {**(params or {}), "limit": PAGE if left is None else min(left, PAGE)}
            if cursor is not None:
                asked["cursor"] = cursor
            page = self.get(path, asked)
            yield from page["items"]
            cursor = page.get("next_cursor")
            if cursor is None:
                return
            if left is not None:
                left -= len(page["items"])

    def sql(self, statement: str, *, accept: str, values: Mapping[str, Any] | None = None) -> bytes:
        """Return the answer to a read-only statement in a media type; `values` are those of its `$name`s."""
        asked = {"sql": statement} if values is None else {"sql": statement, "params": values}
        answer: bytes = self._send("POST", "/sql", json=asked, headers={"Accept": accept}).content
        return answer

    def export(
        self, statement: str, *, accept: str, values: Mapping[str, Any], rows: int, within_s: float
    ) -> Exported:
        """Return up to so many rows of a read-only statement in a media type; raises as `get` does."""
        asked = {"sql": statement, "max_rows": rows} | ({"params": values} if values else {})
        found = self._send("POST", "/sql", json=asked, headers={"Accept": accept}, timeout=within_s)
        told = found.headers
        return Exported(
            found.content,
            int(told["x-row-count"]),
            told.get("x-truncated-by", ""),
            json.loads(told["x-as-of"]),
        )

    def lines(
        self, path: str, params: Params, *, headers: Mapping[str, str], quiet_s: float
    ) -> Iterator[str]:
        """Yield the lines of an answer that need not end, as they come.

        Raises as `get` does, and UnreachableError where nothing comes for so long, or the connection ends
        within a line.
        """
        import httpx  # noqa: PLC0415

        within = httpx.Timeout(ANSWER_WITHIN_S, connect=CONNECT_WITHIN_S, read=quiet_s)
        try:
            with self._client.stream(
                "GET", PREFIX + path, params=params, headers=headers, timeout=within
            ) as answer:
                if not answer.is_success:
                    answer.read()
                    raise self._refusal(answer)
                yield from answer.iter_lines()
        except httpx.TransportError as err:
            raise self._unreachable(err) from err

    def _answer(self, method: str, path: str, **request: Any) -> dict[str, Any]:  # noqa: ANN401 - as `_send`
        found = self._send(method, path, **request)
        try:
            answer: dict[str, Any] = found.json()
        except ValueError as err:
            raise UnreachableError(
                self.url, why="answers, but not as Fleetfold does", instead="name the server with --server"
            ) from err
        return answer

    def _send(self, method: str, path: str, **request: Any) -> Any:  # noqa: ANN401 - httpx types, imported late
        import httpx  # noqa: PLC0415

        try:
            answer = self._client.request(method, PREFIX + path, **request)
        except httpx.TransportError as err:
            raise self._unreachable(err) from err
        if answer.is_success:
            return answer
        raise self._refusal(answer)

    def _unreachable(self, err: Exception) -> UnreachableError:
        return UnreachableError(
            self.url,
            why=f"does not answer ({str(err) or type(err).__name__})",
            instead="check that `fleetfold up` runs, or name the server with --server",
        )

    def _refusal(self, answer: Any) -> FleetfoldError:  # noqa: ANN401 - as `_send`
        """Return what an answer that is no success is here."""
        try:
            problem = answer.json()
            code, sentence = str(problem["code"]), str(problem.get("detail") or problem["title"])
        except (ValueError, KeyError, TypeError):
            code, sentence = f"http_{answer.status_code}", f"{self.url} answered {answer.status_code}"
        if answer.status_code == _UNAUTHORIZED:
            return RefusedError(
                code, sentence, instead="set FLEETFOLD_ADMIN_TOKEN to the token of this server"
            )
        if answer.status_code in _FOR_NOW:
            return UnreachableError(self.url, why=f"cannot answer now: {sentence}")
        return RefusedError(code, sentence)


def _address(server: str) -> str:
    """Return the address of a server; one without a scheme is HTTP."""
    url = (server if "://" in server else f"http://{server}").rstrip("/")
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        (parts.hostname or "").encode("idna")  # as the resolver will, which raises what no caller foresees
    except ValueError:
        is_good = False
    if not is_good:
        raise _no_address(server)
    return url


def _no_address(server: str) -> SettingsError:
    return SettingsError(f"--server {server!r} is no address: write it as http://HOST:8470")


def node_path(node: str) -> str:
    """Return the path of a node by its id; raise InvalidNodeIdError for a text that can be none."""
    quoted = quote(node_id(node), safe="")
    # A segment that is one or two dots would be resolved like a folder, by the client or on the way.
    return f"/nodes/{quoted.replace('.', '%2E') if quoted in ('.', '..') else quoted}"
