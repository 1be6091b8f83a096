"""SQL through the core: forwarded to a replica, which may be away."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from api import sql_app, sql_request
from api.auth import NATIVE_PREFIX
from api.models import Problem
from api.problems import KINDS
from api.service import Replica
from api.sql_errors import OWN_PROBLEMS
from api.sql_formats import ARROW, CSV
from tests.support.fleet import Fleet, fleet
from tests.support.hostile_sql import BOMBS
from tests.support.replicas import replica_app
from tests.support.waiting import wait_until
from tests.support.web import serving

TOKEN = "s3cret-of-the-admin"
ENDLESS = BOMBS["a cross join"]


@dataclass
class Core:
    """A core behind a server, and what it believes of its replica."""

    fleet: Fleet
    client: httpx.Client
    replica: Replica = field(default_factory=Replica)

    def sql(self, sql: str, **headers: str) -> httpx.Response:
        return self.client.post("/sql", json={"sql": sql}, headers=headers)


def _core(folder: Path, **service: Any) -> Iterator[Core]:  # noqa: ANN401
    believed: list[Core] = []
    with fleet(folder, replica=lambda: believed[0].replica, **service) as made, serving(made.app) as url:
        client = httpx.Client(base_url=url + NATIVE_PREFIX, timeout=30, trust_env=False)
        believed.append(Core(made, client))
        with client:
            yield believed[0]


@pytest.fixture(scope="module")
def one_core(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Core]:
    yield from _core(tmp_path_factory.mktemp("core"))


@pytest.fixture(scope="module")
def replica_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("replica")
    with fleet(folder) as folded, replica_app(folded) as app, serving(app) as url:
        folded.registered("n1", zone="z1")
        folded.registered("n2", zone="z1")
        yield url


@pytest.fixture
def core(one_core: Core) -> Core:
    """A core without a replica."""
    one_core.replica = Replica()
    return one_core


@pytest.fixture
def answered(core: Core, replica_url: str) -> Core:
    """A core whose replica answers."""
    core.replica = Replica(state="ready", url=replica_url)
    return core


def _problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), (
        answer.text
    )
    problem: dict[str, Any] = answer.json()
    Problem.model_validate(problem)
    assert (problem["status"], problem["code"], problem["instance"]) == (status, code, answer.url.path)
    return problem


def test_every_code_of_sql_is_listed_with_the_others() -> None:
    listed = {kind.code: kind for kind in KINDS}

    assert len(listed) == len(KINDS)
    for err in OWN_PROBLEMS:
        assert (listed[err.code].status, listed[err.code].title) == (err.status, err.title)


def test_a_statement_is_answered_by_the_replica(answered: Core) -> None:
    answer = answered.sql("SELECT zone, count(*) AS n FROM fleet.nodes GROUP BY zone")

    assert answer.status_code == 200, answer.text
    assert answer.json()["rows"] == [["z1", 2]]
    assert answer.json()["as_of"]["seq"] == 2
    assert answer.headers["x-lag-ms"] == "0"


def test_the_form_that_is_asked_for_comes_back(answered: Core) -> None:
    arrow = answered.sql("FROM fleet.nodes", accept=ARROW)
    csv = answered.client.post(
        "/sql", content="SELECT 1 AS a", headers={"accept": CSV, "content-type": "text/plain"}
    )

    assert pa.ipc.open_stream(arrow.content).read_all().num_rows == 2
    assert arrow.headers["x-row-count"] == "2"
    assert csv.text == '"a"\n1\n'
    assert csv.headers["content-type"].startswith("text/csv")


def test_problems_of_the_replica_come_back_as_they_are(
    answered: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_app, "MIN_SEQ_WITHIN", timedelta(seconds=0.05))
    refused = _problem(answered.sql("FROM read_text('/etc/passwd')"), 400, "sql_refused")
    failed = _problem(answered.sql("SELECT nothing FROM fleet.nodes"), 400, "sql_error")
    unreadable = _problem(answered.client.post("/sql", json={"statement": "SELECT 1"}), 400, "invalid_body")
    too_soon = _problem(
        answered.client.post("/sql?min_seq=99", json={"sql": "SELECT 1"}), 504, "position_not_reached"
    )

    assert refused["construct"] == "table function read_text"
    assert failed["kind"] == "binder"
    assert unreadable["parameter"] == "sql"
    assert too_soon["reached"] == 2


def test_the_schema_is_told_through_the_core(answered: Core) -> None:
    schema = answered.client.get("/sql/schema")

    assert schema.status_code == 200
    assert "fleet.nodes" in [view["name"] for view in schema.json()["views"]]


def test_a_parameter_that_nobody_reads_is_refused(answered: Core) -> None:
    _problem(answered.client.post("/sql?limit=5", json={"sql": "SELECT 1"}), 400, "unknown_parameter")
    _problem(answered.client.post("/sql", content=b"x" * (sql_request.MAX_BODY_BYTES + 1)), 413, "oversized")


@pytest.mark.parametrize("state", ["off", "starting", "away"])
def test_while_the_replica_is_away_the_reason_is_told(core: Core, state: Any) -> None:  # noqa: ANN401
    core.replica = Replica(state=state, reason="it ended (exit code 70) and is started again", lag_ms=1234.4)

    for answer in (core.sql("SELECT 1"), core.client.get("/sql/schema")):
        problem = _problem(answer, 503, "sql_unavailable")
        assert problem["detail"] == "it ended (exit code 70) and is started again"
        assert problem["lag_ms"] == 1234
        assert answer.headers["retry-after"] == "2"
        assert answer.headers["x-lag-ms"] == "1234"


def test_a_replica_that_nobody_listens_for_is_away(core: Core) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        core.replica = Replica(state="ready", url=f"http://127.0.0.1:{taken.getsockname()[1]}")

        problem = _problem(core.sql("SELECT 1"), 503, "sql_unavailable")

    assert problem["detail"] == "the SQL replica cannot be reached: retry"


def test_a_replica_that_ends_while_it_answers_is_a_problem_with_a_way_on(core: Core) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        core.replica = Replica(state="ready", url=f"http://127.0.0.1:{listener.getsockname()[1]}")

        def cut() -> None:
            connection, _ = listener.accept()
            connection.recv(1024)
            connection.close()

        cutting = threading.Thread(target=cut)
        cutting.start()
        problem = _problem(core.sql("SELECT 1"), 503, "sql_unavailable")
        cutting.join()

    assert problem["detail"].startswith("the SQL replica ended while it answered and is started again")


def test_a_caller_who_goes_away_takes_the_statement_along(answered: Core) -> None:
    status = f"{answered.replica.url}{NATIVE_PREFIX}/status"
    asking = threading.Thread(target=_give_up, args=(answered,))
    asking.start()
    wait_until(lambda: httpx.get(status, trust_env=False).json()["running"] == 1, what="the statement runs")

    asking.join()

    wait_until(lambda: httpx.get(status, trust_env=False).json()["running"] == 0, within_s=5, what="its end")


def _give_up(core: Core) -> None:
    with pytest.raises(httpx.ReadTimeout):
        core.client.post("/sql", json={"sql": ENDLESS}, timeout=1)


def test_other_routes_answer_while_a_statement_runs(answered: Core) -> None:
    answered.fleet.registered("n1")
    asking = threading.Thread(target=_give_up, args=(answered,))
    asking.start()

    node = answered.client.get("/nodes/n1")
    asking.join()

    assert node.status_code == 200


def test_the_replica_is_asked_with_the_token_of_the_core(tmp_path: Path) -> None:
    async def told(request: Request) -> Response:
        return Response(request.headers.get("authorization", ""), media_type="text/plain")

    other = Starlette(routes=[Route(f"{NATIVE_PREFIX}/sql", told, methods=["POST"])])
    for core in _core(tmp_path, admin_token=TOKEN):
        with serving(other) as url:
            core.replica = Replica(state="ready", url=url)

            without = core.sql("SELECT 1")
            with_token = core.sql("SELECT 1", authorization=f"Bearer {TOKEN}")

        _problem(without, 401, "unauthorized")
        assert with_token.text == f"Bearer {TOKEN}"


def test_a_replica_with_another_token_is_away(core: Core, tmp_path: Path) -> None:
    with (
        fleet(tmp_path / "replica") as folded,
        replica_app(folded, token="x" * 20) as app,
        serving(app) as url,
    ):
        core.replica = Replica(state="ready", url=url)

        problem = _problem(core.sql("SELECT 1"), 503, "sql_unavailable")

    assert problem["detail"] == "the SQL replica has another token than this service"


def test_a_replica_on_a_unix_socket_is_reached_by_its_path(core: Core, tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with fleet(tmp_path / "replica") as folded, replica_app(folded) as app, serving(app, path=path):
        core.replica = Replica(state="ready", url=f"unix:{path}")

        answer = core.sql("SELECT 42 AS n")

    assert answer.json()["rows"] == [[42]]
