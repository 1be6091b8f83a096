"""What errors say: what, which and what now, in one sentence."""

from __future__ import annotations

import pytest

from api.problems import problem_of
from events.append import APPEND_REFUSED
from events.errors import (
    EpochChangedError,
    FleetfoldError,
    LogGapError,
    LogRewoundError,
    RefusedError,
    StreamDriftError,
    UnreadableError,
)

RAISED = [
    UnreadableError("bad_type", field="seq", detail="a text"),
    UnreadableError("not_json"),
    StreamDriftError("BEATS", differences={"max_age": (1, 2), "storage": ("file", "memory")}),
    LogGapError("FLEET", low=4, high=5, found=4),
    EpochChangedError("FLEET", known="2026-01-01T00:00:00Z", found="2026-02-01T00:00:00Z"),
    LogRewoundError("FLEET", cursor_seq=9, last_seq=4, why="it ends before the stored position"),
]
WHAT_NOW = ["send it again", "send it again", "change it", "asked for again", "begins anew", "begins anew"]


@pytest.mark.parametrize(
    ("err", "what_now"), list(zip(RAISED, WHAT_NOW, strict=True)), ids=lambda one: getattr(one, "code", None)
)
def test_an_error_is_one_sentence_that_says_what_now(err: FleetfoldError, what_now: str) -> None:
    said = str(err)

    assert what_now in said
    assert ". " not in said
    assert not said.endswith(".")


def test_what_the_broker_does_not_store_is_no_fault_of_the_caller() -> None:
    full = problem_of(RefusedError(APPEND_REFUSED, "the broker refuses fleet.v1.agent.n1.registered"))
    not_allowed = problem_of(RefusedError("port_taken", "the port is taken"))

    assert (full.status, full.kind.code) == (503, "broker_unavailable")
    assert (not_allowed.status, not_allowed.kind.code) == (409, "refused")
