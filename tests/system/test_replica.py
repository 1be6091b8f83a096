"""The SQL replica beside a core, as processes: it follows the log, and what ends it hurts nobody else."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.auth import NATIVE_PREFIX
from events.stream_admin import ensure_streams
from tests.support.brokers import AnyBroker
from tests.support.hostile_sql import BOMBS, HOSTILE
from tests.support.processes import Program, descendants, is_running, running
from tests.support.publishing import beats, connected, nodes, pour, registrations
from tests.support.waiting import wait_until

NODES = nodes(300)
ENDLESS = BOMBS["a cross join"]
NEVER_LOOKS_UP = """
    SELECT max(levenshtein(repeat('x', 10000) || range, repeat('y', 10000) || range)) FROM range(2000)
"""
# Admitted, little memory, and some minutes in scalar calls that no interrupt reaches.
BEYOND_ANY_MEMORY = """
    SELECT sum(length(replace(repeat('x', 9999), 'x', repeat('y', 9999) || range))) FROM range(100)
"""
# Texts of 100 MB, a hundred at once: outside what the engine counts against its own limit.
ADDRESS_SPACE = {"FLEETFOLD_SQL__ADDRESS_SPACE_BYTES": str(2**31)}


@dataclass
class Service:
    """A core, its replica, and a client."""

    up: Program
    broker: str
    client: httpx.Client

    def sql(self, sql: str, *, min_seq: int | None = None, **more: Any) -> httpx.Response:  # noqa: ANN401
        params = {} if min_seq is None else {"min_seq": min_seq}
        return self.client.post("/sql", json={"sql": sql, **more}, params=params)

    def replica(self) -> dict[str, Any]:
        """What the core believes of it."""
        found: dict[str, Any] = self.client.get("/status").json()["replica"]
        return found

    def replica_pid(self) -> int:
        return next(pid for pid in descendants(self.up.pid) if "replica" in _command(pid))

    def answers_again(self) -> None:
        wait_until(lambda: self.sql("SELECT 1").status_code == 200, within_s=40, what="the replica answers")


def _command(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    with running("up", "--ephemeral", cwd=folder, settings=ADDRESS_SPACE) as up:
        api = up.says(r"API +(http://\S+)/fleet/v1/nodes")[1]
        broker = up.says(r"broker +(nats://[^\s,]+)")[1]
        pour(broker, registrations(NODES))
        pour(broker, beats(NODES, rounds=2))
        with httpx.Client(base_url=api + NATIVE_PREFIX, timeout=60, trust_env=False) as client:
            made = Service(up, broker, client)
            made.answers_again()
            yield made


def test_what_was_published_can_be_asked_for_at_once(service: Service) -> None:
    answer = service.sql("SELECT zone, count(*) FROM fleet.nodes GROUP BY zone ORDER BY zone", min_seq=300)

    assert answer.status_code == 200, answer.text
    assert answer.json()["rows"] == [[f"z{number}", 75] for number in range(4)]
    assert answer.json()["as_of"]["seq"] >= 300  # verdicts on silence are facts too
    wait_until(lambda: service.sql("FROM fleet.usage").json()["row_count"] == 1_200, what="usage is folded")
    assert service.replica()["state"] == "ready"


def test_what_nobody_may_run_is_refused_through_the_core(service: Service) -> None:
    for what, sql in HOSTILE.items():
        if "\ud800" not in sql:
            answer = service.client.post("/sql", json={"sql": sql})
            assert answer.status_code == 400, (what, answer.text)
            assert answer.json()["code"] in {"sql_refused", "sql_error"}, what


def test_a_replica_that_is_killed_in_a_statement_comes_back(service: Service) -> None:
    answers: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: answers.append(service.sql(ENDLESS)))
    asking.start()
    restarts, pid = service.replica()["restarts"], service.replica_pid()
    wait_until(lambda: _runs_one(pid, service), what="the statement runs")

    os.kill(pid, signal.SIGKILL)
    asking.join()
    meanwhile = service.client.get("/nodes/n1")

    assert answers[0].status_code == 503, answers[0].text
    problem = answers[0].json()
    assert problem["code"] == "sql_unavailable"
    assert problem["detail"].startswith("the SQL replica ended while it answered and is started again")
    assert answers[0].headers["retry-after"] == "2"
    assert meanwhile.status_code == 200
    service.answers_again()
    assert service.sql("SELECT count(*) FROM fleet.nodes", min_seq=300).json()["rows"] == [[300]]
    assert service.replica()["restarts"] > restarts


def _runs_one(pid: int, service: Service) -> bool:
    told = Path(next(word for word in _command(pid) if word.endswith("listening.json")))
    url = httpx.Response(200, content=told.read_bytes()).json()["url"]
    status = httpx.get(f"{url}{NATIVE_PREFIX}/status", trust_env=False).json()
    return bool(status["running"] == 1 and service.replica()["state"] == "ready")


def test_a_statement_that_cannot_be_ended_ends_the_replica_and_no_more(service: Service) -> None:
    service.answers_again()
    pid = service.replica_pid()

    answer = service.sql(NEVER_LOOKS_UP, timeout_s=0.5)

    assert (answer.status_code, answer.json()["code"]) == (503, "sql_unavailable")
    wait_until(lambda: not is_running(pid), what="the replica's end")
    assert service.client.get("/nodes/n1").status_code == 200
    service.up.says(r"the SQL replica ended \(exit code 70\)")
    service.answers_again()


def test_memory_that_nobody_has_is_a_clean_problem(service: Service) -> None:
    service.answers_again()
    pid = service.replica_pid()

    answer = service.sql(BEYOND_ANY_MEMORY)

    assert (answer.status_code, answer.json()["code"]) == (413, "sql_memory"), answer.text
    assert service.sql("SELECT count(*) FROM fleet.nodes").json()["rows"] == [[300]]
    assert service.replica_pid() == pid


def test_a_replica_runs_alone_and_asks_for_its_token(broker: AnyBroker, tmp_path: Path) -> None:
    async def streams() -> None:
        async with connected(broker.url) as nc:
            await ensure_streams(nc)

    asyncio.run(streams())
    pour(broker.url, registrations(nodes(5)))
    settings = {"FLEETFOLD_ADMIN_TOKEN": "s3cret-of-mine", "FLEETFOLD_SQL__MAX_ROWS": "3"}
    arguments = ("--nats", broker.url, "--data", str(tmp_path / "replica"), "--http", "127.0.0.1:0")

    with running("replica", *arguments, cwd=tmp_path, settings=settings) as replica:
        url = replica.says(r"the SQL replica answers at (http://[0-9.:]+)")[1]
        with httpx.Client(base_url=url + NATIVE_PREFIX, timeout=60, trust_env=False) as client:
            refused = client.post("/sql", content="SELECT 1")
            client.headers["authorization"] = "Bearer s3cret-of-mine"
            answer = client.post("/sql?min_seq=5", content="SELECT node_id FROM fleet.nodes ORDER BY 1")
        environ = Path(f"/proc/{replica.pid}/environ").read_text()
        nice = os.getpriority(os.PRIO_PROCESS, replica.pid)
        replica.send(signal.SIGTERM)
        code = replica.ends()

    assert refused.status_code == 401
    assert answer.json()["rows"] == [["n0"], ["n1"], ["n2"]]
    assert answer.json()["truncated"] is True
    assert "DUCKDB_JE_MALLOC_CONF=retain:false" in environ
    assert nice == os.getpriority(os.PRIO_PROCESS, 0) + 5
    assert code == 0


def test_a_signal_ends_a_replica_in_the_middle_of_a_statement(broker: AnyBroker, tmp_path: Path) -> None:
    arguments = ("--nats", broker.url, "--data", str(tmp_path / "replica"), "--http", "127.0.0.1:0")
    with running("replica", *arguments, cwd=tmp_path) as replica:
        url = replica.says(r"the SQL replica answers at (http://[0-9.:]+)")[1]
        answers: list[httpx.Response] = []

        def ask() -> None:
            answers.append(
                httpx.post(f"{url}{NATIVE_PREFIX}/sql", content=ENDLESS, timeout=60, trust_env=False)
            )

        asking = threading.Thread(target=ask)
        asking.start()
        status = f"{url}{NATIVE_PREFIX}/status"
        wait_until(lambda: httpx.get(status, trust_env=False).json()["running"] == 1, what="it runs")
        replica.send(signal.SIGTERM)
        code = replica.ends()
        asking.join()

    assert code == 0
    assert answers[0].status_code in {499, 503}
