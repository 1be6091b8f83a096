"""The replica over HTTP: what is sent, what is answered, and who waits for whom."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import orjson
import pyarrow as pa
import pytest

from api import sql_app
from api.auth import NATIVE_PREFIX
from api.sql_app import PREFIX
from api.sql_formats import ARROW, CSV, JSON, PARQUET
from api.sql_request import MAX_BODY_BYTES
from api.sql_statement import SqlLimits
from projections.macros import MACROS
from projections.views import VIEWS
from tests.support.fleet import EPOCH, Fleet, fleet
from tests.support.hostile_sql import BOMBS
from tests.support.replicas import replica_app
from tests.support.waiting import wait_until
from tests.support.web import serving

LIMITS = SqlLimits(timeout_s=20, max_rows=5_000, default_rows=1_000, running=1, waiting=1)
TOKEN = "s3cret-of-the-replica"
ENDLESS = BOMBS["a cross join"]
PROBLEM = "application/problem+json"


@dataclass
class Served:
    """A replica in this process, and how it was asked to end."""

    fleet: Fleet
    client: httpx.Client
    is_worn: bool = False
    ended: list[str] = field(default_factory=list)

    def sql(self, sql: str, **more: Any) -> httpx.Response:  # noqa: ANN401
        """Send a statement with its limits."""
        return self.client.post("/sql", json={"sql": sql, **more})

    def calls(self) -> tuple[int, int]:
        """How many statements run and how many wait."""
        status = self.client.get("/status").json()
        return status["running"], status["waiting"]


def _served(folder: Path, *, token: str = "") -> Iterator[Served]:
    with fleet(folder) as made:
        for number in range(3):
            made.registered(f"n{number}", zone="z1", resources={"cpu": {"total": 8}})
        served = Served(made, httpx.Client(timeout=30, trust_env=False))
        app = replica_app(
            made, limits=LIMITS, token=token, is_worn=lambda: served.is_worn, end=served.ended.append
        )
        with app as answering, serving(answering) as url, served.client:
            served.client.base_url = httpx.URL(url + PREFIX)
            yield served


@pytest.fixture(scope="module")
def replica(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    yield from _served(tmp_path_factory.mktemp("replica"))


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Served]:
    yield from _served(tmp_path, token=TOKEN)


@pytest.fixture
def worn(tmp_path: Path) -> Iterator[Served]:
    yield from _served(tmp_path)


def _problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert (answer.status_code, answer.headers["content-type"]) == (status, PROBLEM), answer.text
    problem: dict[str, Any] = answer.json()
    assert (problem["status"], problem["code"]) == (status, code)
    assert problem["type"] == f"urn:fleetfold:problem:{code}"
    assert problem["title"]
    assert problem["detail"]
    assert problem["instance"] == answer.url.path
    assert problem["lag_ms"] == 0
    return problem


def test_the_paths_are_those_of_the_core() -> None:
    assert PREFIX == NATIVE_PREFIX


def test_a_statement_is_sent_as_json_or_as_text(replica: Served) -> None:
    as_json = replica.sql("SELECT node_id FROM fleet.nodes WHERE node_id = $1", params=["n1"])
    as_text = replica.client.post("/sql", content="SELECT node_id FROM fleet.nodes WHERE node_id = 'n1'")

    for answer in (as_json, as_text):
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == JSON
        assert answer.json()["columns"] == [{"name": "node_id", "type": "VARCHAR"}]
        assert answer.json()["rows"] == [["n1"]]
        assert answer.json()["as_of"]["seq"] == 3


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        (JSON, JSON),
        ("*/*", JSON),
        ("", JSON),
        (CSV, CSV),
        (ARROW, ARROW),
        (PARQUET, PARQUET),
        ("text/*", CSV),
        (f"{JSON};q=0.1, {CSV}", CSV),
        (f"text/html, {ARROW};q=0.5, */*;q=0.1", ARROW),
    ],
)
def test_the_form_is_what_the_caller_accepts(replica: Served, accept: str, media_type: str) -> None:
    answer = replica.client.post("/sql", content="FROM fleet.nodes", headers={"accept": accept})

    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].partition(";")[0] == media_type


def test_every_form_says_in_its_headers_what_it_is_of(replica: Served) -> None:
    answer = replica.client.post("/sql", content="FROM fleet.nodes", headers={"accept": ARROW})

    assert answer.headers["x-row-count"] == "3"
    assert answer.headers["x-lag-ms"] == "0"
    assert orjson.loads(answer.headers["x-as-of"])["epoch"] == EPOCH
    assert "x-truncated-by" not in answer.headers
    assert pa.ipc.open_stream(answer.content).read_all().num_rows == 3


def test_a_form_that_there_is_not_is_refused_with_those_there_are(replica: Served) -> None:
    answer = replica.client.post("/sql", content="FROM fleet.nodes", headers={"accept": "text/html"})

    assert _problem(answer, 406, "not_acceptable")["known"] == [JSON, CSV, ARROW, PARQUET]


def test_a_result_that_was_cut_says_so(replica: Served) -> None:
    cut = replica.sql("FROM range(2000)")
    more = replica.sql("FROM range(2000)", max_rows=2_000)
    csv = replica.client.post("/sql", content="FROM range(2000)", headers={"accept": CSV})

    assert (cut.json()["truncated"], cut.json()["row_count"]) == (True, 1_000)
    assert cut.json()["truncation"]["by"] == "rows"
    assert "max_rows (up to 5000)" in cut.json()["truncation"]["next"]
    assert (more.json()["truncated"], more.json()["row_count"]) == (False, 2_000)
    assert csv.headers["x-truncated-by"] == "rows"


@pytest.mark.parametrize(
    ("sql", "status", "code"),
    [
        ("DROP TABLE node", 400, "sql_refused"),
        ("FROM read_text('/etc/passwd')", 400, "sql_refused"),
        ("SELECT nothing FROM fleet.nodes", 400, "sql_error"),
        ("SELEKT 1", 400, "sql_error"),
    ],
)
def test_a_statement_that_gives_no_rows_is_a_problem(
    replica: Served, sql: str, status: int, code: str
) -> None:
    _problem(replica.sql(sql), status, code)


def test_a_refusal_names_the_construct_and_what_instead(replica: Served) -> None:
    problem = _problem(replica.sql("FROM nodes"), 400, "sql_refused")

    assert problem["construct"] == "table nodes"
    assert problem["instead"] == "write fleet.nodes"


def test_a_statement_that_takes_too_long_is_a_problem_with_the_limit(replica: Served) -> None:
    assert _problem(replica.sql(ENDLESS, timeout_s=0.2), 504, "sql_timeout")["limit_s"] == 0.2


@pytest.mark.parametrize(
    ("body", "parameter"),
    [
        ({}, "sql"),
        ({"sql": 1}, "sql"),
        ({"sql": "SELECT 1", "rows": 5}, "rows"),
        ({"sql": "SELECT 1", "max_rows": 0}, "max_rows"),
        ({"sql": "SELECT 1", "max_rows": 5_001}, "max_rows"),
        ({"sql": "SELECT 1", "max_rows": True}, "max_rows"),
        ({"sql": "SELECT 1", "timeout_s": 21}, "timeout_s"),
        ({"sql": "SELECT 1", "timeout_s": "5"}, "timeout_s"),
        ({"sql": "SELECT 1", "params": "x"}, "params"),
        ({"sql": "SELECT 1", "params": [{}]}, "params"),
    ],
)
def test_a_body_that_cannot_be_read_names_the_member(replica: Served, body: Any, parameter: str) -> None:  # noqa: ANN401
    assert _problem(replica.client.post("/sql", json=body), 400, "invalid_body")["parameter"] == parameter


def test_min_seq_waits_for_the_position_or_says_what_was_reached(
    replica: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = replica.client.post("/sql?min_seq=3", content="SELECT 1")
    monkeypatch.setattr(sql_app, "MIN_SEQ_WITHIN", timedelta(seconds=0.05))
    beyond = replica.client.post("/sql?min_seq=4", content="SELECT 1")

    assert reached.status_code == 200
    problem = _problem(beyond, 504, "position_not_reached")
    assert (problem["min_seq"], problem["reached"]) == (4, 3)
    for query in ("min_seq=x", "min_seq=-1", "max_rows=5"):
        _problem(replica.client.post(f"/sql?{query}", content="SELECT 1"), 400, "invalid_parameter")


def test_bodies_that_are_no_text_or_too_long_are_refused(replica: Served) -> None:
    as_json = {"content-type": "application/json"}

    _problem(replica.client.post("/sql", content=b"{", headers=as_json), 400, "invalid_body")
    _problem(replica.client.post("/sql", content=b"[]", headers=as_json), 400, "invalid_body")
    _problem(replica.client.post("/sql", content=b"SELECT '\xff'"), 400, "invalid_body")
    _problem(replica.client.post("/sql", content=b"x" * (MAX_BODY_BYTES + 1)), 413, "oversized")


def test_the_schema_tells_every_view_column_macro_function_and_limit(replica: Served) -> None:
    schema = replica.client.get("/sql/schema").json()

    views = {view["name"]: view for view in schema["views"]}
    assert set(views) == {f"fleet.{view.name}" for view in VIEWS}
    for view in VIEWS:
        told = views[f"fleet.{view.name}"]
        assert told["comment"] == view.about
        assert {column["name"]: column["comment"] for column in told["columns"]} == view.columns
        assert all(column["type"] for column in told["columns"])
    macros = {macro["name"]: macro for macro in schema["macros"]}
    assert set(macros) == {f"fleet.{macro.name}" for macro in MACROS}
    assert macros["fleet.nodes_at"]["parameters"] == ["t"]
    assert macros["fleet.nodes_at"]["comment"]
    assert {"count_star", "date_trunc", "range"} <= set(schema["functions"])
    assert schema["limits"]["rows"] == 5_000
    assert schema["formats"] == [JSON, CSV, ARROW, PARQUET]
    assert schema["as_of"]["epoch"] == EPOCH


def test_the_status_tells_positions_and_lag(replica: Served) -> None:
    in_time = replica.fleet.readings
    replica.fleet.readings = {**in_time, "BEATS": replace(in_time["BEATS"], lag_ms=1234.4, pending=7)}

    status = replica.client.get("/status").json()
    replica.fleet.readings = in_time

    assert status["lag_ms"] == 1234
    assert status["as_of"]["seq"] == 3
    assert status["streams"]["BEATS"]["pending"] == 7
    assert (status["running"], status["waiting"]) == (0, 0)


def test_a_token_is_asked_for_everywhere_but_at_livez(guarded: Served) -> None:
    for answer in (guarded.sql("SELECT 1"), guarded.client.get("/sql/schema"), guarded.client.get("/status")):
        _problem(answer, 401, "unauthorized")
        assert answer.headers["www-authenticate"].startswith("Bearer")
    guarded.client.headers["authorization"] = f"Bearer {TOKEN}x"
    _problem(guarded.sql("SELECT 1"), 401, "unauthorized")

    guarded.client.headers["authorization"] = f"Bearer {TOKEN}"

    assert guarded.sql("SELECT 1").json()["rows"] == [[1]]
    del guarded.client.headers["authorization"]
    assert guarded.client.get("/livez").json() == {"live": True}


def test_another_path_or_method_is_a_problem(replica: Served) -> None:
    _problem(replica.client.get("/nodes"), 404, "unknown_route")
    _problem(replica.client.get("/sql"), 404, "unknown_route")


def test_more_statements_than_may_wait_are_told_to_come_again(replica: Served) -> None:
    answers: list[httpx.Response] = []

    def endless() -> None:
        answers.append(replica.sql(ENDLESS, timeout_s=2))

    threads = [threading.Thread(target=endless) for _ in range(2)]
    threads[0].start()
    wait_until(lambda: replica.calls() == (1, 0), what="the first statement runs")
    threads[1].start()
    wait_until(lambda: replica.calls() == (1, 1), what="the second statement waits")

    busy = replica.sql("SELECT 1")

    problem = _problem(busy, 503, "sql_busy")
    assert (problem["running"], problem["waiting"]) == (1, 1)
    assert busy.headers["retry-after"] == "2"
    for thread in threads:
        thread.join()
    assert [answer.json()["code"] for answer in answers] == ["sql_timeout"] * 2
    assert replica.sql("SELECT 1").status_code == 200


def test_a_statement_whose_caller_goes_away_is_stopped(replica: Served) -> None:
    with pytest.raises(httpx.ReadTimeout):
        replica.client.post("/sql", json={"sql": ENDLESS}, timeout=0.3)

    wait_until(lambda: replica.calls() == (0, 0), within_s=5, what="the statement's end")
    assert replica.sql("SELECT 1").status_code == 200


def test_a_statement_that_waits_is_forgotten_when_its_caller_goes_away(replica: Served) -> None:
    running = threading.Thread(target=replica.sql, args=(ENDLESS,), kwargs={"timeout_s": 2})
    running.start()
    wait_until(lambda: replica.calls() == (1, 0), what="the first statement runs")

    with pytest.raises(httpx.ReadTimeout):
        replica.client.post("/sql", json={"sql": ENDLESS}, timeout=0.3)

    running.join()
    wait_until(lambda: replica.calls() == (0, 0), within_s=5, what="both are gone")


def test_a_process_whose_memory_is_worn_out_begins_anew_between_statements(worn: Served) -> None:
    worn.is_worn = True

    last = worn.sql("SELECT 1")
    later = worn.sql("SELECT 1")

    assert last.status_code == 200
    _problem(later, 503, "sql_unavailable")
    wait_until(lambda: worn.ended == ["its address space is used up"])
