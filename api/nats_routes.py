"""The service on NATS: questions, and an endpoint for the one that is asked most (floor 3).

`fleet.api.v1.node.<node>` answers for the node whose subject token it is (`events.ids.token`), with an
empty body, from memory. It is an endpoint of the NATS service `fleetfold`, so that `nats micro ls` and
`nats micro info fleetfold` find us; the metadata names the other questions. All of it runs on the service's
own connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import nats.micro
from nats.micro.service import ServiceConfig

from api import nodes
from api.answers import Answers
from api.json_text import dumps
from api.problems import problem_of
from events.ids import from_token
from events.subjects import API_PREFIX

if TYPE_CHECKING:
    from faststream.nats import NatsBroker
    from nats.aio.client import Client
    from nats.micro.request import Request
    from nats.micro.service import Service as MicroService

    from api.service import Service

SERVICE_NAME = "fleetfold"
QUESTIONS = ("nodes", "node", "capacity", "status")


class NatsRoutes:
    """The questions that are being answered on a connection."""

    def __init__(self, answers: Answers, broker: NatsBroker, micro: MicroService) -> None:
        self._answers, self._broker, self._micro = answers, broker, micro

    async def stop(self) -> None:
        """Let running questions end and take no more; the connection stays open. Stopping twice is fine."""
        await self._micro.stop()
        await self._broker.stop()
        self._answers.close()


async def start_nats_routes(service: Service) -> NatsRoutes:
    """Answer questions on the service's connection, which has to be on the running loop."""
    assert service.nc is not None, "without a connection there is nothing to answer on"
    from api.nats_questions import questions_broker  # noqa: PLC0415  (0.3 s, not on the way to the first answer)

    answers = Answers(service)
    broker = questions_broker(answers, service.nc)
    await broker.start()
    micro = await _start_micro(service.nc, answers)
    await service.nc.flush()
    await (
        service.nc.flush()
    )  # one flush is no barrier: some subscriptions would not be known to the broker yet
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
        try:
            asked = from_token(request.subject.rsplit(".", 1)[1])
            found = nodes.now(answers, asked)
        except Exception as err:  # noqa: BLE001  (the outermost frame of a request: without an answer, the caller times out)
            problem = problem_of(err)
            await request.respond_error(
                str(problem.status), problem.kind.code, dumps(problem.body(instance=request.subject))
            )
        else:
            await request.respond(found.body, found.headers)

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
