"""One folded batch in one transaction, with its cursor; and what shows it in memory afterwards (floor 2).

Called by the writer thread. What is returned is called once the transaction is committed, by whoever holds
the lock of the memory: then nobody sees half of a batch.
"""

from __future__ import annotations

from collections.abc import Callable

from projections.ahead import FoldedAhead
from projections.beat_batch import BeatBatch
from projections.beat_tables import write_beats, write_node_numbers, write_samples
from projections.checkpoints import Checkpoint, Fresh, save_checkpoint
from projections.fact_tables import Touched, write_facts, write_quarantine, write_shared
from projections.memory import Memory
from projections.store import Store

Show = Callable[[], None]


def commit_facts(store: Store, memory: Memory, ahead: FoldedAhead) -> Show:
    """Write what a batch of FLEET comes to; raise StoreError where nothing of it was written."""
    folded = ahead.folded
    node_ids = tuple(folded.states)
    found, new_nodes = memory.index.of_nodes(node_ids)
    numbers = dict(zip(node_ids, found.tolist(), strict=True))
    known = memory.packed.keys() & folded.states.keys()
    touched = Touched(numbers, known)
    shared = memory.sharing_after(folded, numbers)
    with store.transaction() as transaction:
        write_node_numbers(transaction, new_nodes)
        write_facts(transaction, folded, touched, announced=memory.announced)
        write_shared(transaction, shared.conditions)
        save_checkpoint(transaction, ahead.new.batch.stream, ahead.reached, holes=ahead.new.holes)
    return lambda: memory.show_facts(folded, shared, numbers, new_nodes)


def commit_beats(store: Store, memory: Memory, folded: BeatBatch, new: Fresh, reached: Checkpoint) -> Show:
    """Write what a batch of BEATS comes to; raise StoreError where nothing of it was written."""
    with store.transaction() as transaction:
        write_node_numbers(transaction, folded.new_nodes)
        write_beats(transaction, folded.folded)
        write_samples(transaction, folded.samples, first_new=len(memory.resources.names))
        write_quarantine(transaction, folded.quarantined)
        save_checkpoint(transaction, new.batch.stream, reached, holes=new.holes)
    return lambda: memory.show_beats(folded)
