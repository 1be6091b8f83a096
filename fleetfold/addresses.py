"""Addresses to listen on and to reach (floor 4, pure)."""

from __future__ import annotations

import ipaddress

DEFAULT_HTTP = "127.0.0.1:8470"


def host_and_port(text: str) -> tuple[str, int]:
    """Split `127.0.0.1:8470` or `[::1]:8470`; raise ValueError where it is neither."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise ValueError(f"{text!r} is not host:port, such as {DEFAULT_HTTP}")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def local_url(host: str, port: int) -> str:
    """Return the address at which a client on this machine reaches what listens on host and port."""
    if host in {"0.0.0.0", "::"}:
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
