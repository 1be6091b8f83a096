"""Why a node is what it is, as the command prints what the API answers."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from fleetfold.cli.why_view import print_why
from tests.support.fleet import Fleet, fleet

pytestmark = pytest.mark.anyio
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


async def _printed(served: Fleet, node: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    print_why((await served.get(f"/nodes/{node}/why")).json)
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


async def test_the_answer_stands_first_and_each_part_has_its_title(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with fleet(tmp_path) as served:
        served.at = NOON
        served.registered("n[1]", hostname="h1")
        served.registered("n2", hostname="h1")
        served.said("operator", "n[1]", "cordoned", owner="ops", actor="ada", reason="disk [sda]")
        told = await _printed(served, "n%5B1%5D", capsys)

    assert told[0] == "n[1]  cordoned by ops (ada): disk [sda]; it is pending"
    for title in ("because", "what would change it", "conditions"):
        assert title in told
    assert " • cordoned since 2026-05-01 12:00:00Z by ops (ada): disk [sda]" in told
    assert " • uncordon by owner ops → it becomes pending, not schedulable: pending" in told
    assert " • name_shared: the name h1 is also that of n2" in told
    assert "the last heartbeats could not be looked up: this service has no connection to a broker" in told
    assert "last changes 2026-05-01, UTC" in told
    changes = [line.split() for line in told if "intent.changed" in line]
    assert changes == [["12:00:00", "intent.changed", "ada", "disk", "[sda]", "3"]]


async def test_the_last_heartbeats_are_a_table_in_seconds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with fleet(tmp_path) as served:
        served.registered("n1")
        why = (await served.get("/nodes/n1/why")).json
    late = {
        "beat_seq": 2, "stored_at": "2026-05-01T12:00:10.500000Z", "boot_id": "b1", "seq": 17,
        "sent_at": None, "delay_ms": -1500, "since_previous_ms": 10020, "unreadable": "",
    }  # fmt: skip
    odd = {**late, "boot_id": None, "seq": None, "delay_ms": None, "since_previous_ms": None}

    print_why({**why, "last_beats": [late, {**odd, "unreadable": "not_json"}]})

    told = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["12:00:10", "10.0", "s", "-1.5", "s", "17", "b1"] in told
    assert ["12:00:10", "–", "–", "–", "not_json"] in told
