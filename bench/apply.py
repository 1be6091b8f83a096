"""What folding and committing costs, without a broker: beats, facts, loading, and questions meanwhile.

    python -m bench.apply [--nodes 100000] [--seconds 60] [--checkpoint-at 64MB]

CPU is of the whole process. Batches are made beforehand, so the figures hold nothing but `Projection.apply`.
"""

from __future__ import annotations

import argparse
import gc
import random
import resource
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import orjson

from bench.table import Table
from events.ids import NodeId
from events.log import Batch, Cursor
from events.streams import BEATS_NAME, FLEET_NAME
from events.subjects import beat_subject, fact_subject
from projections import capacity_queries, queries
from projections.directory import EVERY_NODE, NodeFilter
from projections.projection import Projection, ProjectionSettings
from projections.store import StoreSettings

BEGIN = datetime(2026, 5, 1, tzinfo=UTC)
BEGIN_NS = int(BEGIN.timestamp()) * 10**9
STEADY_RATE = 20_000


class Log:
    """Both streams of a made-up fleet, each record once."""

    def __init__(self, nodes: int) -> None:
        self._random = random.Random(1)
        self.node_ids = [NodeId(f"node-{number:06d}") for number in range(nodes)]
        self._boots = [str(uuid.UUID(int=self._random.getrandbits(128))) for _ in range(nodes)]
        self._digests = [f"{self._random.getrandbits(64):016x}" for _ in range(nodes)]
        self._at = {FLEET_NAME: 0, BEATS_NAME: 0}

    def registrations(self, batch: int) -> Iterator[Batch]:
        """Yield a registration of every node: 4 resources, 4 labels."""
        for begin in range(0, len(self.node_ids), batch):
            numbers = range(begin, min(begin + batch, len(self.node_ids)))
            subjects = [fact_subject("agent", self.node_ids[number], "registered") for number in numbers]
            yield self._batch(FLEET_NAME, subjects, [self._registration(number) for number in numbers])

    def beats(self, batch: int, count: int) -> list[Batch]:
        """Return batches of beats, the nodes in turn."""
        return [self._batch(BEATS_NAME, *self._beats(batch)) for _ in range(count)]

    def _registration(self, number: int) -> bytes:
        return orjson.dumps(
            {
                "boot_id": self._boots[number],
                "seq": 1,
                "machine_id": f"{number:032x}",
                "hostname": f"{self.node_ids[number]}.example",
                "addresses": [f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"],
                "region": f"r{number % 3}",
                "zone": f"z{number % 20}",
                "pool": f"p{number % 7}",
                "architecture": "x86_64",
                "interval_s": 10,
                "labels": {
                    "rack": f"r{number % 500}",
                    "env": "prod",
                    "team": f"t{number % 40}",
                    "os": "linux",
                },
                "resources": {
                    "cpu": {"total": 64},
                    "memory": {"total": 274877906944, "reserved": 1073741824},
                    "disk": {"total": 4000000000000},
                    "gpu": {"total": number % 8},
                },
            }
        )

    def _beats(self, batch: int) -> tuple[list[str], list[bytes]]:
        nodes, first, chance = len(self.node_ids), self._at[BEATS_NAME], self._random
        numbers = [(first + at) % nodes for at in range(batch)]
        payloads = [
            b'{"boot_id":"%b","seq":%d,"sent_at":"2026-05-01T00:00:00.%06dZ","inventory":"%b",'
            b'"used":{"cpu":%.3f,"memory":%d}}'
            % (
                self._boots[number].encode(),
                1 + (first + at) // nodes,
                chance.randrange(10**6),
                self._digests[number].encode(),
                chance.random() * 64,
                chance.randrange(1 << 38),
            )
            for at, number in enumerate(numbers)
        ]
        return [beat_subject(self.node_ids[number]) for number in numbers], payloads

    def _batch(self, stream: str, subjects: list[str], payloads: list[bytes]) -> Batch:
        first = self._at[stream] + 1
        self._at[stream] += len(payloads)
        seqs = np.arange(first, first + len(payloads), dtype=np.int64)
        stored_at_ns = BEGIN_NS + seqs * (10**9 // STEADY_RATE)
        cursor = Cursor("bench", int(seqs[-1]), int(stored_at_ns[-1]))
        return Batch(stream, seqs, stored_at_ns, [one.encode() for one in subjects], payloads, cursor)


def applied(projection: Projection, batches: Sequence[Batch], table: Table, name: str) -> None:
    """Apply batches as fast as they go and print what a record cost."""
    walls, cpu = [], time.process_time()
    for batch in batches:
        began = time.perf_counter()
        projection.apply(batch)
        walls.append(time.perf_counter() - began)
    cpu = time.process_time() - cpu
    records = sum(map(len, batches))
    ms = np.array(walls) * 1e3
    table.row(name, records / sum(walls), cpu / records * 1e6, np.median(ms), np.percentile(ms, 99), ms.max())


def asked(projection: Projection, table: Table, name: str) -> None:
    """Ask each fixed question some times and print how long it took."""
    at = BEGIN + timedelta(seconds=2)
    some = projection.nodes(EVERY_NODE, limit=1)[0].node_id

    def on_cursor(
        question: Callable[..., object], *arguments: object, **keywords: object
    ) -> Callable[[], object]:
        def ask() -> object:
            with closing(projection.cursor()) as cursor:
                return question(cursor, *arguments, **keywords)

        return ask

    rare = NodeFilter(labels={"rack": "r77"}, zone="z17")
    questions: dict[str, tuple[int, Callable[[], object]]] = {
        "node": (200, lambda: projection.node(some)),
        "page of 100": (100, lambda: projection.nodes(after="node-04", limit=100)),
        "page by label and zone": (100, lambda: projection.nodes(rare, limit=100)),
        "capacity by zone": (100, lambda: projection.capacity("zone")),
        "used by zone": (50, lambda: projection.used("zone")),
        "nodes by state": (100, projection.count_by_state),
        "node as of": (50, on_cursor(queries.node_at, some, at)),
        "timeline": (50, on_cursor(queries.timeline, some, limit=100)),
        "page as of": (20, on_cursor(queries.nodes_at, at, EVERY_NODE, limit=100)),
        "capacity as of by zone": (10, on_cursor(capacity_queries.capacity_at, at, "zone")),
    }
    for question, (times, ask) in questions.items():
        ms = []
        for _ in range(times):
            began = time.perf_counter()
            ask()
            ms.append((time.perf_counter() - began) * 1e3)
        table.row(f"{question}, {name}", np.median(ms), np.percentile(ms, 99))


def paced(projection: Projection, batches: Sequence[Batch], stop: threading.Event) -> None:
    """Apply batches at the steady rate until it is told to stop."""
    began = time.perf_counter()
    for done, batch in enumerate(batches, start=1):
        projection.apply(batch)
        if stop.wait(max(0.0, began + done * len(batch) / STEADY_RATE - time.perf_counter())):
            return


def main() -> None:
    """Fill a store, open it again, and print what each step cost."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--checkpoint-at", default=StoreSettings().checkpoint_at)
    chosen = parser.parse_args()
    settings = ProjectionSettings(store=StoreSettings(checkpoint_at=chosen.checkpoint_at))
    log = Log(chosen.nodes)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "store.duckdb"
        with closing(Projection.open(path, settings=settings)) as projection:
            costs = Table(
                ("batches", "s"), ("records/s", ",.0f"), ("CPU us", ".1f"), ("p50 ms", ".0f"),
                ("p99 ms", ".0f"), ("max ms", ".0f"),
            )  # fmt: skip
            applied(projection, list(log.registrations(10_000)), costs, "registrations, 10,000")
            applied(projection, log.beats(10_000, chosen.nodes // 10_000 + 1), costs, "first beats, 10,000")
            for size in (5_000, 10_000, 20_000):
                applied(projection, log.beats(size, 200_000 // size), costs, f"beats, {size:,}")
            _steadily(projection, log, chosen.seconds, costs)
            answers = Table(("question", "s"), ("p50 ms", ".1f"), ("p99 ms", ".1f"))
            asked(projection, answers, "idle")
            stop, batches = threading.Event(), log.beats(2_000, 400)
            writer = threading.Thread(target=paced, args=(projection, batches, stop))
            writer.start()
            asked(projection, answers, f"at {STEADY_RATE:,} beats/s")
            stop.set()
            writer.join()
        size = sum(file.stat().st_size for file in Path(folder).iterdir()) / 1e6
        gc.collect()
        began, cpu = time.perf_counter(), time.process_time()
        with closing(Projection.open(path, settings=settings)):
            took, cpu = time.perf_counter() - began, time.process_time() - cpu
        print(f"opened again in {took:.2f} s ({cpu:.2f} s of CPU), the file has {size:.0f} MB")
        print(f"largest resident size {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB")


def _steadily(projection: Projection, log: Log, seconds: float, costs: Table) -> None:
    """Apply batches of a tenth of a second for a while, and print the stalls that checkpoints make."""
    ms, cpu, records = [], 0.0, 0
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for batch in log.beats(3_000, 20):
            began, cpu_began = time.perf_counter(), time.process_time()
            projection.apply(batch)
            ms.append((time.perf_counter() - began) * 1e3)
            cpu += time.process_time() - cpu_began
            records += len(batch)
    costs.row(
        f"beats, 3,000, {seconds:.0f} s",
        records / sum(ms) * 1e3,
        cpu / records * 1e6,
        np.median(ms),
        np.percentile(ms, 99),
        max(ms),
    )


if __name__ == "__main__":
    main()
