"""The command line against a running service: tables for people, JSON for programs, exit codes for both."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.processes import fleetfold, running
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
REAL = ROOT / "docs" / "data" / "openb_node_list_all_node.csv"


@dataclass(frozen=True)
class Service:
    """A service with the real fleet, registered and silent."""

    api: str
    broker: str
    folder: Path


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    with running("up", "--ephemeral", cwd=folder) as up:
        api = up.says(r"API +(http://\S+)/fleet/v1/nodes")[1]
        broker = up.says(r"broker +(nats://[^\s,]+)")[1]
        done = fleetfold(
            "simulate", "--from", str(REAL), "--interval", "1", "--duration", "1", "--nats", broker, "--json",
            cwd=folder,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        assert (report["nodes"], report["registered"]) == (1_523, 1_523)

        def is_folded() -> bool:
            found = fleetfold("capacity", "--json", "--server", api, cwd=folder)
            items = {item["resource"]: item for item in json.loads(found.stdout)["items"]}
            return "cpu" in items and items["cpu"]["nodes"] == 1_523

        wait_until(is_folded)
        yield Service(api, broker, folder)


def test_the_sums_of_the_real_fleet_are_exact(service: Service) -> None:
    told = fleetfold("capacity", "--json", "--server", service.api, cwd=service.folder)

    totals = {item["resource"]: item["total"] for item in json.loads(told.stdout)["items"]}
    assert totals["cpu"] == 125_514
    assert totals["memory"] == 612_028_416 * 1024**2
    assert totals["gpu"] == 6_212


def test_capacity_is_a_table_for_people(service: Service) -> None:
    told = fleetfold("capacity", "--group-by", "pool", "--server", service.api, cwd=service.folder)

    assert told.returncode == 0
    row = next(line for line in told.stdout.splitlines() if " cpu " in line)
    assert row.split()[:4] == ["openb", "cpu", "1,523", "125,514"]
    assert "behind the log" in told.stdout


def test_nodes_are_a_table_for_people_and_json_for_programs(service: Service) -> None:
    table = fleetfold("nodes", "-n", "3", "--pool", "openb", "--server", service.api, cwd=service.folder)
    assert "openb-node-0002" in table.stdout
    assert "256 GiB" in table.stdout
    assert "the first 3" in table.stdout

    listed = fleetfold("nodes", "-n", "2000", "--json", "--server", service.api, cwd=service.folder)
    found = json.loads(listed.stdout)
    assert len(found) == 1_523
    assert found[0]["id"] == "openb-node-0000"

    none = fleetfold("nodes", "--zone", "nowhere", "--server", service.api, cwd=service.folder)
    assert none.returncode == 0
    assert "0 nodes" in none.stdout


def test_one_node_is_shown_with_its_resources(service: Service) -> None:
    told = fleetfold("show", "openb-node-1000", "--server", service.api, cwd=service.folder)

    assert told.returncode == 0
    assert told.stdout.startswith("openb-node-1000")
    assert "memory" in told.stdout


def test_a_node_that_is_none_is_refused(service: Service) -> None:
    told = fleetfold("show", "no/such node", "--server", service.api, cwd=service.folder)

    assert told.returncode == 1
    assert "no/such node" in told.stderr


def test_sql_answers_in_three_forms(service: Service) -> None:
    statement = "SELECT pool, count(*) AS nodes FROM fleet.nodes GROUP BY pool"

    def asked(*more: str, stdin: str = "") -> str:
        told = fleetfold("sql", *more, "--server", service.api, cwd=service.folder, stdin=stdin)
        return told.stdout if told.returncode == 0 else ""

    wait_until(lambda: "1523" in asked(statement), what="the replica has folded the fleet")
    assert asked("--format", "csv", statement).splitlines()[1].replace('"', "") == "openb,1523"
    assert json.loads(asked("--format", "json", statement))["rows"] == [["openb", 1523]]
    assert "1523" in asked("-", stdin=statement)
    file = service.folder / "q.sql"
    file.write_text(statement)
    assert "1523" in asked("--file", str(file))


def test_a_view_is_exported_whole_in_each_form(service: Service) -> None:
    from pyarrow import ipc, parquet

    def exported(what: str, name: str, *more: str) -> Path:
        told = fleetfold("export", what, name, *more, "--server", service.api, cwd=service.folder)
        assert told.returncode == 0, told.stderr
        return service.folder / name

    def is_whole() -> bool:
        return parquet.read_table(exported("nodes", "nodes.parquet")).num_rows == 1_523

    wait_until(is_whole, what="the replica has folded the fleet")
    statement = "SELECT node_id FROM fleet.nodes WHERE pool = 'openb'"
    assert len(exported(statement, "ids.csv").read_text().splitlines()) == 1_524
    assert json.loads(exported("fleet.capacity", "capacity.json").read_text())["truncated"] is False
    with ipc.open_stream(exported("labels_history", "labels.arrow")) as stream:
        assert "value" in stream.schema.names
    then = exported("nodes", "then.json", "--at", "2020-01-01T00:00:00Z")
    assert json.loads(then.read_text())["rows"] == []
    assert list(service.folder.glob("*.part")) == []


def test_an_export_that_fails_leaves_what_was_there(service: Service) -> None:
    file = service.folder / "kept.csv"
    file.write_text("kept")

    told = fleetfold(
        "export", "SELECT no_such FROM fleet.nodes", "kept.csv", "--server", service.api, cwd=service.folder
    )

    assert told.returncode == 1
    assert file.read_text() == "kept"


def test_sql_that_writes_is_refused_with_a_sentence(service: Service) -> None:
    told = fleetfold("sql", "DELETE FROM fleet.nodes", "--server", service.api, cwd=service.folder)

    assert told.returncode == 1
    assert told.stderr.startswith("fleetfold: ")
    assert "Traceback" not in told.stderr


def test_quarantine_is_empty_and_then_names_the_reason(service: Service) -> None:
    import asyncio

    import nats

    async def publish() -> None:
        nc = await nats.connect(service.broker)
        await nc.jetstream().publish("fleet.v1.agent.odd.registered", b"{not json")
        await nc.close()

    asyncio.run(publish())

    def told() -> str:
        return fleetfold("quarantine", "--server", service.api, cwd=service.folder).stdout

    wait_until(lambda: "not_json" in told())
    assert "odd" in told()


def test_check_finds_everything_as_it_should_be(service: Service) -> None:
    told = fleetfold("check", "--nats", service.broker, "--json", cwd=service.folder)

    assert told.returncode == 0
    found = json.loads(told.stdout)
    assert all(finding["is_good"] for finding in found["findings"])
    url = next(row for row in found["settings"] if row["name"] == "FLEETFOLD_NATS__URL")
    assert url == {"name": "FLEETFOLD_NATS__URL", "value": service.broker, "origin": "flag --nats"}


def test_what_cannot_be_reached_ends_with_three(tmp_path: Path) -> None:
    nowhere = ("--server", "http://127.0.0.1:9")
    assert fleetfold("nodes", *nowhere, cwd=tmp_path).returncode == 3
    assert fleetfold("sql", "SELECT 1", *nowhere, cwd=tmp_path).returncode == 3
    assert fleetfold("check", "--nats", "nats://127.0.0.1:9", cwd=tmp_path).returncode == 3
    assert fleetfold("simulate", "--nats", "nats://127.0.0.1:9", cwd=tmp_path).returncode == 3


def test_a_server_that_is_no_address_is_wrong_usage(tmp_path: Path) -> None:
    for server in ("ftp://127.0.0.1", "http://", "http://[::1", "127.0.0.1:http"):
        told = fleetfold("nodes", "--server", server, cwd=tmp_path)

        assert (told.returncode, "is no address" in told.stderr) == (2, True), server


def test_output_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        told = subprocess.run(
            [sys.executable, "-m", "fleetfold", "schema", "openapi"],
            cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip

    assert told.returncode == 1
    assert told.stderr == "fleetfold: the output cannot be written: No space left on device\n"


def test_documents_are_made_from_the_code(tmp_path: Path) -> None:
    assert "FLEETFOLD_LIVENESS__GRACE_S" in fleetfold("schema", "settings", cwd=tmp_path).stdout
    assert "## fleet.nodes" in fleetfold("schema", "sql", cwd=tmp_path).stdout
    assert json.loads(fleetfold("schema", "openapi", cwd=tmp_path).stdout)["openapi"].startswith("3.")


def test_the_agent_of_one_machine_speaks_and_says_goodbye(service: Service) -> None:
    import signal

    arguments = (
        "agent",
        "--nats",
        service.broker,
        "--node",
        "desk",
        "--zone",
        "eu-1a",
        "--label",
        "tier=gold",
    )
    with running(*arguments, cwd=service.folder) as agent:
        agent.says("registered")
        agent.send(signal.SIGINT)
        assert agent.ends() == 0

    def shown() -> str:
        return fleetfold("show", "desk", "--server", service.api, cwd=service.folder).stdout

    wait_until(lambda: "tier=gold" in shown())
    assert "eu-1a" in shown()
