"""The last batches in memory say what the tables would, or say that the tables have to be asked."""

from __future__ import annotations

from events.codec import encode_fact
from events.envelope import new_event
from events.facts import FactData, Lost, Registered, ZoneSilent
from events.ids import NodeId
from events.subjects import zone_subject
from projections.fold import FactsFolded, fold_facts
from projections.roster_news import MOST_AT_ONCE, MOST_BATCHES, RosterNews
from tests.support.folding import batch_of
from tests.support.strategies import NODES, NOON, Said, placed, said

N1 = NODES[0]


def reported(seq: int) -> Registered:
    return Registered(boot_id="b1", seq=seq, zone=f"z{seq}")


def folded(*told: FactData) -> FactsFolded:
    """Fold facts about one node onto nothing."""
    return fold_facts(batch_of(placed([said(one, N1) for one in told])), lambda _: None)


def of_zone() -> Said:
    """Return a fact about a zone."""
    data = ZoneSilent(count=1, members=2)
    event = new_event(data, about="z1", source="/test", event_id="e-1", time=NOON)
    return Said(zone_subject("z1", "silent"), encode_fact(event))


def number_of(node_id: NodeId) -> int | None:
    return 7 if node_id == N1 else None


def filled(batches: int) -> RosterNews:
    """Return news of so many batches of one fact each."""
    news = RosterNews()
    for at in range(batches):
        news.add(folded(reported(at + 1)), after=at, reached=at + 1)
    return news


def test_of_several_batches_a_nodes_last_words_count() -> None:
    news = filled(3).since(1, until=3, number_of=number_of)

    assert news is not None
    assert news.nodes.numbers.tolist() == [7]
    assert list(news.nodes.zones) == ["z3"]
    assert news.nodes.is_registered.tolist() == [True]


def test_what_a_verdict_knew_of_the_beats_is_taken_along() -> None:
    lost = Lost(rule="grace", silent_s=30.0, grace_s=30.0, beat_seq=5)
    news = RosterNews()
    news.add(folded(reported(1), lost), after=0, reached=2)

    found = news.since(0, until=2, number_of=number_of)

    assert found is not None
    assert found.lost == {N1: 5}
    assert found.registrations[N1].seq == 1


def test_the_tables_are_asked_for_what_is_older_or_not_there_yet_or_has_no_number() -> None:
    news = filled(MOST_BATCHES + 1)

    assert news.since(0, until=2, number_of=number_of) is None
    assert news.since(1, until=MOST_BATCHES + 2, number_of=number_of) is None
    assert news.since(1, until=2, number_of=lambda _: None) is None
    assert news.since(1, until=2, number_of=number_of) is not None


def test_a_backlog_or_a_fact_about_a_zone_empties_the_news() -> None:
    for large in (
        folded(*[reported(1)] * (MOST_AT_ONCE + 1)),
        fold_facts(batch_of(placed([of_zone()])), lambda _: None),
    ):
        news = filled(2)
        news.add(large, after=2, reached=9)

        assert news.since(1, until=9, number_of=number_of) is None
