"""Fuse and whoever means it no good: bodies that are none, secrets that must stay where they are."""

from __future__ import annotations

import json
import logging
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from api.dialects.fuse_secrets import SecretStore
from tests.support.brokers import AnyBroker
from tests.support.fuse import CAPACITY, body, error, fuse, fuse_rules, register, state_of
from tests.support.host_agents import PLAIN, host_agent, nobody_listens
from tests.support.loops import on_a_loop
from tests.support.odd_agents import answers, odd_agent
from tests.support.serving import serving
from tests.support.spoken import told

TOKEN = "agent-token"
SECRET = "s3cret-of-an-agent-0123456789"


def _raw(**changed: object) -> bytes:
    return json.dumps(body("http://127.0.0.1:1", **changed)).encode()


DEEP = b'{"id":"h1","labels":' + b'{"a":' * 70 + b"1" + b"}" * 70 + b"}"
BODIES: list[tuple[bytes, tuple[int, str]]] = [
    (b"", (400, "invalid_argument")),
    (b"null", (400, "invalid_argument")),
    (b"[]", (400, "invalid_argument")),
    (b'"h1"', (400, "invalid_argument")),
    (b"{", (400, "invalid_argument")),
    (b'{"id":"\xff\xfe"}', (400, "invalid_argument")),
    (b'{"id":"\\ud800"}', (400, "invalid_argument")),
    (b'\xef\xbb\xbf{"id":"h1"}', (400, "invalid_argument")),
    (b'{"id":"h1","id":"h2"}', (400, "invalid_argument")),
    (_raw().replace(b'"vm_count": 10', b'"vm_count": NaN'), (400, "invalid_argument")),
    (_raw().replace(b'"vm_count": 10', b'"vm_count": 1e400'), (400, "invalid_argument")),
    (_raw().replace(b'"vm_count": 10', b'"vm_count": ' + b"9" * 5000), (400, "invalid_argument")),
    (_raw(capacity={**CAPACITY, "vm_count": True}), (400, "invalid_argument")),
    (_raw(capacity={**CAPACITY, "ram_mb": 2**63 - 1}), (400, "invalid_argument")),
    (DEEP, (400, "invalid_argument")),
    (b"[" * 60_000, (400, "invalid_argument")),
    (_raw(id="x" * 260), (400, "invalid_argument")),
    (_raw(id="\u0000"), (201, "")),
    (_raw(padding="x" * 2**16), (413, "payload_too_large")),
    (b" " * 2**20, (413, "payload_too_large")),
]


@on_a_loop
async def test_every_body_gets_an_answer_in_the_envelope_and_the_next_one_too(
    broker: AnyBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(broker, tmp_path, dialects=fuse_rules()) as served:
        for sent, expected in BODIES:
            got = await fuse(served, "POST", "/v1/hosts", raw=sent)

            found = (got.status, "") if got.status == 201 else error(got)
            assert found == expected, (sent[:80], got.body)
        for target in ("/login", "/v1/api-keys"):
            for sent in (b"{", b"[]", DEEP, b'{"token":"\xff"}', b'{"label":"a","label":"b"}'):
                got = await fuse(served, "POST", target, raw=sent)
                assert got.status in (400, 401), (target, sent[:80])
        await register(served, nobody_listens())
        odd = await fuse(served, "GET", "/v1/hosts/%00")

    assert told(odd)["id"] == "\u0000"
    assert "Traceback" not in caplog.text


@on_a_loop
async def test_odd_paths_and_headers_are_answered_in_the_envelope(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path, dialects=fuse_rules()) as served:
        await register(served, nobody_listens())
        paths = ["%FF", "..", "%2e%2e", "a%2Fb", "x" * 3000, quote("ü" * 200), "h1%00", "H1", "h1%20"]
        found = [error(await fuse(served, "GET", f"/v1/hosts/{path}")) for path in paths]
        actions = [
            error(await fuse(served, "POST", f"/v1/hosts/h1{query}"))
            for query in (
                "",
                "?action=",
                "?action=drain",
                "?action=CORDON",
                "?action=drain&action=cordon",
                "?Action=cordon",
            )
        ]
        weird = await fuse(
            served, "GET", "/v1/hosts/h1", headers={"content-type": "text/plain", "host": "evil"}
        )

    assert found == [(400, "invalid_argument")] + [(404, "not_found")] * 8
    assert actions == [(400, "invalid_argument")] * 6
    assert weird.status == 200


@on_a_loop
async def test_the_agents_token_is_in_no_answer_no_record_no_table_and_no_line_of_the_log(
    broker: AnyBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    store = SecretStore(tmp_path / "secrets.sqlite3")
    capacity = json.dumps(PLAIN).encode()
    repeats = json.dumps({**PLAIN, "gpu_kind": SECRET}).encode()
    with closing(store):
        async with serving(broker, tmp_path, dialects=fuse_rules(), secrets=store) as served:
            with odd_agent(answers(200, capacity)) as agent, odd_agent(answers(200, repeats)) as mirror:
                said = [
                    await fuse(served, "POST", "/v1/hosts", body(agent.url, token=SECRET)),
                    await fuse(served, "POST", "/v1/hosts", body(agent.url, token=SECRET)),
                    await fuse(served, "POST", "/v1/hosts", body(mirror.url, "h2", token=SECRET)),
                    await fuse(served, "POST", "/v1/hosts", body(nobody_listens(), "h3", token=SECRET)),
                    await fuse(served, "POST", "/v1/hosts", body(f"{agent.url}#", token=SECRET)),
                    await fuse(served, "POST", "/v1/hosts", body(agent.url, token=f"{SECRET} ")),
                    await fuse(served, "POST", "/v1/hosts", raw=f'{{"token": "{SECRET}", "id": x}}'.encode()),
                    await fuse(served, "POST", "/v1/hosts", raw=f'{{"token": ["{SECRET}"]}}'.encode()),
                    await fuse(served, "GET", "/v1/hosts"),
                    await served.ask("GET", "/fleet/v1/nodes/fuse%3Ah1"),
                ]
                heard = [one["authorization"] for one in (*agent.asked, *mirror.asked)]
            js = served.nc.jetstream()
            records = [(await js.get_msg("FLEET", seq)) for seq in range(1, await served.fleet_seq() + 1)]
            node = state_of(served).node_id
            print_of = str((state_of(served).dialect or {})["attributes"]["token"])
            kept = store.token(node, fingerprint=print_of)
            await register(served, nobody_listens(), token="another-token")
            changed = [store.token(node, fingerprint=print_of)]
            await fuse(served, "DELETE", "/v1/hosts/h1")
            changed.append(store.token(node, fingerprint=str(_attributes(served)["token"])))
            await register(served, nobody_listens(), token=SECRET)
            again = store.token(node, fingerprint=print_of)
    tables = _tables(tmp_path)

    assert [got.status for got in said] == [201, 201, 201, 201, 400, 400, 400, 400, 200, 200]
    assert heard == [f"Bearer {SECRET}"] * 3
    assert (kept, changed, again) == (SECRET, [None, None], SECRET)
    assert len(records) == 3
    assert all(SECRET.encode() not in got.body + str(got.headers).encode() for got in said)
    assert all(SECRET not in f"{record.data!r}{record.headers}{record.subject}" for record in records)
    assert print_of.encode() in b"".join(record.data or b"" for record in records)
    assert tables
    assert SECRET.encode() not in tables
    assert SECRET not in caplog.text
    assert (tmp_path / "secrets.sqlite3").stat().st_mode & 0o077 == 0


@on_a_loop
async def test_a_host_may_hold_many_devices_and_still_fits_a_fact(broker: AnyBroker, tmp_path: Path) -> None:
    devices = [
        {"uuid": f"GPU-{n:032x}", "model": "NVIDIA A100-SXM4-80GB", "pci_bus_id": f"00000000:{n:02X}:00.0",
         "memory_mb": 81920, "driver_version": "550.90.07", "compute_cap": "8.0", "mig_capable": True,
         "mig_mode": "Enabled"}
        for n in range(64)
    ]  # fmt: skip
    instances = [
        {
            "uuid": f"MIG-{n:032x}",
            "profile": "1g.10gb",
            "kind": "a100",
            "parent_gpu_uuid": f"GPU-{n // 7:032x}",
        }
        for n in range(112)
    ]
    with host_agent({**PLAIN, "gpus": 64, "gpu_devices": devices, "mig_instances": instances}) as agent:
        async with serving(broker, tmp_path, dialects=fuse_rules()) as served:
            shown = await register(served, agent.url, backend="qemu", token=TOKEN)

    assert (shown["capacity"]["gpu_devices"], shown["capacity"]["mig_instances"]) == (devices, instances)


def _tables(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir() if "duckdb" in file.name)


def _attributes(served: Any) -> dict[str, Any]:  # noqa: ANN401
    found: dict[str, Any] = (state_of(served).dialect or {})["attributes"]
    return found
