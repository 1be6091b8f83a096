"""Logs: one form for every record, and no secret in it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from fleetfold import logs


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_record_of_any_module_is_one_json_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(is_terminal=False)

    logging.getLogger("consumers.reader").warning("stream %s is behind", "FLEET", extra={"lag_ms": 12})

    record = json.loads(capsys.readouterr().err)
    assert record["event"] == "stream FLEET is behind"
    assert (record["level"], record["logger"], record["lag_ms"]) == ("warning", "consumers.reader", 12)
    assert record["timestamp"].endswith("Z")


def test_a_traceback_stays_in_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(is_terminal=False)

    try:
        raise ValueError("with s3cret-token in it")
    except ValueError:
        logging.getLogger("x").exception("failed")

    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert "ValueError" in json.loads(lines[0])["exception"]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_secret_is_blotted_wherever_it_stands(
    is_terminal: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure(secrets=["s3cret-token"], is_terminal=is_terminal)

    log = logging.getLogger("api")
    log.warning(
        "asked with s3cret-token", extra={"agent_token": "another", "url": "nats://me:pass@host:4222"}
    )
    try:
        raise ValueError("s3cret-token")
    except ValueError:
        log.exception("failed")

    told = capsys.readouterr().err
    assert "asked with ********" in told
    assert not any(secret in told for secret in ("s3cret-token", "another", "me:pass"))
