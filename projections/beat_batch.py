"""A batch of heartbeats to everything that has to be written of it (floor 2, pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from events.heartbeats import decode_beats
from events.log import Batch, Int64s
from events.moments import from_us
from events.odd_beats import RejectedBeat
from events.reasons import OVERSIZED
from events.subjects import parse_beat
from projections.heartbeats import DUPLICATES, OTHER_BOOT, REORDERED, Beats, FoldedBeats, Rows, fold_beats
from projections.node_index import NewNodes, NodeIndex
from projections.rows import QuarantineRow
from projections.usage import MOST_RESOURCES, Resources, Samples

_COUNTED = {"duplicates": DUPLICATES, "reordered": REORDERED, "other_boot": OTHER_BOOT}


@dataclass(frozen=True, slots=True)
class BeatBatch:
    """What a batch of beats comes to. `contacts` are the numbers of the nodes of which a beat was accepted.

    `counters` counts records: `beats` that could be read, `accepted`, `duplicates`, `reordered` and
    `other_boot` of them, `unreadable` ones, `unreadable_values`, and warnings as `warning.<code>`.
    """

    folded: FoldedBeats
    contacts: Int64s
    samples: Samples
    new_nodes: NewNodes
    quarantined: list[QuarantineRow]
    counters: Mapping[str, int]


def fold_beat_batch(batch: Batch, index: NodeIndex, rows: Rows, resources: Resources) -> BeatBatch:
    """Return what a batch of BEATS comes to; what it is folded onto stays as it is. Never raises."""
    columns = decode_beats(batch, known=index.subjects)
    is_whole = len(columns.rows) == len(batch)
    subjects = batch.subjects if is_whole else [batch.subjects[row] for row in columns.rows.tolist()]
    numbers, new_nodes = index.of_subjects(subjects)
    rows.hold(len(index) + len(new_nodes))
    stored_at_us = batch.stored_at_ns[columns.rows] // 1000
    beats = Beats(columns, numbers, stored_at_us, batch.seqs[columns.rows])
    folded = fold_beats(rows, beats)
    samples, beyond = _samples(beats, folded, resources)
    rejected = [*columns.rejected, *(_unnamed(batch, row, name) for row, name in beyond)]
    quarantined = [_quarantined(batch, one) for one in rejected]
    unreadable = len(batch) - len(columns.rows)
    counters = Counter({f"warning.{code}": count for code, count in columns.warnings.items()})
    counters["beats"] = len(columns.rows)
    counters["accepted"] = int(folded.is_taken.sum())
    counters["unreadable"] = unreadable
    counters["unreadable_values"] = len(quarantined) - unreadable
    for name, column in _COUNTED.items():
        counters[name] = int((folded.table[:, column] - rows.table[folded.numbers, column]).sum())
    return BeatBatch(
        folded=folded,
        contacts=folded.numbers[folded.last_taken >= 0],
        samples=samples,
        new_nodes=new_nodes,
        quarantined=quarantined,
        counters=counters,
    )


def _samples(
    beats: Beats, folded: FoldedBeats, resources: Resources
) -> tuple[Samples, list[tuple[int, str]]]:
    """Return the samples of the accepted beats, and row and name of those beyond MOST_RESOURCES."""
    columns = beats.columns
    of, names, values = columns.sample_beats, columns.sample_names, columns.sample_values
    is_kept = folded.is_taken[of]
    if not is_kept.all():
        kept = np.flatnonzero(is_kept)
        of, names, values = of[kept], [names[at] for at in kept.tolist()], values[kept]
    found, new = resources.numbers(names)
    beyond = np.flatnonzero(found < 0).tolist()
    if beyond:
        unnamed = [(int(columns.rows[of[at]]), names[at]) for at in beyond]
        known = np.flatnonzero(found >= 0)
        of, values, found = of[known], values[known], found[known]
    is_last = np.zeros(len(columns.rows), dtype=bool)
    is_last[folded.last_taken[folded.last_taken >= 0]] = True
    samples = Samples(beats.numbers[of], found, beats.stored_at_us[of], values, is_last[of], new)
    return samples, unnamed if beyond else []


def _unnamed(batch: Batch, row: int, name: str) -> RejectedBeat:
    node_id = parse_beat(batch.subjects[row].decode())
    return RejectedBeat(
        row, node_id, OVERSIZED, f"used.{name}", f"more than {MOST_RESOURCES} names of resources"
    )


def _quarantined(batch: Batch, one: RejectedBeat) -> QuarantineRow:
    row = one.row
    return QuarantineRow(
        batch.stream,
        int(batch.seqs[row]),
        from_us(int(batch.stored_at_ns[row]) // 1000),
        batch.subjects[row].decode(errors="replace"),
        one.node_id,
        one.reason,
        one.field,
        one.detail,
        batch.payloads[row],
    )
