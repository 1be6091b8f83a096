"""The socket on which the API listens (floor 4), taken first: a port in use is said at once."""

from __future__ import annotations

import os
import socket

from events.errors import RefusedError
from fleetfold.addresses import host_and_port, local_url


def bind(http: str) -> socket.socket:
    """Return a socket bound to `host:port`, port 0 meaning a free one; RefusedError where it is taken."""
    host, port = host_and_port(http)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
    except OSError as err:
        made.close()
        raise RefusedError(
            "port_taken",
            f"the API cannot listen on {http} ({os.strerror(err.errno or 0)})",
            instead="end what uses it, or choose another port with --http 127.0.0.1:PORT (0: a free one)",
        ) from err
    return made


def url_of(bound: socket.socket) -> str:
    """Return the address at which a client on this machine reaches a bound socket."""
    host, port = bound.getsockname()[:2]
    return local_url(host, port)
