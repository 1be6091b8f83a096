"""Which agent registers under a name alone, and the ids that are assigned (floor 3).

The same token and the same name are the same agent. An assigned id is made of both, so that two gateways that
meet assign the same one. A machine whose GPUs cannot be those of the living agent of its name is another
agent, and the living one's record says that somebody else claimed its name.
"""

from __future__ import annotations

from base64 import b32encode
from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol, TypeVar

from api.dialects import aria_pin_node as node
from api.dialects.refusal import Refusal
from api.dialects.registration import is_of
from api.dialects.rules import ARIA_PIN
from events.errors import FleetfoldError
from projections.directory import EVERY_NODE, NodeFilter
from projections.state import NodeState

if TYPE_CHECKING:
    from api.dialects.gateway import Gateway
    from events.facts import FactData

MOST_NAMESAKES = 100
# Machines that had one name under one token; beyond, somebody makes them up.
PAGE = 1000

Made = TypeVar("Made")
Made_co = TypeVar("Made_co", covariant=True)
Meant = Callable[[NodeState | None], bool]


class Into(Protocol[Made_co]):
    """Writes to an agent; raises NotThisOneError where its state is not the one that was meant."""

    async def __call__(self, native_id: str, *, is_meant: Meant) -> Made_co: ...


class NotThisOneError(FleetfoldError):
    """Between looking for an agent and writing to it, it became another one than was meant."""

    code = "not_this_one"


class Names:
    """Finds agents by name."""

    def __init__(self, gateway: Gateway, *, may_speak_for: Callable[[NodeState, str], bool]) -> None:
        self._gateway, self._may_speak_for = gateway, may_speak_for

    async def all(self) -> list[NodeState]:
        """Return every agent and every planned row, by id."""
        return await self._gateway.answers.questions.work(self._all)

    async def registered(self, said: node.Said, token: str, into: Into[NodeState]) -> NodeState:
        """Register what a body without an id says, as the agent that it is of, or as a new one."""
        claimed: NodeState | None = None
        for state in await self._namesakes(said.name, token):
            if self._is_it(state, said, token):
                try:
                    return await into(_native(state), is_meant=lambda one: self._is_it(one, said, token))
                except NotThisOneError:
                    continue
            elif claimed is None:
                claimed = state
        for native_id in _assigned(said.name, token):
            if not _is_free(self._state(native_id)):
                continue
            if claimed is not None:
                await self._claim(claimed, native_id, said, token)
            try:
                return await into(
                    native_id, is_meant=lambda one: _is_free(one) or self._is_it(one, said, token)
                )
            except NotThisOneError:
                continue
        raise Refusal("conflict", f"too many machines were called {said.name[:200]}: send an id")

    async def planned(self, name: str, token: str, into: Into[Made]) -> Made:
        """Make a row of a name: the one that is there, or one with an assigned id."""
        for state in await self._namesakes(name, token):
            return await into(_native(state), is_meant=lambda _state: True)
        for native_id in _assigned(name, token):
            if _may_be_planned(self._state(native_id)):
                try:
                    return await into(native_id, is_meant=_may_be_planned)
                except NotThisOneError:
                    continue
        raise Refusal("conflict", f"too many machines were called {name[:200]}: send an id")

    def _state(self, native_id: str) -> NodeState | None:
        return self._gateway.answers.projection.node(self._gateway.node_id(native_id))

    def _is_it(self, state: NodeState | None, said: node.Said, token: str) -> bool:
        """Say whether an agent is the one that says this of itself."""
        if state is None:
            return False
        if node.is_planned(state):
            return state.effective_display_name == said.name
        return (
            is_of(state, ARIA_PIN)
            and state.hostname == said.name
            and self._may_speak_for(state, token)
            and (state.liveness == "lost" or node.could_be(state, said.gpus))
        )

    async def _namesakes(self, name: str, token: str) -> list[NodeState]:
        """Return the planned rows of a name, then its agents that a token may speak for, the oldest first."""
        projection = self._gateway.answers.projection
        found = await self._gateway.answers.questions.work(
            lambda: projection.nodes(NodeFilter(name=name), limit=2**31)
        )
        prefix = f"{ARIA_PIN}:"
        rows = [
            state
            for state in found
            if state.node_id.startswith(prefix)
            and node.is_planned(state)
            and state.effective_display_name == name
        ]
        agents = [
            state
            for state in found
            if is_of(state, ARIA_PIN) and state.hostname == name and self._may_speak_for(state, token)
        ]
        return [*rows, *sorted(agents, key=lambda state: (state.registered_at, state.node_id))]

    async def _claim(self, claimed: NodeState, claimant: str, said: node.Said, token: str) -> None:
        """Note with a living agent that another machine reports under its name."""

        def decide(state: NodeState | None) -> list[FactData]:
            if state is None or not is_of(state, ARIA_PIN) or state.machine_id == claimant:
                return []
            if f"{state.boot_id}@{claimant}" in state.conflict:
                return []
            return self._gateway.registration(state, node.report(claimant, said, token=token, known=None))

        await self._gateway.write(_native(claimed), decide)

    def _all(self) -> list[NodeState]:
        prefix, found = f"{ARIA_PIN}:", list[NodeState]()
        after = prefix
        while True:
            page = self._gateway.answers.projection.nodes(EVERY_NODE, after=after, limit=PAGE)
            ours = [state for state in page if state.node_id.startswith(prefix)]
            found += [state for state in ours if is_of(state, ARIA_PIN) or node.is_planned(state)]
            if len(ours) < PAGE:
                return found
            after = ours[-1].node_id


def _assigned(name: str, token: str) -> list[str]:
    """Return the ids for machines of a name under a token, in the order in which they are assigned."""
    return [
        f"ag_{b32encode(sha256(f'{token}/{n}/{name}'.encode()).digest()).decode()[:26].lower()}"
        for n in range(1, MOST_NAMESAKES + 1)
    ]


def _native(state: NodeState) -> str:
    return state.node_id.partition(":")[2]


def _is_free(state: NodeState | None) -> bool:
    """Say whether an agent may begin under an id: nobody is there, or it was removed."""
    return state is None or state.retired_at is not None or state.registered_at is None


def _may_be_planned(state: NodeState | None) -> bool:
    return state is None or state.registered_at is None
