"""Tables rebuilt from the log and verified against it, on a real server and real files."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import duckdb
import numpy as np
import pytest
from nats.aio.client import Client

from consumers.rebuild import Progress, rebuild, up_to, verify
from events.errors import BrokerUnavailableError, EpochChangedError, RefusedError, StoreError
from events.ids import NodeId
from events.log import Batch, Cursor
from events.stream_admin import ensure_streams
from projections.projection import Projection
from tests.support.broker import Broker
from tests.support.brokers import AnyBroker
from tests.support.contents import contents
from tests.support.logs import busy_day
from tests.support.loops import on_a_loop
from tests.support.projecting import projecting
from tests.support.publishing import beats, connected, head, js_api, nodes, publish_all, registrations
from tests.support.reading import reading_client

FLEET = nodes(40)
FILE = "tables.duckdb"


def quiet(_progress: Progress) -> None:
    """Nobody watches."""


@asynccontextmanager
async def folded_log(url: str, file: Path) -> AsyncIterator[tuple[Client, Client]]:
    """A log with facts and heartbeats, folded into a file that is closed; give a writer and a reader."""
    async with connected(url) as nc:
        await ensure_streams(nc)
        await publish_all(nc, "FLEET", busy_day(FLEET))
        await publish_all(nc, "BEATS", beats(FLEET, rounds=10))
        await fold_all(nc, url, file)
        reader = await reading_client(url)
        try:
            yield nc, reader
        finally:
            await reader.close()


async def fold_all(nc: Client, url: str, file: Path) -> None:
    async with projecting(url, file) as (_, projector):
        for stream in ("FLEET", "BEATS"):
            assert await projector.wait_for(stream, await head(nc, stream), timeout_s=20)


def spoil(file: Path) -> None:
    """Change a row behind the log's back."""
    with duckdb.connect(file) as connection:
        connection.execute("UPDATE main.node SET zone = 'nowhere' WHERE node_id = 'n3'")


def files(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if name.startswith(FILE))  # noqa: PTH208 (names only)


@on_a_loop
async def test_tables_that_are_what_the_log_says_are_verified_and_left_alone(
    broker: AnyBroker, tmp_path: Path
) -> None:
    seen: list[Progress] = []
    async with folded_log(broker.url, tmp_path / FILE) as (_, reader):
        found = await verify(tmp_path / FILE, reader, on_progress=seen.append)

    assert found.is_equal
    compared = {view.view for view in found.views}
    assert compared >= {"nodes", "node_history", "capacity_history", "facts", "usage"}
    assert seen[-1].done == seen[-1].total > 400
    assert files(tmp_path) == [FILE, f"{FILE}.lock"]


@on_a_loop
async def test_a_row_that_the_log_does_not_say_is_found(broker: AnyBroker, tmp_path: Path) -> None:
    async with folded_log(broker.url, tmp_path / FILE) as (_, reader):
        spoil(tmp_path / FILE)

        found = await verify(tmp_path / FILE, reader, on_progress=quiet)

    wrong = {view.view: view for view in found.views if not view.is_equal}
    assert "nodes" in wrong
    left = [difference for difference in wrong["nodes"].differences if difference.is_left]
    assert [(one.row["node_id"], one.row["zone"]) for one in left] == [("n3", "nowhere")]


@on_a_loop
async def test_tables_behind_the_log_are_compared_where_they_are(broker: AnyBroker, tmp_path: Path) -> None:
    async with folded_log(broker.url, tmp_path / FILE) as (nc, reader):
        await publish_all(nc, "FLEET", registrations([NodeId("later")]))
        await publish_all(nc, "BEATS", beats(FLEET, rounds=3, first_seq=12))

        found = await verify(tmp_path / FILE, reader, on_progress=quiet)

    assert found.is_equal
    assert "usage" in {view.view for view in found.views}


@on_a_loop
async def test_a_rebuild_puts_tables_of_the_whole_log_in_the_place_of_wrong_ones(
    broker: AnyBroker, tmp_path: Path
) -> None:
    seen: list[Progress] = []
    async with folded_log(broker.url, tmp_path / FILE) as (nc, reader):
        spoil(tmp_path / FILE)
        await publish_all(nc, "FLEET", registrations([NodeId("later")]))

        done = await rebuild(tmp_path / FILE, reader, on_progress=seen.append)
        await fold_all(nc, broker.url, tmp_path / "once.duckdb")

    assert done.comparison is not None
    assert not done.comparison.is_equal
    assert done.replaced is not None
    assert seen[-1].done == seen[-1].total
    tables, once = Projection.open(tmp_path / FILE), Projection.open(tmp_path / "once.duckdb")
    assert dict(tables.cursors()) == done.cursors
    assert tables.recovered is None
    assert contents(tables) == contents(once)
    tables.close()
    once.close()
    assert files(tmp_path) == [FILE, f"{FILE}.lock", done.replaced.name]


@on_a_loop
async def test_a_rebuild_needs_no_tables_to_begin_with(broker: AnyBroker, tmp_path: Path) -> None:
    async with folded_log(broker.url, tmp_path / "other.duckdb") as (_, reader):
        done = await rebuild(tmp_path / FILE, reader, on_progress=quiet)

    assert (done.comparison, done.replaced) == (None, None)
    assert "there is no such file" in done.not_compared
    tables = Projection.open(tmp_path / FILE)
    assert tables.node(NodeId("n3")) is not None
    tables.close()


@on_a_loop
async def test_tables_of_another_log_cannot_be_verified_but_rebuilt(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with folded_log(broker.url, tmp_path / FILE) as (nc, reader):
        await js_api(nc, "STREAM.DELETE.FLEET")
        await ensure_streams(nc)
        await publish_all(nc, "FLEET", registrations([NodeId("other")]))

        with pytest.raises(EpochChangedError):
            await verify(tmp_path / FILE, reader, on_progress=quiet)
        done = await rebuild(tmp_path / FILE, reader, on_progress=quiet)

    assert "was created at" in done.not_compared
    tables = Projection.open(tmp_path / FILE)
    assert tables.node(NodeId("other")) is not None
    assert tables.node(NodeId("n3")) is None
    tables.close()


@on_a_loop
async def test_tables_that_a_service_has_open_are_left_alone(broker: AnyBroker, tmp_path: Path) -> None:
    async with folded_log(broker.url, tmp_path / FILE) as (_, reader):
        service = Projection.open(tmp_path / FILE)

        for work in (verify, rebuild):
            with pytest.raises(RefusedError) as refused:
                await work(tmp_path / FILE, reader, on_progress=quiet)
            assert refused.value.reason == "tables_in_use"
            assert "stop the service" in refused.value.instead

        service.close()


@on_a_loop
async def test_tables_that_were_never_made_cannot_be_verified(broker: AnyBroker, tmp_path: Path) -> None:
    async with folded_log(broker.url, tmp_path / "other.duckdb") as (_, reader):
        with pytest.raises(StoreError):
            await verify(tmp_path / FILE, reader, on_progress=quiet)

    assert FILE not in files(tmp_path)


@on_a_loop
async def test_without_an_answer_nothing_is_touched(own_broker: Broker, tmp_path: Path) -> None:
    async with folded_log(own_broker.url, tmp_path / FILE) as (_, reader):
        own_broker.freeze()
        try:
            with pytest.raises(BrokerUnavailableError):
                await rebuild(tmp_path / FILE, reader, on_progress=quiet)
        finally:
            own_broker.thaw()

    assert files(tmp_path) == [FILE, f"{FILE}.lock"]


def test_a_batch_is_cut_at_a_record_or_in_a_hole() -> None:
    seqs = np.array([1, 2, 7, 8], np.int64)
    subjects, payloads = [b"a", b"b", b"g", b"h"], [b"1", b"2", b"7", b"8"]
    batch = Batch("T", seqs, seqs * 10, subjects, payloads, Cursor("e", 8, 80), ((3, 6),), 5)

    at_a_record, in_a_hole, whole = up_to(batch, 7), up_to(batch, 4), up_to(batch, 9)

    assert at_a_record.payloads == [b"1", b"2", b"7"]
    assert (at_a_record.cursor, at_a_record.holes) == (Cursor("e", 7, 70), ((3, 6),))
    assert at_a_record.pending == 6
    assert in_a_hole.seqs.tolist() == [1, 2]
    assert (in_a_hole.cursor, in_a_hole.holes) == (Cursor("e", 4, 20), ((3, 4),))
    assert whole is batch
