"""The service on NATS: questions, and an endpoint for the one that is asked most (floor 3).

`fleet.api.v1.node.<node>` answers for the node whose subject token it is (`events.ids.token`), with an
empty body, from memory. It is an endpoint of the NATS service `fleetfold`, so that `nats micro ls` and
`nats micro info fleetfold` find us; the metadata names the other questions. All of it runs on the service's
own connection.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from typing import TYPE_CHECKING

import nats.errors
import nats.micro
from nats.micro.service import ServiceConfig

from api import nodes
from api.answers import Answers
from api.json_text import dumps
from api.problems import MEDIA_TYPE, problem_of
from events.ids import from_token
from events.subjects import API_PREFIX, OURS

if TYPE_CHECKING:
    from faststream.nats import NatsBroker
    from nats.aio.client import Client
    from nats.micro.request import Request
    from nats.micro.service import Service as MicroService

    from api.service import Service

_LOG = logging.getLogger(__name__)
SERVICE_NAME = "fleetfold"
JSON = {"content-type": "application/json"}
PROBLEM = {"content-type": MEDIA_TYPE}
STOP_WITHIN_S = 2.0
# Unsubscribing waits for the broker, once for each subscription; while it is away, nobody asks anyway.

QUESTIONS = (
    "nodes", "node", "why",
    "capacity", "changes", "status", "action", "actions", "patch", "allocate", "release",
)  # fmt: skip


class NatsRoutes:
    """The questions that are being answered on a connection."""

    def __init__(self, answers: Answers, broker: NatsBroker, micro: MicroService) -> None:
        self._answers, self._broker, self._micro = answers, broker, micro
        self._is_stopped = False

    async def stop(self) -> None:
        """Let running questions end and take no more; the connection stays open. Stopping twice is fine."""
        if self._is_stopped:
            return
        self._is_stopped = True
        for stop in (self._micro.stop, self._broker.stop):
            try:
                async with asyncio.timeout(STOP_WITHIN_S):
                    await stop()
            except (TimeoutError, nats.errors.Error):
                _LOG.debug("the broker is away: what asked it for questions ends with the connection")
        self._answers.close()


async def start_nats_routes(service: Service) -> NatsRoutes:
    """Answer questions on the service's connection, which has to be on the running loop."""
    assert service.nc is not None, "without a connection there is nothing to answer on"
    # FastStream takes half a second to import, in which HTTP goes on answering.
    questions = await asyncio.to_thread(importlib.import_module, "api.nats_questions")
    answers = Answers(service)
    broker: NatsBroker = questions.questions_broker(answers, service.nc)
    try:
        await broker.start()
        micro = await _start_micro(service.nc, answers)
        for _ in range(2):  # one flush is no barrier: the broker may not know some subscriptions yet
            await service.nc.flush()
    except BaseException:
        await broker.stop()
        answers.close()
        raise
    return NatsRoutes(answers, broker, micro)


async def _start_micro(connection: Client, answers: Answers) -> MicroService:
    micro = await nats.micro.add_service(
        connection,
        ServiceConfig(
            name=SERVICE_NAME,
            version=answers.service.version,
            description="The inventory of a fleet of machines",
            metadata={"questions": " ".join(f"{API_PREFIX}.{name}" for name in QUESTIONS)},
        ),
    )

    async def node(request: Request) -> None:
        if request._msg.reply.startswith(OURS):
            return  # the answer would become a record of one of our streams
        try:
            asked = from_token(request.subject.rsplit(".", 1)[1])
            found = nodes.now(answers, asked)
        except Exception as err:  # noqa: BLE001  (the outermost frame: without an answer, the caller waits)
            problem = problem_of(err)
            body = dumps(problem.body(instance=request.subject))
            await request.respond_error(str(problem.status), problem.kind.code, body, PROBLEM)
        else:
            await request.respond(found.body, {**JSON, **found.headers})

    await micro.add_endpoint(
        name="node",
        subject=f"{API_PREFIX}.node.*",
        handler=node,
        metadata={
            "request": "an empty body; the last token of the subject is the node's",
            "response": "Node as JSON",
        },
    )
    return micro
