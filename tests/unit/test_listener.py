"""The API's port is taken first, and a port in use is said with the way out."""

from __future__ import annotations

import pytest

from events.errors import RefusedError
from fleetfold.listener import bind, url_of


def test_port_zero_takes_a_free_one_and_says_which() -> None:
    with bind("127.0.0.1:0") as taken:
        port = taken.getsockname()[1]

        assert url_of(taken) == f"http://127.0.0.1:{port}"
        taken.listen()
        with pytest.raises(RefusedError, match=f"cannot listen on 127.0.0.1:{port} .*--http 127.0.0.1:PORT"):
            bind(f"127.0.0.1:{port}")


def test_what_listens_everywhere_is_reached_here() -> None:
    with bind("0.0.0.0:0") as taken:
        assert url_of(taken) == f"http://127.0.0.1:{taken.getsockname()[1]}"
