"""Fuse's calls around who may ask: API keys, and sessions of browsers (floor 3)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from api.dialects import fuse_schema as schema
from api.dialects.calls import Asked, Call, Reply, Shown
from api.dialects.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from api.dialects.fuse_access import Access
    from api.dialects.fuse_secrets import ApiKey

API_KEYS = "/v1/api-keys"
MAX_LABEL_CHARS = 200


def calls(access: Access) -> tuple[Call, ...]:
    """Return the calls."""
    does = _Sessions(access)
    return (
        Call(
            method="GET", path=API_KEYS, does=does.keys, summary="API keys that were made here",
            answers={200: Shown("All of them, without their texts", schema.KEYS)}, refusals=(401, 403),
        ),
        Call(
            method="POST", path=API_KEYS, does=does.add_key, summary="Make an API key",
            takes=schema.ADD_KEY, needs_body=False,
            answers={201: Shown("The key, this once with its text", schema.NEW_KEY)},
            refusals=(400, 401, 403, 413),
        ),
        Call(
            method="DELETE", path=f"{API_KEYS}/{{id}}", does=does.revoke, summary="Revoke an API key",
            answers={204: Shown("It is revoked")}, refusals=(400, 401, 403),
        ),
        Call(
            method="POST", path="/login", does=does.log_in, summary="Begin a session of a browser",
            takes=schema.LOGIN, answers={204: Shown("The cookie of the session is set")},
            refusals=(400, 401, 413), is_open=True,
        ),
        Call(
            method="POST", path="/logout", does=does.log_out, summary="End a session of a browser",
            answers={204: Shown("The cookie is taken away")}, is_open=True,
        ),
    )  # fmt: skip


class _Sessions:
    """The calls."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def keys(self, _asked: Asked) -> Reply:
        self._need_keys()
        keys = await asyncio.to_thread(self._access.keys)
        return Reply(200, {"api_keys": [_key(one) for one in keys]})

    async def add_key(self, asked: Asked) -> Reply:
        self._need_keys()
        body = asked.members_if_any(is_null_missing=True)
        label = body.text("label") or ""
        if len(label) > MAX_LABEL_CHARS:
            body.fault("label", f"has at most {MAX_LABEL_CHARS} characters")
        body.done()
        key, text = await asyncio.to_thread(self._access.add_key, label)
        return Reply(201, {**_key(key), "key": text}, headers={"Cache-Control": "no-store"})

    async def revoke(self, asked: Asked) -> Reply:
        self._need_keys()
        if not await asyncio.to_thread(self._access.revoke, asked.values["id"]):
            raise Refusal("missing", "api key not found")
        return Reply(204)

    async def log_in(self, asked: Asked) -> Reply:
        body = asked.members_if_any(is_null_missing=True)
        token = body.text("token") or ""
        body.done()
        return Reply(204, headers=self._access.log_in(token, is_secure=_is_secure(asked)))

    async def log_out(self, asked: Asked) -> Reply:
        return Reply(204, headers=self._access.log_out(is_secure=_is_secure(asked)))

    def _need_keys(self) -> None:
        if not self._access.has_keys:
            raise Refusal("unknown_route", f"no such route: {API_KEYS} (no master token is set)")


def _is_secure(asked: Asked) -> bool:
    """Say whether a proxy in front speaks TLS with the browser; this service itself does not."""
    return asked.headers.get("x-forwarded-proto", "").strip().lower() == "https"


def _key(key: ApiKey) -> Mapping[str, object]:
    shown: dict[str, object] = {"id": key.key_id, "label": key.label, "created_at": key.created_at}
    return shown if key.revoked_at is None else {**shown, "revoked_at": key.revoked_at}
