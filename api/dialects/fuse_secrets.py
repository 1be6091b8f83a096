"""What Fuse keeps secret, outside the log (floor 3, edge): agents' tokens, and the hashes of API keys.

One small SQLite file that only its owner may read, made with the first secret. It is no part of the log: a
rebuild needs none of it, and where it is gone, a host is registered again with its token and a key is made
anew. Facts hold fingerprints, which tell whether the token here is the one that a host was registered with.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from events.errors import FleetfoldError

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

    from events.ids import NodeId

log = logging.getLogger(__name__)

SCHEMA = """
    CREATE TABLE IF NOT EXISTS host_token (
        node_id TEXT NOT NULL,
        fingerprint TEXT NOT NULL,
        is_sealed INTEGER NOT NULL,
        token BLOB NOT NULL,
        PRIMARY KEY (node_id, fingerprint)
    );
    CREATE TABLE IF NOT EXISTS api_key (
        key_id TEXT PRIMARY KEY,
        sha256 TEXT NOT NULL UNIQUE,
        label TEXT NOT NULL,
        created_at TEXT NOT NULL,
        revoked_at TEXT
    );
"""
KEEP = """
    INSERT OR REPLACE INTO host_token (node_id, fingerprint, is_sealed, token)
    VALUES (:node_id, :fingerprint, :is_sealed, :token)
"""
FIND = """
    SELECT is_sealed, token
    FROM host_token
    WHERE node_id = :node_id AND fingerprint = :fingerprint
"""
FORGET = """
    DELETE FROM host_token
    WHERE node_id = :node_id AND fingerprint IS NOT :but
"""
PLAIN = """
    SELECT node_id, fingerprint, token
    FROM host_token
    WHERE is_sealed = 0
"""
ADD_KEY = """
    INSERT INTO api_key (key_id, sha256, label, created_at)
    VALUES (:key_id, :sha256, :label, :created_at)
"""
KEYS = """
    SELECT key_id, label, created_at, revoked_at
    FROM api_key
    ORDER BY created_at, key_id
"""
HAS_KEY = """
    SELECT count(*)
    FROM api_key
    WHERE sha256 = :sha256 AND revoked_at IS NULL
"""
REVOKE = """
    UPDATE api_key
    SET revoked_at = coalesce(revoked_at, :revoked_at)
    WHERE key_id = :key_id
"""


class SecretsError(FleetfoldError):
    """The file of secrets cannot be opened, read or written."""

    code = "secrets"

    def __init__(self, path: Path | None, *, why: str) -> None:
        self.path, self.why = path, why
        super().__init__(f"the secrets in {path} cannot be used ({why})")


class ApiKey(NamedTuple):
    """A key as it may be shown: never the key, and not its hash."""

    key_id: str
    label: str
    created_at: datetime
    revoked_at: datetime | None


class SecretStore:
    """The file. It is opened where it is needed first; every method may be called from any thread.

    Methods raise SecretsError where the file cannot be used.
    """

    def __init__(self, path: Path | None = None, *, key: str = "") -> None:
        """Keep secrets at `path` (None: in memory), tokens sealed with the Fernet key `key` ("": plain)."""
        self._path, self._fernet = path, _fernet(key)
        self._lock = threading.Lock()
        self._opened: sqlite3.Connection | None = None

    def keep_token(self, node: NodeId, *, fingerprint: str, token: str) -> None:
        """Keep the token of a host's agent beside any other of that host."""
        with self._using() as db:
            db.execute(KEEP, self._sealed(node, fingerprint, token))

    def token(self, node: NodeId, *, fingerprint: str) -> str | None:
        """Return the token with a fingerprint; None where it is not there or cannot be read with this key."""
        if not self._is_there():
            return None
        with self._using() as db:
            row = db.execute(FIND, {"node_id": node, "fingerprint": fingerprint}).fetchone()
        return None if row is None else self._read(node, is_sealed=bool(row[0]), kept=row[1])

    def forget_tokens(self, node: NodeId, *, but: str | None) -> None:
        """Forget every token of a host but the one with a fingerprint."""
        if self._is_there():
            with self._using() as db:
                db.execute(FORGET, {"node_id": node, "but": but})

    def add_key(self, key_id: str, *, sha256: str, label: str, now: datetime) -> ApiKey:
        """Keep the hash of a new API key."""
        row = {"key_id": key_id, "sha256": sha256, "label": label, "created_at": now.isoformat()}
        with self._using() as db:
            db.execute(ADD_KEY, row)
        return ApiKey(key_id, label, now, None)

    def keys(self) -> list[ApiKey]:
        """Return every key, revoked ones too, by age."""
        if not self._is_there():
            return []
        with self._using() as db:
            rows = db.execute(KEYS).fetchall()
        return [
            ApiKey(key_id, label, _time(created), _time(revoked) if revoked else None)
            for key_id, label, created, revoked in rows
        ]

    def has_key(self, sha256: str) -> bool:
        """Say whether a hash is that of a key which is not revoked."""
        if not self._is_there():
            return False
        with self._using() as db:
            found: int = db.execute(HAS_KEY, {"sha256": sha256}).fetchone()[0]
        return found > 0

    def revoke(self, key_id: str, *, now: datetime) -> bool:
        """Revoke a key; say whether there is such a one. Doing so twice is fine."""
        if not self._is_there():
            return False
        with self._using() as db:
            return db.execute(REVOKE, {"key_id": key_id, "revoked_at": now.isoformat()}).rowcount > 0

    def close(self) -> None:
        """Close the file. Closing twice is fine."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    def _is_there(self) -> bool:
        return self._opened is not None or (self._path is not None and self._path.exists())

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        """Give the connection for one transaction; raise SecretsError."""
        try:
            with self._lock, self._open() as db:
                yield db
        except (sqlite3.Error, OSError) as err:
            raise SecretsError(self._path, why=str(err)) from err

    def _open(self) -> sqlite3.Connection:
        if self._opened is None:
            if self._path is not None:
                made = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
                os.fchmod(made, 0o600)  # also of a file that was copied here; SQLite's journal follows it
                os.close(made)
            opened = sqlite3.connect(self._path or ":memory:", check_same_thread=False)
            opened.execute("PRAGMA secure_delete = ON")
            opened.executescript(SCHEMA)
            self._seal_all(opened)
            self._opened = opened
        return self._opened

    def _seal_all(self, opened: sqlite3.Connection) -> None:
        """Seal what was kept before a key was set."""
        if self._fernet is not None:
            with opened:
                for node, fingerprint, token in opened.execute(PLAIN).fetchall():
                    opened.execute(KEEP, self._sealed(node, fingerprint, bytes(token).decode()))

    def _sealed(self, node: str, fingerprint: str, token: str) -> dict[str, object]:
        row = {"node_id": node, "fingerprint": fingerprint, "is_sealed": 0, "token": token.encode()}
        if self._fernet is not None:
            # The host is sealed in as well, so that a row moved to another host opens nothing there.
            row |= {"is_sealed": 1, "token": self._fernet.encrypt(json.dumps([node, token]).encode())}
        return row

    def _read(self, node: str, *, is_sealed: bool, kept: bytes) -> str | None:
        if not is_sealed:
            return bytes(kept).decode()
        if self._fernet is not None:
            from cryptography.fernet import InvalidToken  # noqa: PLC0415 - as in `_fernet`

            try:
                host, token = json.loads(self._fernet.decrypt(bytes(kept)))
            except InvalidToken:
                host = token = None
            if host == node:
                return str(token)
        log.warning("the token of %s cannot be read with the key that is set: register the host again", node)
        return None


def _fernet(key: str) -> Fernet | None:
    """Return what seals with a key, None without one."""
    if not key:
        return None
    from cryptography.fernet import Fernet  # noqa: PLC0415 - only where a key is set

    return Fernet(key)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
