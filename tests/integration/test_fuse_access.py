"""Who may do what in Fuse: the master token, API keys, sessions of browsers, and nobody at all."""

from __future__ import annotations

import hmac
from hashlib import sha256
from pathlib import Path

import pytest

from api.dialects.rules import DialectRules
from tests.support.asgi import Got
from tests.support.brokers import AnyBroker
from tests.support.fuse import KEY, MASTER, body, error, fuse, fuse_rules, register
from tests.support.host_agents import nobody_listens
from tests.support.loops import on_a_loop
from tests.support.serving import Serving, serving
from tests.support.spoken import told

CALLS = (
    ("GET", "/v1/hosts"), ("GET", "/v1/hosts/h1"), ("POST", "/v1/hosts"),
    ("POST", "/v1/hosts/h1?action=cordon"), ("DELETE", "/v1/hosts/h1"),
    ("GET", "/v1/api-keys"), ("POST", "/v1/api-keys"), ("DELETE", "/v1/api-keys/x"),
)  # fmt: skip
OPEN = (
    ("GET", "/v1/version"),
    ("GET", "/ready"),
    ("GET", "/health"),
    ("GET", "/metrics"),
    ("POST", "/logout"),
)


async def _statuses(served: Serving, token: str | None, **headers: str) -> list[int]:
    return [
        (await fuse(served, method, target, token=token, headers=headers)).status for method, target in CALLS
    ]


@on_a_loop
async def test_reads_are_for_every_token_the_rest_is_the_masters(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path, dialects=fuse_rules()) as served:
        await register(served, nobody_listens())
        nobody = await _statuses(served, None)
        wrong = [
            await _statuses(served, None, authorization=said)
            for said in ("Bearer nope", "Bearer", "Bearer ", f"Basic {MASTER}", MASTER, f"Bearer {MASTER}x")
        ]
        key = await _statuses(served, KEY)
        open_to_all = [(await fuse(served, *call, token=None)).status for call in OPEN]
        envelope = await fuse(served, "DELETE", "/v1/hosts/h1", token=KEY)
        master = await _statuses(served, MASTER)
        unknown = await fuse(served, "GET", "/v1/hostz", token=None)

    assert (nobody, wrong) == ([401] * 8, [[401] * 8] * 6)
    assert key == [200, 200, 403, 403, 403, 403, 403, 403]
    assert open_to_all == [200, 200, 200, 200, 204]
    assert error(envelope) == (403, "unauthorized")
    assert master == [200, 200, 400, 204, 204, 200, 201, 404]
    assert error(unknown) == (404, "route_not_found")


@on_a_loop
async def test_a_cookie_counts_where_there_is_no_header(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path, dialects=fuse_rules()) as served:
        answers = [
            (await fuse(served, "GET", "/v1/hosts", token=None, headers=headers)).status
            for headers in (
                {"cookie": f"fuse_session={MASTER}"},
                {"cookie": f'a=b; fuse_session="{MASTER}"; c'},
                {"cookie": f"fuse_session={KEY}"},
                {"cookie": f"fuse_session=nope; fuse_session={MASTER}"},
                {"cookie": f"xfuse_session={MASTER}"},
                {"cookie": "fuse_session="},
                {"cookie": f"fuse_session={MASTER}", "authorization": "Bearer nope"},
                {"cookie": f"fuse_session={MASTER}", "authorization": ""},
            )
        ]

    assert answers == [200, 200, 200, 401, 401, 401, 401, 401]


@on_a_loop
async def test_a_browser_logs_in_and_never_holds_the_token(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path, dialects=fuse_rules()) as served:
        refused = [
            await _log_in(served, sent) for sent in ({"token": "nope"}, {"token": KEY}, {}, {"token": ""})
        ]
        malformed = [await _log_in(served, sent) for sent in ({"token": 7}, ["x"])]
        got = await _log_in(served, {"token": MASTER})
        secure = await _log_in(served, {"token": MASTER}, **{"x-forwarded-proto": "https"})
        cookie = got.headers["set-cookie"]
        session = cookie.partition(";")[0]
        value = session.partition("=")[2]
        ends, _, signature = value.partition(".")
        past = hmac.new(MASTER.encode(), b"fuse_session.100", sha256).hexdigest()
        cookies = [session, f"fuse_session={int(ends) + 1}.{signature}", f"fuse_session=100.{past}"]
        cookies += [f"fuse_session={odd}" for odd in (".", "1.", f".{signature}", f"{'9' * 99}.x")]
        seen = [
            (await fuse(served, "POST", "/v1/hosts", token=None, headers={"cookie": one})).status
            for one in cookies
        ]
        as_bearer = await fuse(served, "GET", "/v1/hosts", token=value)
        out = await fuse(served, "POST", "/logout", token=None)

    assert {error(one) for one in refused} == {(401, "unauthorized")}
    assert {error(one) for one in malformed} == {(400, "invalid_argument")}
    assert (got.status, MASTER in cookie) == (204, False)
    assert cookie.partition("; ")[2] == "Path=/; Max-Age=604800; HttpOnly; SameSite=Lax"
    assert secure.headers["set-cookie"].endswith("; Secure")
    assert seen == [400, 401, 401, 401, 401, 401, 401]
    assert as_bearer.status == 401
    assert out.headers["set-cookie"].startswith("fuse_session=; Path=/; Max-Age=0")


@on_a_loop
async def test_a_key_is_told_once_works_for_reads_and_ends_when_it_is_revoked(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with serving(broker, tmp_path, dialects=fuse_rules()) as served:
        made = await fuse(served, "POST", "/v1/api-keys", {"label": "ci"})
        bare = told(await fuse(served, "POST", "/v1/api-keys"))
        key = told(made)
        works = await _statuses(served, key["key"])
        listed = await fuse(served, "GET", "/v1/api-keys")
        revoked = [(await fuse(served, "DELETE", f"/v1/api-keys/{key['id']}")).status for _ in range(2)]
        ended = await _statuses(served, key["key"])
        after = told(await fuse(served, "GET", "/v1/api-keys"))["api_keys"]
        odd = [
            await fuse(served, "POST", "/v1/api-keys", {"label": 7}),
            await fuse(served, "POST", "/v1/api-keys", {"label": "x" * 201}),
        ]

    assert (made.status, key["label"], bare["label"], made.headers["cache-control"]) == (
        201,
        "ci",
        "",
        "no-store",
    )
    assert works == [200, 404, 403, 403, 403, 403, 403, 403]
    assert [one["id"] for one in told(listed)["api_keys"]] == [key["id"], bare["id"]]
    assert key["key"].encode() not in listed.body
    assert (revoked, ended) == ([204, 204], [401] * 8)
    assert ["revoked_at" in one for one in after] == [True, False]
    assert {error(one) for one in odd} == {(400, "invalid_argument")}


@on_a_loop
async def test_with_nothing_set_nobody_is_asked_and_no_key_is_made(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path, dialects=DialectRules()) as served:
        await register_openly(served)
        statuses = [
            (await fuse(served, *call, token=token)).status for call in CALLS for token in (None, "any")
        ]
        keys = await fuse(served, "POST", "/v1/api-keys", token=None)
        login = await _log_in(served, {"token": "any"})

    assert statuses == [200, 200, 200, 200, 400, 400, 204, 204, 204, 404, 404, 404, 404, 404, 404, 404]
    assert error(keys) == (404, "route_not_found")
    assert (login.status, "set-cookie" in login.headers) == (204, False)


@on_a_loop
async def test_without_a_master_token_keys_read_and_nobody_writes(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path, dialects=fuse_rules(master_token="")) as served:
        assert await _statuses(served, None) == [401] * 8
        assert await _statuses(served, "") == [401] * 8
        assert await _statuses(served, KEY) == [200, 404, 403, 403, 403, 403, 403, 403]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1", 404), ("GET", "/v1/", 404), ("GET", "/v1/hosts/", 404), ("GET", "/v1/hosts/a/b", 404),
        ("GET", "/v1//hosts", 404), ("GET", "/v1/environments", 404), ("PUT", "/v1/hosts", 405),
        ("PATCH", "/v1/hosts/h1", 405), ("GET", "/login", 405), ("POST", "/ready", 405),
        ("GET", "/login/x", 404),
    ],
)  # fmt: skip
def test_what_is_no_route_is_told_apart_from_what_is_no_host(
    broker: AnyBroker, tmp_path: Path, method: str, path: str, status: int
) -> None:
    _test_no_route(broker, tmp_path, method, path, status)


@on_a_loop
async def _test_no_route(broker: AnyBroker, folder: Path, method: str, path: str, status: int) -> None:
    async with serving(broker, folder, dialects=fuse_rules()) as served:
        got = await fuse(served, method, path)

    assert error(got) == (status, "route_not_found")
    assert told(got)["error"]["message"] == f"no such route: {method} {path}"


@on_a_loop
async def test_answers_carry_a_request_id_but_probes_do_not(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path, dialects=fuse_rules()) as served:
        ids = [
            (await fuse(served, "GET", "/v1/hosts", headers={"X-Request-ID": said})).headers["x-request-id"]
            for said in ("abc_123", "a b", "x" * 129, "")
        ]
        ready = await fuse(served, "GET", "/ready", token=None)
        version = told(await fuse(served, "GET", "/v1/version", token=None))

    assert ids[0] == "abc_123"
    assert all(len(one) == 36 and one.startswith("req_") for one in ids[1:])
    assert (ready.status, told(ready)["status"], "x-request-id" in ready.headers) == (200, "ready", False)
    assert version == {"service": "fuse-orchestrator", "version": "0.1.0"}


async def register_openly(served: Serving) -> None:
    assert (await fuse(served, "POST", "/v1/hosts", body(nobody_listens()), token=None)).status == 201


async def _log_in(served: Serving, sent: object, **headers: str) -> Got:
    return await fuse(served, "POST", "/login", sent, token=None, headers=headers)
