"""Node ids, zones and their subject tokens."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from events.errors import InvalidNodeIdError, InvalidSubjectError
from events.ids import (
    MAX_NODE_ID_BYTES,
    NodeId,
    from_token,
    node_id,
    token,
    zone,
    zone_from_token,
    zone_token,
)
from events.subjects import beat_subject, fact_subject, parse_beat, parse_fact, zone_subject

ids = (
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)
    .map(lambda text: unicodedata.normalize("NFC", text))
    .filter(lambda text: 1 <= len(text.encode()) <= MAX_NODE_ID_BYTES)
    .map(NodeId)
)


@given(ids)
@example(NodeId("a.b *>:~ c"))
@example(NodeId("a..b"))
@example(NodeId("%41"))
@example(NodeId("\x00\r\n"))
def test_a_token_is_one_plain_token_and_gives_the_id_back(node: NodeId) -> None:
    made = token(node)

    assert re.fullmatch(r"[A-Za-z0-9_%-]+", made)
    assert from_token(made) == node


@given(ids, ids)
@example(NodeId("a.b"), NodeId("a%2Eb"))
def test_two_ids_never_share_a_token(one: NodeId, other: NodeId) -> None:
    assert (token(one) == token(other)) == (one == other)


@given(ids)
def test_subjects_give_back_what_they_were_built_from(node: NodeId) -> None:
    fact = parse_fact(fact_subject("agent", node, "registered"))
    silent = parse_fact(zone_subject(zone(node), "silent"))

    assert (fact.owner, fact.node_id, fact.zone, fact.verb) == ("agent", node, None, "registered")
    assert (silent.owner, silent.node_id, silent.zone, silent.verb) == ("zone", None, node, "silent")
    assert parse_beat(beat_subject(node)) == node


def test_names_that_differ_only_in_form_are_one_id() -> None:
    assert node_id("é") == node_id("e\u0301")


@pytest.mark.parametrize("text", ["", "x" * 251, "é" * 126, "\ud800"])
def test_a_text_of_another_size_or_no_unicode_is_no_id(text: str) -> None:
    with pytest.raises(InvalidNodeIdError):
        node_id(text)


@pytest.mark.parametrize(
    "text", ["", "a.b", "a%2eb", "%41", "%FF", "a%", "~n1", "*", "é", "n1\n", "e%CC%81", "x" * 251]
)
def test_a_text_that_is_no_token_is_refused(text: str) -> None:
    with pytest.raises((InvalidSubjectError, InvalidNodeIdError)):
        from_token(text)


@pytest.mark.parametrize("text", ["az-1", "~", "~%41", "~~a", "~x.y"])
def test_a_zones_token_needs_its_mark_and_one_spelling(text: str) -> None:
    with pytest.raises(InvalidSubjectError):
        zone_from_token(text)
    assert zone_from_token(zone_token(zone("az-1"))) == "az-1"


@pytest.mark.parametrize(
    "subject",
    [
        "",
        "fleet.v1.agent.n1",
        "fleet.v2.agent.n1.registered",
        "fleet.v1.nobody.n1.registered",
        "fleet.v1.zone.az.silent",
        "fleet.v1.agent.n 1.registered",
        "fleet.v1.agent.n1.registered.x",
    ],
)
def test_a_subject_that_is_none_of_ours_is_refused(subject: str) -> None:
    with pytest.raises(InvalidSubjectError):
        parse_fact(subject)
