"""Where a host's agent may be (floor 3, pure): its URL, and the addresses that may be dialled.

A registration names a URL to which this service then sends a request. So the URL is read strictly before
anything is dialled, and every address that its name stands for is checked before the first connection.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

MAX_URL_CHARS = 2048
PORTS = {"http": 80, "https": 443}

_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_NAME = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
                   r"(\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?)*\.?")  # fmt: skip
_NUMERIC = re.compile(r"(0[xX][0-9A-Fa-f]*|[0-9]+)\.?")
# What some resolvers take for an address of their own kind, such as 0x7f.1 or 2130706433.
_PATH = re.compile(r"(/(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*)*")
_DOTS = re.compile(r"(?:\.|%2[eE]){1,2}")

NEVER: dict[Network, str] = {
    ip_network(text): why
    for text, why in {
        "0.0.0.0/8": "no address of a machine",
        "169.254.0.0/16": "link-local, where clouds hand out credentials",
        "100.100.100.200/32": "where a cloud hands out credentials",
        "168.63.129.16/32": "where a cloud hands out credentials",
        "192.0.0.192/32": "where a cloud hands out credentials",
        "224.0.0.0/4": "multicast",
        "240.0.0.0/4": "reserved",
        "::/128": "no address of a machine",
        "fe80::/10": "link-local",
        "fd00:ec2::254/128": "where a cloud hands out credentials",
        "fd20:ce::254/128": "where a cloud hands out credentials",
        "ff00::/8": "multicast",
    }.items()
}
"""What is not dialled where nothing is set."""

_NAT64 = ip_network("64:ff9b::/96")


class HostUrl(NamedTuple):
    """A URL as it was given, and its parts. `name` has no brackets; `address` is that of a literal."""

    text: str
    scheme: str
    name: str
    port: int
    path: str
    address: Address | None

    @property
    def host(self) -> str:
        """Return the value of the Host header."""
        name = f"[{self.name}]" if ":" in self.name else self.name
        return name if self.port == PORTS[self.scheme] else f"{name}:{self.port}"


def read_url(text: str) -> HostUrl:
    """Return the parts of an agent's URL; raise ValueError, which says what is wrong with it.

    Taken are http and https, a name or an address, a port and a path. Refused are credentials, a query or a
    fragment (also empty ones), what is not plain ASCII, dot segments, and addresses in unusual spellings.
    """
    if len(text) > MAX_URL_CHARS:
        raise ValueError(f"url is longer than {MAX_URL_CHARS} characters")
    if not all("!" <= character <= "~" for character in text):
        raise ValueError("url is plain ASCII without spaces")
    scheme, separator, rest = text.partition("://")
    scheme = scheme.lower()
    if not separator or scheme not in PORTS:
        raise ValueError("url must be http or https")
    if "?" in rest:
        raise ValueError("url must not have a query")
    if "#" in rest:
        raise ValueError("url must not have a fragment")
    authority, slash, path = rest.partition("/")
    if "@" in authority:
        raise ValueError("url must not have credentials")
    found = _AUTHORITY.fullmatch(authority)
    if found is None:
        raise ValueError("url needs a host, and a port only where it is a number")
    name, port = found[1], int(found[2]) if found[2] else PORTS[scheme]
    if not 1 <= port <= 65535:
        raise ValueError("url has a port that is none")
    path = slash + path
    if not _PATH.fullmatch(path) or any(_DOTS.fullmatch(part) for part in path.split("/")):
        raise ValueError("url has a path that is none")
    address = _literal(name)
    return HostUrl(text, scheme, name.strip("[]").lower(), port, path.rstrip("/"), address)


def _literal(name: str) -> Address | None:
    if name.startswith("["):
        try:
            return IPv6Address(name[1:-1])
        except ValueError as err:
            raise ValueError("url has an address that is none") from err
    if _NUMERIC.fullmatch(name.rstrip(".").rpartition(".")[2]):
        try:
            return IPv4Address(name)
        except ValueError as err:
            raise ValueError("url has an address that is none") from err
    if not _NAME.fullmatch(name):
        raise ValueError("url has a host that is none")
    return None


def networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Return networks such as `10.0.0.0/8`; raise ValueError for a text that is none."""
    return tuple(ip_network(text) for text in texts)


def refused(address: Address, *, allowed: Sequence[Network]) -> str:
    """Return why an address may not be dialled, "" where it may.

    With `allowed`, an address lies in one of these networks. Without, it is any but those in NEVER. An
    address of version 4 inside one of version 6 counts as well.
    """
    for one in _meant(address):
        if allowed:
            if not any(one in network for network in allowed):
                return f"{address} is in none of the networks that are set for agents"
            continue
        for network, why in NEVER.items():
            if one in network:
                return f"{address} is not dialled: {why}"
    return ""


def _meant(address: Address) -> Iterator[Address]:
    """Yield every address that packets to an address may reach."""
    if isinstance(address, IPv4Address):
        yield address
        return
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
        return
    yield address
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if address in _NAT64 or (int(address) >> 32 == 0 and int(address) > 1):
        yield IPv4Address(int(address) & 0xFFFFFFFF)


def parsed(text: str) -> Address:
    """Return the address that a resolver gave, without the zone behind it; raise ValueError."""
    return ip_address(text.partition("%")[0])
