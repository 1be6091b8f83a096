"""Nodes over HTTP: pages and single ones, from a real projection."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.node_models import NodeAnswer, NodesAnswer
from events.codec import encode_fact
from events.envelope import FactEvent
from projections.judging import Outlook
from tests.support.facts import any_event
from tests.support.fleet import Fleet, fleet, ids

pytestmark = pytest.mark.anyio

HOSTILE = (
    "a/timeline", "a/b/c", "/", "..", ".", "a%2Fb", "%", "%zz", "ü", "机器-1", "a b", "a?b=c", "a#b", "a&b",
    "a+b", "a;b", "'; DROP TABLE node; --", '"quoted"', "\\", "\n", "\u0000", "\u202e", "🙂", "n" * 250,
    "1", "null", "stratum:9/x", "a*b", ">", "timeline", "capacity",
)  # fmt: skip


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Fleet]:
    with fleet(tmp_path) as made:
        yield made


def _path(node: str) -> str:
    return f"/nodes/{quote(node, safe='')}"


async def test_a_node_is_found_by_its_id_whatever_is_in_it(served: Fleet) -> None:
    for node in HOSTILE:
        version = served.registered(node, hostname="h1")

        got = await served.get(_path(node))

        assert got.status == 200, node
        assert got.json["id"] == node
        assert got.headers["etag"] == f'"{version}"'
        assert (await served.get(f"{_path(node)}/capacity")).json["id"] == node
        timeline = await served.get(f"{_path(node)}/timeline")
        assert {item["cause_seq"] for item in timeline.json["items"]} == {version}


async def test_a_node_that_missed_a_beat_says_when_it_is_expected_to_be_lost(tmp_path: Path) -> None:
    at = datetime(2026, 5, 1, 12, tzinfo=UTC)
    late = Outlook(True, at, silent_s=20.0, grace_s=30.0, mode="watching", reason="")
    with fleet(tmp_path, outlook={"late": late, "well": late._replace(is_suspect=False)}.get) as served:
        for node in ("late", "well", "new"):
            served.registered(node)
        items = {item["id"]: item for item in (await served.get("/nodes")).json["items"]}
        served.said("liveness", "late", "lost", silent_s=30.0, grace_s=30.0)
        lost = (await served.get("/nodes/late")).json

    assert {node: item["suspect"] for node, item in items.items()} == {
        "late": True,
        "well": False,
        "new": False,
    }
    assert items["late"]["expected_lost_at"] == "2026-05-01T12:00:00Z"
    assert items["well"]["expected_lost_at"] is None
    assert (lost["liveness"], lost["suspect"], lost["expected_lost_at"]) == ("lost", False, None)


async def test_a_slash_in_an_id_is_told_from_one_between_segments(served: Fleet) -> None:
    of_a_seq = served.registered("a")
    of_named_seq = served.registered("a/timeline")

    of_a = await served.get("/nodes/a/timeline")
    named = await served.get("/nodes/a%2Ftimeline")
    of_named = await served.get("/nodes/a%2ftimeline/timeline")

    assert of_a.json["items"][0]["cause_seq"] == of_a_seq
    assert named.json["id"] == "a/timeline"
    assert of_named.json["items"][0]["cause_seq"] == of_named_seq
    unknown = await served.get("/nodes/a/b")
    assert (unknown.status, unknown.json["code"]) == (404, "unknown_route")
    assert "%2F" in unknown.json["detail"]


async def test_two_spellings_of_one_text_are_one_node(served: Fleet) -> None:
    served.registered("u\u0308ber")

    got = await served.get(_path("über"))

    assert got.json["id"] == "über"


async def test_an_answer_has_the_shape_that_is_documented(served: Fleet) -> None:
    _a_busy_node(served)

    got = await served.get("/nodes/gpu-1")

    NodeAnswer.model_validate_json(got.body)
    node = got.json
    assert node["state"] == "cordoned"
    assert node["holds"][0]["owner"] == "ops"
    assert node["display_name"] == "the big one"
    assert node["labels"] == {"env": "prod", "rack": "r7"}
    assert node["last_heartbeat_at"] == served.at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    assert node["heartbeats"]["missed"] == 1


async def test_five_numbers_and_what_is_measured_are_told_apart(served: Fleet) -> None:
    _a_busy_node(served)

    resources = {one["resource"]: one for one in (await served.get("/nodes/gpu-1")).json["resources"]}

    assert resources["cpu"] == {
        "resource": "cpu", "status": "reported", "total": 64, "reserved": 2, "ratio": 1.5, "allocatable": 93,
        "allocated": 3.5, "free": 89.5, "used": 12.25, "last_known": None, "source": None, "flags": [],
    }  # fmt: skip
    assert resources["gpu"]["total"] == 2
    assert resources["memory"]["total"] is None
    assert resources["memory"]["status"] == "unknown"
    assert resources["memory"]["used"] == 81604378624
    assert "disk" not in resources


async def test_amounts_are_written_with_all_their_digits(served: Fleet) -> None:
    served.record(
        "fleet.v1.agent.n1.registered",
        b'{"boot_id":"b1","seq":1,"resources":{"big":{"total":9223372036854775808},"fine":{"total":0.000000001}}}',
    )

    got = await served.get("/nodes/n1")

    assert b'"total":9223372036854775808,' in got.body
    assert b'"total":0.000000001,' in got.body


async def test_an_unknown_node_is_not_found(served: Fleet) -> None:
    for target in ("/nodes/nobody", "/nodes/nobody/timeline", "/nodes/nobody/capacity"):
        got = await served.get(target)

        assert (got.status, got.json["code"]) == (404, "unknown_node")
        assert got.json["as_of"]["seq"] == 0


async def test_a_node_that_only_ever_beat_is_not_known_to_the_log(served: Fleet) -> None:
    served.beat("early")

    assert (await served.get("/nodes/early")).status == 404


async def test_a_retired_node_is_gone_and_its_tombstone_tells_why(served: Fleet) -> None:
    served.registered("old", hostname="h1")
    served.said("operator", "old", "retired", actor="ops", reason="sold")

    got = await served.get("/nodes/old")

    assert (got.status, got.json["code"]) == (410, "node_retired")
    assert (got.json["actor"], got.json["reason"]) == ("ops", "sold")
    assert got.json["node"]["state"] == "retired"
    assert got.json["node"]["hostname"] == "h1"
    assert ids(await served.get("/nodes")) == []
    assert ids(await served.get("/nodes?include_retired=true")) == ["old"]
    assert ids(await served.get("/nodes?state=retired")) == ["old"]
    assert (await served.get("/nodes/old/timeline")).json["items"][0]["kind"] in {"lifecycle", "state"}


async def test_pages_hold_every_node_once_in_the_order_of_their_ids(served: Fleet) -> None:
    names = sorted([f"n{number:03}" for number in range(25)] + list(HOSTILE))
    for name in names:
        served.registered(name)

    seen: list[str] = []
    target, pages = "/nodes?limit=7", 0
    while True:
        got = await served.get(target)
        NodesAnswer.model_validate_json(got.body)
        seen += ids(got)
        pages += 1
        if got.json["next_cursor"] is None:
            break
        target = f"/nodes?limit=7&cursor={got.json['next_cursor']}"

    assert seen == names
    assert pages == -(-len(names) // 7)


async def test_a_last_page_that_is_full_has_no_next_one(served: Fleet) -> None:
    for name in ("a", "b"):
        served.registered(name)

    assert (await served.get("/nodes?limit=2")).json["next_cursor"] is None


async def test_filters_have_to_fit_all(served: Fleet) -> None:
    served.registered(
        "a", zone="z1", pool="p1", region="eu", labels={"env": "prod", "k=v": "x=y"}, hostname="h1"
    )
    served.registered("b", zone="z1", pool="p2", labels={"env": "test"}, display_name="the second")
    served.registered("c", zone="z2", dialect={"name": "stratum", "native_id": "77", "monitored": False})
    served.said("liveness", "b", "alive", boot_id="b1")

    for query, wanted in {
        "": ["a", "b", "c"],
        "zone=z1": ["a", "b"],
        "zone=z1&pool=p2": ["b"],
        "region=eu": ["a"],
        "label=env%3Dprod": ["a"],
        "label=env=test&label=env=prod": [],
        "label=env=prod&label=env=prod": ["a"],
        "state=ready": ["b", "c"],
        "liveness=pending": ["a"],
        "liveness=unmonitored": ["c"],
        "intent=open": ["a", "b", "c"],
        "name=h1": ["a"],
        "name=the%20second": ["b"],
        "dialect=stratum&native_id=77": ["c"],
        "dialect=stratum&native_id=&name=": ["c"],
        "zone=&state=": ["a", "b", "c"],
        "zone=z9": [],
    }.items():
        assert ids(await served.get(f"/nodes?{query}")) == wanted, query


@pytest.mark.parametrize(
    ("query", "code", "names"),
    [
        ("stat=lost", "unknown_parameter", "state"),
        ("state=dead", "invalid_parameter", "state"),
        ("limit=0", "invalid_parameter", "limit"),
        ("limit=1001", "invalid_parameter", "limit"),
        ("limit=ten", "invalid_parameter", "limit"),
        ("limit=1&limit=2", "invalid_parameter", "limit"),
        ("label=env", "invalid_parameter", "label"),
        ("at=yesterday", "invalid_parameter", "at"),
        ("at=2999-01-01T00:00:00Z", "invalid_parameter", "at"),
        ("cursor=abc", "invalid_cursor", "cursor"),
        ("min_seq=-1", "invalid_parameter", "min_seq"),
        ("include_retired=perhaps", "invalid_parameter", "include_retired"),
        ("zone=" + "z" * 1025, "invalid_parameter", "zone"),
    ],
)
async def test_what_cannot_be_read_is_a_problem_that_names_it(
    served: Fleet, query: str, code: str, names: str
) -> None:
    got = await served.get(f"/nodes?{query}")

    assert got.status == 400
    assert got.json["code"] == code
    assert names in got.json["detail"]


async def test_a_cursor_belongs_to_its_filters(served: Fleet) -> None:
    for name in ("a", "b"):
        served.registered(name, zone="z1")
    cursor = (await served.get("/nodes?limit=1&zone=z1")).json["next_cursor"]

    assert ids(await served.get(f"/nodes?limit=5&zone=z1&cursor={cursor}")) == ["b"]
    assert (await served.get(f"/nodes?zone=z2&cursor={cursor}")).json["code"] == "invalid_cursor"


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much],
)
@given(said=st.lists(any_event, min_size=1, max_size=6))
def test_any_log_gives_answers_that_a_strict_parser_reads(served: Fleet, said: list[FactEvent]) -> None:
    seq = served.records([(event.subject, encode_fact(event)) for event in said])

    async def asked() -> None:
        page = await served.get("/nodes?include_retired=true&limit=1000")
        NodesAnswer.model_validate_json(page.body)
        for about in {event.about for event in said if event.kind.owner != "zone"}:
            for target in (_path(about), f"{_path(about)}/timeline", f"{_path(about)}/capacity"):
                got = await served.get(target)
                assert (got.status, got.json["as_of"]["seq"]) in {(200, seq), (404, seq), (410, seq)}
        for target in ("/capacity", "/status", "/capacity?group_by=zone"):
            assert (await served.get(target)).json["as_of"]["seq"] == seq

    anyio.run(asked)


def _a_busy_node(served: Fleet) -> None:
    served.registered(
        "gpu-1",
        resources={"cpu": {"total": 64, "reserved": 2}, "memory": {"total": None}},
        devices=[{"id": f"GPU-{n}", "kind": "gpu", "model": "X", "healthy": n == 0} for n in range(2)],
        labels={"env": "prod"},
        addresses=["192.0.2.1"],
        agent={"name": "agent", "version": "1"},
        interval_s=10,
    )
    served.said("operator", "gpu-1", "cordoned", owner="ops", actor="ops", reason="fan", sticky=True)
    served.said("operator", "gpu-1", "labels_set", labels={"rack": "r7"}, actor="ops")
    served.said("operator", "gpu-1", "display_name_set", display_name="the big one")
    served.said("operator", "gpu-1", "capacity_declared", resources={"cpu": {"ratio": 1.5}})
    served.said("platform", "gpu-1", "allocated", workload="w1", amounts={"cpu": 3.5})
    served.said("liveness", "gpu-1", "alive", boot_id="b1")
    served.beat("gpu-1", seq=2, sent_at=served.at.isoformat())
    served.beat("gpu-1", seq=4, used={"cpu": 12.25, "memory": 81604378624})
