"""Ask a host's agent what its machine has (floor 3, edge): one request, to a checked address, and no other.

The name is resolved once, every address of it is checked, and the connection goes to one of those that were
checked, so a name that changes its mind in between changes nothing. The token travels to that URL alone: no
redirect is followed, no proxy of the environment is used. A replay never comes here.
"""

from __future__ import annotations

import asyncio
import importlib
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from api.dialects.fuse_capacity import Failed, Outcome, Rejected, read_answer
from api.dialects.fuse_url import PORTS, Address, HostUrl, Network, parsed, refused
from api.dialects.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    import httpx

PATH = "/v1/capacity"
MAX_ANSWER_BYTES = 32 * 1024
# An agent lists 16 devices and their partitions in half of it. The registration keeps the answer, and a fact
# may have 64 KiB.

MAX_ADDRESSES = 4
# Of a name with more, the first ones are as good as the others.
CONNECT_SHARE = 0.5
# Of the whole time, so that a second address has a chance where the first one swallows packets.


Resolve = Callable[[str, int], Awaitable[list[str]]]
"""Returns the addresses of a name, as texts; raises OSError where there are none."""


async def resolve(name: str, port: int) -> list[str]:
    """Return the addresses of a name as this machine knows them."""
    found = await asyncio.get_running_loop().getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return [str(one[4][0]) for one in found]


async def probe(
    url: HostUrl,
    token: str,
    *,
    allowed: Sequence[Network],
    timeout_s: float,
    resolve: Resolve = resolve,
) -> Outcome:
    """Return what the agent at a URL answers, within `timeout_s` in all.

    Raises Refusal (invalid) where the name stands for an address that may not be dialled: then nothing was.
    """
    try:
        async with asyncio.timeout(timeout_s):
            addresses = await _addresses(url, resolve)
            for address in addresses:
                if why := refused(address, allowed=allowed):
                    raise Refusal("invalid", f"url: {why}")
            return await _asked(url, addresses, token, connect_s=timeout_s * CONNECT_SHARE)
    except TimeoutError:
        return Failed("no answer in time")
    except _NoAddressError:
        return Failed("the name has no address")


class _NoAddressError(Exception):
    """A name that stands for no address."""


async def _addresses(url: HostUrl, resolve: Resolve) -> list[Address]:
    """Return the addresses of a URL's host; raise _NoAddressError."""
    if url.address is not None:
        return [url.address]
    try:
        # A zone behind an address means a link-local one, which is refused without it as well.
        listed = dict.fromkeys(parsed(text) for text in await resolve(url.name, url.port))
    except (OSError, ValueError) as err:
        raise _NoAddressError from err
    if not listed:
        raise _NoAddressError
    return list(listed)


async def _asked(url: HostUrl, addresses: Sequence[Address], token: str, *, connect_s: float) -> Outcome:
    http = await asyncio.to_thread(importlib.import_module, "httpx")  # too long a load for the loop
    verify = await asyncio.to_thread(_trust, url.scheme)
    timeout = http.Timeout(None, connect=connect_s)  # the whole has a bound of its own
    outcome: Outcome = Failed("no connection")
    async with http.AsyncClient(
        verify=verify, timeout=timeout, trust_env=False, follow_redirects=False
    ) as client:
        for address in addresses[:MAX_ADDRESSES]:
            try:
                return await _answer(client, _request(client, url, address, token), token)
            except http.ConnectTimeout:
                outcome = Failed("no connection in time")
            except http.ConnectError as err:
                outcome = Failed("the certificate is not trusted" if _is_tls(err) else "no connection")
            except (http.TransportError, http.InvalidURL):
                return Failed("the answer is broken off or is not HTTP")
    return outcome


def _request(client: httpx.AsyncClient, url: HostUrl, address: Address, token: str) -> httpx.Request:
    """Return the request to an address, made for the name: in its Host header and its certificate."""
    literal = f"[{address}]" if address.version == 6 else str(address)
    port = "" if url.port == PORTS[url.scheme] else f":{url.port}"
    headers = {
        "Host": url.host,
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "User-Agent": "fleetfold",
    }
    if token:
        headers["Authorization"] = f"Bearer {token}"
    extensions: dict[str, Any] = {"sni_hostname": url.name} if url.address is None else {}
    target = f"{url.scheme}://{literal}{port}{url.path}{PATH}"
    return client.build_request("GET", target, headers=headers, extensions=extensions)


async def _answer(client: httpx.AsyncClient, request: httpx.Request, token: str) -> Outcome:
    response = await client.send(request, stream=True)
    try:
        if response.status_code == 401:
            return Rejected()
        if response.status_code != 200:
            return Failed(f"http {response.status_code}")
        if response.headers.get("content-encoding", "identity") != "identity":
            return Failed("the answer is packed")
        body = bytearray()
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > MAX_ANSWER_BYTES:
                return Failed(f"the answer has more than {MAX_ANSWER_BYTES} bytes")
    finally:
        await response.aclose()
    return read_answer(bytes(body), token=token)


def _trust(scheme: str) -> ssl.SSLContext:
    """Return what certificates are trusted: those of this machine; for http an empty one, which is quick."""
    return ssl.create_default_context() if scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _is_tls(err: BaseException) -> bool:
    while err is not None:
        if isinstance(err, ssl.SSLError):
            return True
        if (cause := err.__cause__ or err.__context__) is None:
            return False
        err = cause
    return False
