"""By what an active node is found, which only one should have: addresses, names, hardware (floor 2, pure).

None of these is identity, so two nodes may have the same, and both go on. It is worth knowing: each of them
has a condition then (`projections.sharing`).
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address
from typing import NamedTuple

from projections.state import NodeState

DUPLICATE_ADDRESS = "duplicate_address"
MACHINE_ID_SHARED = "machine_id_shared"
NAME_SHARED = "name_shared"
SHARED_CONDITIONS = (DUPLICATE_ADDRESS, MACHINE_ID_SHARED, NAME_SHARED)
"""In the order in which a node has them."""

MEMO = 4096
# Addresses of version 6 that were spelled anew: every node of a batch that changes something else has them.
_LOCAL_4 = ("127.", "169.254.", "0.0.0.0")

Handle = tuple[str, str]
"""The condition of a node that is not alone with it, and the text that they share."""


class HandlesChanged(NamedTuple):
    """The handles of a node before a batch, and after it; both without repetition."""

    before: tuple[Handle, ...]
    after: tuple[Handle, ...]


def handles(state: NodeState) -> tuple[Handle, ...]:
    """Return the handles of a node, without repetition; a retired one has none.

    A hostname and a display name are one kind of name, since people look for either.
    """
    if state.retirement is not None and state.retired_at is not None:
        return ()
    found = {(DUPLICATE_ADDRESS, own): None for one in state.addresses if (own := own_address(one))}
    if state.machine_id:
        found[MACHINE_ID_SHARED, state.machine_id] = None
    for name in (state.hostname, state.effective_display_name):
        if name:
            found[NAME_SHARED, name] = None
    return tuple(found)


def changed_handles(old: NodeState | None, new: NodeState) -> HandlesChanged | None:
    """Return the handles that a node had and has, None where these are the same."""
    if old is None:
        after = handles(new)
        return HandlesChanged((), after) if after else None
    if (
        old.inventory_seq == new.inventory_seq
        and old.machine_id == new.machine_id
        and old.declared is new.declared
        and old.retirement is new.retirement
        and old.incarnation == new.incarnation
    ):
        return None
    changed = HandlesChanged(handles(old), handles(new))
    return None if changed.before == changed.after else changed


def own_address(text: str) -> str | None:
    """Return an address in its one spelling; None for one that means another machine on every machine.

    Those are loopback, link-local and unspecified ones.
    """
    if ":" in text:
        return _own_address_6(text)
    return None if not text or text.startswith(_LOCAL_4) else text


@lru_cache(MEMO)
def _own_address_6(text: str) -> str | None:
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return text  # an address with a port, or no address at all: it is compared as it is written
    return None if address.is_loopback or address.is_link_local or address.is_unspecified else str(address)
