"""Brokers that are not a process of ours: one named by `NATS_URL`, or a container where no binary is at hand.

They answer to the same verbs as `tests.support.broker.Broker`.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from typing import Any, Protocol

import nats

IMAGE = "nats:2.15"


class AnyBroker(Protocol):
    """What a test may ask of its broker. `url` stays the same over restarts."""

    @property
    def url(self) -> str: ...
    def start(self) -> object: ...
    def kill(self) -> None: ...
    def stop(self) -> None: ...
    def freeze(self) -> None: ...
    def thaw(self) -> None: ...


class OutsideBroker:
    """The broker that `NATS_URL` names. It must be empty: what a test leaves is deleted after it.

    It belongs to somebody else, so a test that breaks its broker asks for the fixture `own_broker`.
    """

    def __init__(self, url: str) -> None:
        self.url = url

    def start(self) -> OutsideBroker:
        """Check that nothing of anybody else's lies there."""
        found = asyncio.run(self._streams())
        if found:
            raise RuntimeError(f"NATS_URL={self.url} holds {found}: tests delete streams, none may be there")
        return self

    def clear(self) -> None:
        asyncio.run(self._delete_streams())

    def kill(self) -> None:
        self._refuse()

    def stop(self) -> None:
        self._refuse()

    def freeze(self) -> None:
        self._refuse()

    def thaw(self) -> None:
        self._refuse()

    def _refuse(self) -> None:
        raise RuntimeError("NATS_URL names somebody else's broker: to break one, take the fixture own_broker")

    async def _streams(self) -> list[str]:
        nc = await nats.connect(self.url)
        try:
            reply = await nc.request("$JS.API.STREAM.NAMES", b"", timeout=5)
            return list(json.loads(reply.data).get("streams") or [])
        finally:
            await nc.close()

    async def _delete_streams(self) -> None:
        nc = await nats.connect(self.url)
        try:
            for name in await self._streams():
                await nc.request(f"$JS.API.STREAM.DELETE.{name}", b"", timeout=5)
        finally:
            await nc.close()


class ContainerBroker:
    """A broker in a container, on a host port that stays the same over restarts."""

    def __init__(self) -> None:
        from testcontainers.core.config import testcontainers_config
        from testcontainers.core.container import DockerContainer

        testcontainers_config.ryuk_disabled = True  # a second image to fetch, for what `remove` does

        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = int(probe.getsockname()[1])
        self._container = DockerContainer(IMAGE).with_command("-js -sd /data")
        self._container.with_bind_ports(4222, self._port)
        self._exists = False

    @property
    def url(self) -> str:
        return f"nats://{os.environ.get('TC_HOST', '127.0.0.1')}:{self._port}"

    def start(self) -> ContainerBroker:
        from testcontainers.core.wait_strategies import LogMessageWaitStrategy

        if self._exists:
            self._wrapped().start()
        else:
            self._container.waiting_for(LogMessageWaitStrategy("Server is ready"))
            self._container.start()
            self._exists = True
        return self

    def kill(self) -> None:
        self._wrapped().kill("SIGKILL")
        self._wrapped().wait()

    def stop(self) -> None:
        self._wrapped().stop()

    def freeze(self) -> None:
        self._wrapped().pause()

    def thaw(self) -> None:
        self._wrapped().unpause()

    def remove(self) -> None:
        if self._exists:
            self._container.stop()

    def _wrapped(self) -> Any:  # noqa: ANN401 (docker-py has no types)
        return self._container.get_wrapped_container()
