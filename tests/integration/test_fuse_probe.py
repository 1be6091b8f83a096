"""The question to a host's agent, over real sockets: what is sent where, and what every answer comes to."""

from __future__ import annotations

import gzip
import json
import socket
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import pytest

from api.dialects.fuse_capacity import Answered, Failed, Outcome, Rejected
from api.dialects.fuse_probe import MAX_ANSWER_BYTES, Resolve, probe, resolve
from api.dialects.fuse_url import networks, read_url
from api.dialects.refusal import Refusal
from tests.support.host_agents import PLAIN, TOKEN, host_agent, nobody_listens
from tests.support.loops import on_a_loop
from tests.support.odd_agents import (
    answers,
    answers_without_end,
    never_answers,
    odd_agent,
    speaks_something_else,
)

CAPACITY = json.dumps(PLAIN).encode()


async def _probe(
    url: str,
    token: str = TOKEN,
    *,
    allowed: tuple[str, ...] = (),
    timeout_s: float = 20,
    resolve: Resolve = resolve,
) -> Outcome:
    return await probe(read_url(url), token, allowed=networks(allowed), timeout_s=timeout_s, resolve=resolve)


@on_a_loop
async def test_one_request_with_the_token_goes_to_the_path_below_the_url() -> None:
    with host_agent(PLAIN) as agent:
        found = await _probe(f"{agent.url}/behind/a/")
        wrong = await _probe(agent.url, "wrong")

    assert isinstance(found, Answered)
    assert (found.members["cpus"], agent.paths) == (16, ["/behind/a/v1/capacity", "/v1/capacity"])
    assert wrong == Rejected()


@on_a_loop
async def test_only_what_is_needed_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with odd_agent(answers(200, CAPACITY)) as agent:
        await _probe(agent.url)
        await _probe(agent.url, "")

    first, second = agent.asked
    assert first == {
        "host": urlsplit(agent.url).netloc,
        "accept": "application/json",
        "accept-encoding": "identity",
        "user-agent": "fleetfold",
        "authorization": f"Bearer {TOKEN}",
        "connection": first["connection"],
    }
    assert "authorization" not in second


@on_a_loop
async def test_a_redirect_is_a_failure_and_nobody_else_sees_the_token() -> None:
    with host_agent(PLAIN) as other, ExitStack() as agents:
        for status in (301, 302, 303, 307, 308):
            agent = agents.enter_context(odd_agent(answers(status, location=f"{other.url}/v1/capacity")))

            assert await _probe(agent.url) == Failed(f"http {status}")
    assert other.paths == []


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(401, Rejected()), (403, Failed("http 403")), (404, Failed("http 404")), (204, Failed("http 204")),
     (500, Failed("http 500")), (503, Failed("http 503"))],
)  # fmt: skip
def test_every_other_status_is_told_by_its_number(status: int, outcome: Outcome) -> None:
    _test_a_status(status, outcome)


@on_a_loop
async def _test_a_status(status: int, outcome: Outcome) -> None:
    with odd_agent(answers(status, b"")) as agent:
        assert await _probe(agent.url) == outcome


@on_a_loop
async def test_an_answer_that_is_too_large_packed_broken_or_none_is_a_failure() -> None:
    large = json.dumps({**PLAIN, "padding": "x" * MAX_ANSWER_BYTES}).encode()
    failures: dict[str, Any] = {
        f"the answer has more than {MAX_ANSWER_BYTES} bytes": answers(200, large),
        "the answer is packed": answers(200, gzip.compress(CAPACITY), content_encoding="gzip"),
        "the answer is broken off or is not HTTP": answers(200, CAPACITY, content_length="9999"),
        "the answer is no capacity": answers(200, b"<html>"),
        "the answer repeats the token": answers(200, json.dumps({**PLAIN, "gpu_kind": TOKEN}).encode()),
    }
    for why, does in failures.items():
        with odd_agent(does) as agent:
            assert await _probe(agent.url) == Failed(why)
    with odd_agent(answers_without_end) as agent:
        assert await _probe(agent.url) == Failed(f"the answer has more than {MAX_ANSWER_BYTES} bytes")
    with odd_agent(speaks_something_else) as agent:
        assert await _probe(agent.url) == Failed("the answer is broken off or is not HTTP")


@on_a_loop
async def test_who_does_not_answer_is_not_waited_for() -> None:
    with odd_agent(never_answers) as agent:
        assert await _probe(agent.url, timeout_s=0.2) == Failed("no answer in time")
    assert await _probe(nobody_listens()) == Failed("no connection")


@on_a_loop
async def test_a_certificate_that_nobody_vouches_for_ends_it_before_the_token_is_sent() -> None:
    with odd_agent(answers(200, CAPACITY)) as agent:
        assert await _probe(agent.url.replace("http://", "https://")) == Failed(
            "the certificate is not trusted"
        )
    assert agent.asked == []


@on_a_loop
async def test_a_name_is_asked_for_once_and_the_connection_goes_to_what_was_checked() -> None:
    names = []

    async def resolve(name: str, _port: int) -> list[str]:
        names.append(name)
        return ["127.0.0.1"]

    with odd_agent(answers(200, CAPACITY)) as agent:
        port = urlsplit(agent.url).port
        found = await _probe(f"http://agent.test:{port}", resolve=resolve)

    assert isinstance(found, Answered)
    assert (names, agent.asked[0]["host"]) == (["agent.test"], f"agent.test:{port}")


@on_a_loop
async def test_where_one_address_of_a_name_does_not_answer_the_next_one_is_asked() -> None:
    async def resolve(_name: str, _port: int) -> list[str]:
        return ["127.0.0.2", "127.0.0.1"]

    with host_agent(PLAIN) as agent:
        found = await _probe(agent.url.replace("127.0.0.1", "agent.test"), resolve=resolve)

    assert isinstance(found, Answered)
    assert len(agent.paths) == 1


@pytest.mark.parametrize("forbidden", ["169.254.169.254", "::ffff:169.254.169.254", "fe80::1%lo", "0.0.0.0"])
def test_a_name_with_one_forbidden_address_is_refused_and_nothing_is_dialled(forbidden: str) -> None:
    _test_a_forbidden_one(forbidden)


@on_a_loop
async def _test_a_forbidden_one(forbidden: str) -> None:
    async def resolve(_name: str, _port: int) -> list[str]:
        return ["127.0.0.1", forbidden]

    with odd_agent(answers(200, CAPACITY)) as agent, pytest.raises(Refusal, match="not dialled"):
        await _probe(agent.url.replace("127.0.0.1", "agent.test"), resolve=resolve)
    assert agent.asked == []


@on_a_loop
async def test_networks_that_are_set_bind_names_too() -> None:
    with odd_agent(answers(200, CAPACITY)) as agent, pytest.raises(Refusal, match="none of the networks"):
        await _probe(agent.url.replace("127.0.0.1", "localhost"), allowed=("10.0.0.0/8",))
    assert agent.asked == []


@on_a_loop
async def test_a_name_without_an_address_is_a_failure() -> None:
    async def resolve(_name: str, _port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    assert await _probe("http://agent.test:1", resolve=resolve) == Failed("the name has no address")
