"""Which heartbeat is the last that the broker holds of some nodes: asked of all of them at once (floor 3)."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import nats.errors
import numpy as np
import orjson

from consumers.stream_api import ANSWER_WITHIN_S, NotAnsweredError
from events.jetstream import NO_SUCH_MESSAGE, error_code
from events.streams import BEATS_NAME
from events.subjects import beat_subject

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

    from events.ids import NodeId
    from events.log import Int64s

QUESTION = f"STREAM.MSG.GET.{BEATS_NAME}"


class LastBeats:
    """An inbox for the answers, on one connection after another. May be asked several things at a time."""

    def __init__(self) -> None:
        self._nc: Client | None = None
        self._subscription: Subscription | None = None
        self._inbox = ""
        self._asked = 0
        self._waiting: dict[str, tuple[Int64s, asyncio.Future[None]]] = {}
        self._missing: dict[str, int] = {}

    async def open(self, nc: Client) -> None:
        """Listen for answers on this connection."""
        await self.close()
        self._nc, self._inbox = nc, nc.new_inbox()
        self._subscription = await nc.subscribe(f"{self._inbox}.*.*", cb=self._answered)

    async def close(self) -> None:
        """Listen no more; twice is fine."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None and self._nc is not None and not self._nc.is_closed:
            with contextlib.suppress(nats.errors.Error):  # the connection is going, and it goes along
                await subscription.unsubscribe()

    async def seqs(self, node_ids: Sequence[NodeId]) -> Int64s:
        """Return the sequence in BEATS of each node's last heartbeat, 0 for none.

        What a node said before this was called is in the answer. Raises NotAnsweredError.
        """
        nc = self._nc
        if nc is None or not nc.is_connected:
            raise NotAnsweredError(QUESTION, why="not connected")
        self._asked += 1
        name, found = str(self._asked), np.zeros(len(node_ids), np.int64)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[name], self._missing[name] = (found, future), len(node_ids)
        try:
            for at, node_id in enumerate(node_ids):
                question = orjson.dumps({"last_by_subj": beat_subject(node_id)})
                await nc.publish(f"$JS.API.{QUESTION}", question, reply=f"{self._inbox}.{name}.{at}")
            await asyncio.wait_for(future, ANSWER_WITHIN_S)
        except TimeoutError as err:
            raise NotAnsweredError(QUESTION, why="no answer", is_timeout=True) from err
        except (nats.errors.Error, OSError) as err:
            raise NotAnsweredError(QUESTION, why=str(err) or type(err).__name__) from err
        finally:
            del self._waiting[name], self._missing[name]
        return found

    async def _answered(self, msg: Msg) -> None:
        _, name, at = msg.subject.rsplit(".", 2)
        if name not in self._waiting:
            return  # it came too late
        found, future = self._waiting[name]
        try:
            answer = orjson.loads(msg.data)
            code = error_code(answer)
            if not code:
                found[int(at)] = int(answer["message"]["seq"])
            elif code != NO_SUCH_MESSAGE:
                raise NotAnsweredError(QUESTION, why=str(answer["error"].get("description", "refused")))
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as err:
            _fail(future, NotAnsweredError(QUESTION, why=f"unknown answer: {err}"))
        except NotAnsweredError as err:
            _fail(future, err)
        self._missing[name] -= 1
        if not self._missing[name] and not future.done():
            future.set_result(None)


def _fail(future: asyncio.Future[None], err: NotAnsweredError) -> None:
    if not future.done():
        future.set_exception(err)
