"""One question to the broker and its answer (floor 1, edge).

The client library's errors end here: above this module there is BrokerUnavailableError or an answer.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import orjson

from events.errors import BrokerUnavailableError

if TYPE_CHECKING:
    from nats.aio.client import Client

NO_SUCH_MESSAGE = 10037
NO_SUCH_STREAM = 10059
STREAM_NAME_IN_USE = 10058
SUBJECTS_OVERLAP = 10065
NOT_READY_CODES = frozenset({10008, 10009, 10010})
# JetStream is starting or has no leader: ask again.
NOT_ENABLED_CODES = frozenset({10039, 10076})
NOT_ENABLED = "JetStream is not enabled there: start nats-server with -js"

ATTEMPT_S = 2.0
# Above the slowest answer of a healthy broker (a stream leader's election takes 5 to 7 s and is worth a
# retry); below what somebody at a terminal takes for a hang.
PAUSE_S = 0.05
# Between two attempts that failed at once; ten of them are over before a person notices.


class NoAnswerError(Exception):
    """An attempt ended without an answer. `may_have_arrived` says whether the broker can have acted on it."""

    def __init__(self, why: str, *, may_have_arrived: bool) -> None:
        self.why, self.may_have_arrived = why, may_have_arrived
        super().__init__(why)


async def request(
    nc: Client, subject: str, payload: bytes, *, headers: dict[str, str] | None = None, timeout_s: float
) -> dict[str, Any]:
    """Return the one JSON answer to one message; raise NoAnswerError where none comes within `timeout_s`."""
    import nats.errors  # noqa: PLC0415 (0.15 s that only a process with a connection has to pay)

    try:
        reply = await nc.request(subject, payload, timeout=timeout_s, headers=headers)
    except nats.errors.NoRespondersError as err:
        raise NoAnswerError(f"nobody listens on {subject}", may_have_arrived=False) from err
    except nats.errors.TimeoutError as err:
        raise NoAnswerError(f"no answer within {timeout_s:.1f} s", may_have_arrived=True) from err
    except (nats.errors.Error, OSError) as err:
        raise NoAnswerError(str(err) or type(err).__name__, may_have_arrived=True) from err
    try:
        answer = orjson.loads(reply.data)
    except orjson.JSONDecodeError as err:
        raise NoAnswerError("the answer is not JSON", may_have_arrived=True) from err
    if not isinstance(answer, dict):
        raise NoAnswerError("the answer is not an object", may_have_arrived=True)
    return answer


async def send(nc: Client, subject: str, payload: bytes, *, headers: dict[str, str]) -> None:
    """Hand one message to the client, unanswered; raise NoAnswerError where it does not take it."""
    import nats.errors  # noqa: PLC0415 (as above)

    try:
        await nc.publish(subject, payload, headers=headers)
    except (nats.errors.Error, OSError) as err:
        raise NoAnswerError(str(err) or type(err).__name__, may_have_arrived=False) from err


async def ask(
    nc: Client, verb: str, question: dict[str, Any] | None = None, *, doing: str, timeout_s: float = 5.0
) -> dict[str, Any]:
    """Return JetStream's answer to an API request such as `STREAM.INFO.FLEET`, an `error` member included.

    Waits out a reconnect, a broker that is starting and a lost answer, all within `timeout_s`; so ask only
    what may be asked twice. `doing` begins the sentence of the BrokerUnavailableError that is raised then.
    """
    deadline = time.monotonic() + timeout_s
    payload = orjson.dumps(question) if question is not None else b""
    while True:
        await connected(nc, doing=doing, deadline=deadline)
        left_s = max(deadline - time.monotonic(), 0.001)
        try:
            answer = await request(nc, f"$JS.API.{verb}", payload, timeout_s=min(ATTEMPT_S, left_s))
        except NoAnswerError as err:
            why = err.why if err.may_have_arrived else NOT_ENABLED
        else:
            code = error_code(answer)
            if code in NOT_ENABLED_CODES:
                raise BrokerUnavailableError(doing, why=NOT_ENABLED)
            if code not in NOT_READY_CODES:
                return answer
            why = str(answer["error"].get("description", "not ready"))
        if time.monotonic() + PAUSE_S >= deadline:
            raise BrokerUnavailableError(doing, why=why)
        await asyncio.sleep(PAUSE_S)


async def connected(nc: Client, *, doing: str, deadline: float) -> None:
    """Return once the client is connected; raise BrokerUnavailableError at the monotonic `deadline`.

    A client that is reconnecting would only buffer the message and send it long after its sender gave up.
    """
    while not nc.is_connected:
        if nc.is_closed:
            raise BrokerUnavailableError(doing, why="the connection is closed")
        if time.monotonic() >= deadline:
            raise BrokerUnavailableError(doing, why="not connected")
        await asyncio.sleep(PAUSE_S)


def error_code(answer: dict[str, Any]) -> int:
    """Return the JetStream error code of an answer, 0 where it is none."""
    error = answer.get("error")
    return int(error.get("err_code", 1)) if isinstance(error, dict) else 0
