"""Who may use Fuse's calls (floor 3): the master token, API keys, and sessions of browsers.

With neither a master token nor an API key set, nobody is asked, as the dialect's document says. A session is
a text that only who knows the master token can make, and ends by itself; nothing is kept of it.
"""

from __future__ import annotations

import hmac
import secrets
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Literal

from api.dialects.calls import Asked, is_one_of
from api.dialects.fuse_secrets import ApiKey, SecretStore
from api.dialects.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from api.dialects.rules import FuseRules

COOKIE = "fuse_session"
SESSION_S = 7 * 24 * 3600
KEY_PREFIX = "fuse_"
Principal = Literal["master", "key"]


class Access:
    """Tells who asks, and keeps the API keys that were made here."""

    def __init__(self, rules: FuseRules, store: SecretStore) -> None:
        self._rules, self._store = rules, store

    @property
    def is_open(self) -> bool:
        """Say whether nobody is asked for anything."""
        return not self._rules.master_token and not self._rules.api_keys

    @property
    def has_keys(self) -> bool:
        """Say whether API keys can be made here: where somebody is asked at all."""
        return not self.is_open

    def principal(self, asked: Asked) -> Principal:
        """Return who asks; raise Refusal (unauthorized). Where nobody is asked, everybody is the master.

        The cookie counts only where there is no Authorization header, whatever that one says.
        """
        if self.is_open:
            return "master"
        token = asked.bearer
        if token is None:
            token = _cookie(asked.headers.get("cookie", ""))
            if self._is_session(token):
                return "master"
        if token and self._rules.master_token and is_one_of(token, [self._rules.master_token]):
            return "master"
        if token and (is_one_of(token, self._rules.api_keys) or self._store.has_key(_hash(token))):
            return "key"
        said = "invalid token" if token else "send a token as Authorization: Bearer …"
        raise Refusal("unauthorized", said, headers={"WWW-Authenticate": "Bearer"})

    def log_in(self, token: str, *, is_secure: bool) -> Mapping[str, str]:
        """Return the headers that begin a session; raise Refusal for another token than the master's."""
        master = self._rules.master_token
        if not master:
            return {}
        if not is_one_of(token, [master]):
            raise Refusal("unauthorized", "invalid token")
        ends = int(datetime.now(UTC).timestamp()) + SESSION_S
        return _set_cookie(f"{ends}.{_signed(master, ends)}", max_age_s=SESSION_S, is_secure=is_secure)

    def log_out(self, *, is_secure: bool) -> Mapping[str, str]:
        """Return the headers that end a session in the browser."""
        return _set_cookie("", max_age_s=0, is_secure=is_secure)

    def add_key(self, label: str) -> tuple[ApiKey, str]:
        """Return a new key and its text, which nobody can tell again."""
        text = KEY_PREFIX + secrets.token_urlsafe(32)
        key_id = f"key_{secrets.token_hex(8)}"
        return self._store.add_key(key_id, sha256=_hash(text), label=label, now=datetime.now(UTC)), text

    def keys(self) -> list[ApiKey]:
        """Return the keys that were made here, revoked ones too."""
        return self._store.keys()

    def revoke(self, key_id: str) -> bool:
        """Revoke a key that was made here; say whether there is such a one."""
        return self._store.revoke(key_id, now=datetime.now(UTC))

    def _is_session(self, text: str) -> bool:
        ends, _, signature = text.partition(".")
        if not self._rules.master_token or not (ends.isascii() and ends.isdigit() and len(ends) <= 12):
            return False
        is_ours = hmac.compare_digest(
            signature.encode(), _signed(self._rules.master_token, int(ends)).encode()
        )
        return is_ours and datetime.now(UTC).timestamp() < int(ends)


def _signed(master: str, ends: int) -> str:
    return hmac.new(master.encode(), f"{COOKIE}.{ends}".encode(), sha256).hexdigest()


def _hash(token: str) -> str:
    return sha256(token.encode()).hexdigest()


def _cookie(header: str) -> str:
    """Return the value of the session's cookie, "" without one; of several the first counts."""
    for pair in header.split(";"):
        name, _, value = pair.strip().partition("=")
        if name == COOKIE:
            return value.strip('"')
    return ""


def _set_cookie(value: str, *, max_age_s: int, is_secure: bool) -> Mapping[str, str]:
    parts = [f"{COOKIE}={value}", "Path=/", f"Max-Age={max_age_s}", "HttpOnly", "SameSite=Lax"]
    return {"Set-Cookie": "; ".join([*parts, "Secure"] if is_secure else parts)}
