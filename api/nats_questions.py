"""Questions over NATS request/reply: FastStream handlers, which also are the AsyncAPI document (floor 3).

    fleet.api.v1.nodes      NodesParameters as JSON, or an empty body
    fleet.api.v1.node       {"node_id": …}
    fleet.api.v1.why        {"node_id": …}
    fleet.api.v1.capacity   CapacityParameters as JSON, or an empty body
    fleet.api.v1.changes    ChangesParameters as JSON, or an empty body
    fleet.api.v1.status     an empty body

and those of `api.nats_decisions`, which write.

Answers are those of the HTTP routes, byte for byte. An error is a problem with the headers of NATS services
(`Nats-Service-Error`, `Nats-Service-Error-Code`). Importing this module costs some 0.3 s, so it is imported
when the routes start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from faststream import ExceptionMiddleware
from faststream.nats import NatsBroker, NatsMessage, NatsResponse
from nats.micro.request import ERROR_CODE_HEADER, ERROR_HEADER
from pydantic import Field, ValidationError

from api import capacity, feed, nats_decisions, nodes, status, why
from api.json_text import dumps
from api.parameters import CapacityParameters, ChangesParameters, NodeParameters, NodesParameters, Parameters
from api.problems import MEDIA_TYPE, OVERSIZED, ProblemError, problem_of, unreadable
from events.ids import node_id
from events.subjects import API_PREFIX, OURS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from nats.aio.client import Client

    from api.answers import Answer, Answers

QUEUE = "fleetfold-api"
AT_ONCE = 16
# A page may wait seconds for `min_seq`; without workers, every later question on its subject would wait
# behind it.


class NodeQuestion(NodeParameters):
    """Of the question about one node over NATS, where the id is no path."""

    node_id: str = Field(description="the node id as it is, not encoded", min_length=1)


class WhyQuestion(Parameters):
    """Of the question why one node is what it is."""

    node_id: str = Field(description="the node id as it is, not encoded", min_length=1)


class LentBroker(NatsBroker):
    """A FastStream broker on a connection that somebody else opened and will close.

    `_connect` is FastStream's own hook; a test keeps that it is still called, and that `stop` leaves the
    connection alone.
    """

    def __init__(self, connection: Client, **options: Any) -> None:  # noqa: ANN401
        super().__init__("nats://lent", **options)
        self._lent = connection

    async def _connect(self) -> Client:
        self.config.connect(self._lent)
        return self._lent

    async def stop(
        self,
        exc_type: type[BaseException] | None = None,
        exc_val: BaseException | None = None,
        exc_tb: TracebackType | None = None,
    ) -> None:
        """Take no more questions, and let running ones end; the connection stays open."""
        await super(NatsBroker, self).stop(exc_type, exc_val, exc_tb)
        self._connection = None
        self.config.disconnect()


def questions_broker(answers: Answers, connection: Client) -> NatsBroker:
    """Return a broker that answers on a connection once it is started."""
    broker = LentBroker(connection, middlewares=[_errors()], logger=None)
    subscribe(broker, answers, limit_bytes=lambda: connection.max_payload)
    return broker


def subscribe(broker: NatsBroker, answers: Answers, *, limit_bytes: Callable[[], int]) -> None:
    """Declare the questions on a broker. `limit_bytes` is the largest message that the connection takes."""

    def question(name: str, *, says: str) -> Callable[..., Any]:
        return broker.subscriber(
            f"{API_PREFIX}.{name}",
            QUEUE,
            max_workers=AT_ONCE,
            decoder=_decoded,
            title=f"{API_PREFIX}.{name}",
            description=says,
        )

    async def replied(asked: Awaitable[Answer]) -> NatsResponse:
        found = await asked
        if len(found.body) > limit_bytes():
            raise ProblemError(
                OVERSIZED,
                f"the answer has {len(found.body)} bytes, the broker takes {limit_bytes()}: "
                f"ask for a smaller limit",
            )
        return NatsResponse(found.body, headers={"content-type": "application/json", **found.headers})

    @question("nodes", says="A page of nodes; the answer is that of GET /fleet/v1/nodes")
    async def nodes_question(asked: NodesParameters) -> NatsResponse:
        return await replied(nodes.page(answers, asked))

    @question("node", says="One node; the answer is that of GET /fleet/v1/nodes/{node_id}")
    async def node_question(asked: NodeQuestion) -> NatsResponse:
        return await replied(nodes.one(answers, node_id(asked.node_id), asked))

    @question("why", says="Why a node is what it is; the answer is that of GET /fleet/v1/nodes/{node_id}/why")
    async def why_question(asked: WhyQuestion) -> NatsResponse:
        return await replied(why.of_node(answers, node_id(asked.node_id), asked))

    @question("capacity", says="The capacity of the fleet; the answer is that of GET /fleet/v1/capacity")
    async def capacity_question(asked: CapacityParameters) -> NatsResponse:
        return await replied(capacity.sums(answers, asked))

    @question("changes", says="What changed after a position; the answer is that of GET /fleet/v1/changes")
    async def changes_question(asked: ChangesParameters) -> NatsResponse:
        return await replied(feed.page(answers, asked))

    @question("status", says="How the service is; the answer is that of GET /fleet/v1/status")
    async def status_question(asked: Parameters) -> NatsResponse:
        return await replied(status.of_service(answers, asked))

    nats_decisions.subscribe(question, replied, answers)


def unread(err: ValidationError) -> ProblemError:
    """Return the problem of a question whose members do not validate."""
    faults = err.errors(include_input=False, include_url=False, include_context=False)
    return unreadable([{**fault, "loc": ("body", *fault["loc"][1:])} for fault in faults])


async def _decoded(message: NatsMessage) -> object:
    """Return a question's JSON, {} for an empty body; bytes that are no JSON stay bytes: no model fits.

    A question whose answer would become a record of one of our streams is not answered.
    """
    if message.reply_to.startswith(OURS):
        message.reply_to = ""
    body = message.body
    if not body.strip():
        return {}
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return body


def _errors() -> ExceptionMiddleware:
    async def answered(err: Exception, message: NatsMessage) -> NatsResponse:
        problem = unread(err) if isinstance(err, ValidationError) else problem_of(err)
        return NatsResponse(
            dumps(problem.body(instance=message.raw_message.subject)),
            headers={
                "content-type": MEDIA_TYPE,
                ERROR_CODE_HEADER: str(problem.status),
                ERROR_HEADER: problem.kind.code,
            },
        )

    return ExceptionMiddleware(publish_handlers={Exception: answered})
