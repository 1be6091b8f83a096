"""One change has one position, whichever way it is read, on a real broker."""

from __future__ import annotations

from pathlib import Path

import orjson

from api.nats_routes import start_nats_routes
from tests.support.announcing import announcing, messages, told_up_to
from tests.support.brokers import AnyBroker
from tests.support.logs import busy_day
from tests.support.loops import on_a_loop
from tests.support.publishing import head, nodes, publish_all
from tests.support.serving import serving


@on_a_loop
async def test_a_change_has_one_position_over_nats_http_and_sql(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served, announcing(broker.url, served.projection):
        routes = await start_nats_routes(served.answers.service)
        await publish_all(served.nc, "FLEET", busy_day(nodes(8)))
        seq = await head(served.nc, "FLEET")

        over_http = (await served.ask("GET", f"/fleet/v1/changes?limit=1000&min_seq={seq}")).json
        asked = orjson.dumps({"limit": 1000, "after": "start", "min_seq": seq})
        over_nats = orjson.loads((await served.nc.request("fleet.api.v1.changes", asked, timeout=10)).data)
        cursors = [item["cursor"] for item in over_http["items"]]
        await told_up_to(served.nc, cursors)
        announced = await messages(served.nc)
        with served.projection.cursor() as tables:
            rows = tables.execute("SELECT cause_seq, n FROM fleet.changes ORDER BY seq").fetchall()
        await routes.stop()

    epoch = over_http["as_of"]["epoch"]
    assert [event["id"] for event in announced] == cursors
    assert [f"{epoch}/{cause}/{n}" for cause, n in rows] == cursors
    assert over_nats["items"] == over_http["items"]
    assert over_nats["next_cursor"] == over_http["next_cursor"] == f"{epoch}/{seq}"
    for event, item in zip(announced, over_http["items"], strict=True):
        assert {"frame": "change", "at": event["time"], **event["data"]} == item


@on_a_loop
async def test_a_question_over_nats_that_cannot_be_read_is_a_problem(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with serving(broker, tmp_path) as served:
        routes = await start_nats_routes(served.answers.service)
        answer = await served.nc.request("fleet.api.v1.changes", b'{"after":"nonsense"}', timeout=10)
        await routes.stop()

    assert orjson.loads(answer.data)["code"] == "invalid_cursor"
