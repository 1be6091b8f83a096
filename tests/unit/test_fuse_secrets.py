"""What Fuse keeps outside the log: who may read the file, what is sealed in it, and what is forgotten."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from api.dialects.fuse_secrets import SecretsError, SecretStore
from events.ids import node_id

NODE, OTHER = node_id("fuse:h1"), node_id("fuse:h2")
KEY, NEW_KEY = (base64.urlsafe_b64encode(bytes([n]) * 32).decode() for n in (1, 2))
TOKEN = "the-token-of-an-agent"


@contextmanager
def _opened(path: Path | None, key: str = "") -> Iterator[SecretStore]:
    with closing(SecretStore(path, key=key)) as store:
        yield store


def _bytes(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


def test_the_file_is_made_with_the_first_secret_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "secrets.sqlite3"

    with _opened(path) as store:
        assert store.token(NODE, fingerprint="f") is None
        assert (store.keys(), store.has_key("x"), store.revoke("x", now=datetime.now(UTC))) == (
            [],
            False,
            False,
        )
        store.forget_tokens(NODE, but=None)
        assert not path.exists()
        store.keep_token(NODE, fingerprint="f", token=TOKEN)

    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    with _opened(path) as store:
        assert store.token(NODE, fingerprint="f") == TOKEN
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_token_is_found_by_its_fingerprint_and_gone_once_forgotten(tmp_path: Path) -> None:
    with _opened(tmp_path / "s") as store:
        store.keep_token(NODE, fingerprint="old", token="older-token")
        store.keep_token(NODE, fingerprint="f", token=TOKEN)
        store.keep_token(OTHER, fingerprint="f", token="of-another")
        store.forget_tokens(NODE, but="f")

        assert [store.token(NODE, fingerprint=one) for one in ("old", "f")] == [None, TOKEN]
        assert store.token(OTHER, fingerprint="f") == "of-another"
        store.forget_tokens(NODE, but=None)
        assert store.token(NODE, fingerprint="f") is None
    assert b"older-token" not in _bytes(tmp_path)
    assert TOKEN.encode() not in _bytes(tmp_path)


def test_with_a_key_nothing_on_disk_tells_the_token(tmp_path: Path) -> None:
    with _opened(tmp_path / "s") as store:
        store.keep_token(NODE, fingerprint="f", token=TOKEN)
    assert TOKEN.encode() in _bytes(tmp_path)

    with _opened(tmp_path / "s", KEY) as store:
        assert store.token(NODE, fingerprint="f") == TOKEN
        store.keep_token(OTHER, fingerprint="g", token=TOKEN)
        assert store.token(OTHER, fingerprint="g") == TOKEN
    assert TOKEN.encode() not in _bytes(tmp_path)


@pytest.mark.parametrize("key", ["", NEW_KEY])
def test_a_token_that_another_key_sealed_is_lost_until_it_is_kept_again(
    tmp_path: Path, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    with _opened(tmp_path / "s", KEY) as store:
        store.keep_token(NODE, fingerprint="f", token=TOKEN)

    with _opened(tmp_path / "s", key) as store:
        assert store.token(NODE, fingerprint="f") is None
        assert "register the host again" in caplog.text
        store.keep_token(NODE, fingerprint="f", token=TOKEN)
        assert store.token(NODE, fingerprint="f") == TOKEN
    assert TOKEN not in caplog.text


def test_a_key_is_known_by_its_hash_until_it_is_revoked(tmp_path: Path) -> None:
    made, gone = datetime(2026, 6, 1, tzinfo=UTC), datetime(2026, 6, 2, tzinfo=UTC)
    with _opened(tmp_path / "s") as store:
        key = store.add_key("k1", sha256="h", label="ci", now=made)
        assert (key.revoked_at, store.has_key("h"), store.has_key("k1")) == (None, True, False)
        assert store.revoke("k1", now=gone)
        assert store.revoke("k1", now=datetime.now(UTC))

        assert not store.has_key("h")
        assert store.keys() == [key._replace(revoked_at=gone)]


def test_what_cannot_be_opened_is_said_as_such(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "target")

    for name in ("s", "link"):
        with _opened(tmp_path / name) as store, pytest.raises(SecretsError):
            store.keep_token(NODE, fingerprint="f", token=TOKEN)


def test_without_a_file_secrets_are_in_memory() -> None:
    with _opened(None, KEY) as store:
        store.keep_token(NODE, fingerprint="f", token=TOKEN)
        assert store.token(NODE, fingerprint="f") == TOKEN
