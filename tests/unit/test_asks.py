"""What an agent is asked, and what it ignores."""

from __future__ import annotations

import pytest

from events.asks import Ask, decode_ask, encode_ask


@pytest.mark.parametrize(
    "ask", [Ask("register"), Ask("gone", "retired on 2026-11-30 – für immer"), Ask("probe")]
)
def test_a_question_that_is_sent_is_the_one_that_arrives(ask: Ask) -> None:
    assert decode_ask(encode_ask(ask)) == ask


def test_a_bare_word_and_unknown_members_are_understood() -> None:
    assert decode_ask(b" register\n") == Ask("register")
    assert decode_ask(b'"gone"') == Ask("gone")
    assert decode_ask(b'{"ask":"probe","since":3,"reason":7}') == Ask("probe")


@pytest.mark.parametrize(
    "payload", [b"", b"{}", b"[]", b"7", b"null", b'{"ask":"dance"}', b'{"ask":[]}', b"\xff\xfe"]
)
def test_what_cannot_be_read_is_nothing(payload: bytes) -> None:
    assert decode_ask(payload) is None
