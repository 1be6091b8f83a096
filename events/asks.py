"""What an agent is asked on `fleet.v1.ask.<node>` (floor 1, pure).

    {"ask": "register", "reason": "…"}   say again what this machine is: it is not known, or otherwise known
    {"ask": "gone", "reason": "…"}       stop: the node was retired
    {"ask": "probe"}                     answer on the reply subject, to show that you hear us

A bare word is accepted too, so that `nats pub` from a shell works. An agent ignores what it cannot read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import orjson

AskWord = Literal["register", "gone", "probe"]
WORDS: tuple[AskWord, ...] = ("register", "gone", "probe")


@dataclass(frozen=True, slots=True)
class Ask:
    """One question, and why it is asked (a sentence for people, "" where there is none)."""

    word: AskWord
    reason: str = ""


def encode_ask(ask: Ask) -> bytes:
    """Return the question as it is sent."""
    return orjson.dumps({"ask": ask.word} | ({"reason": ask.reason} if ask.reason else {}))


def decode_ask(payload: bytes) -> Ask | None:
    """Return the question, or None where it is none that we know; unknown members are ignored."""
    try:
        body = orjson.loads(payload)
    except orjson.JSONDecodeError:
        body = payload.decode(errors="replace").strip()
    if isinstance(body, str):
        body = {"ask": body}
    if not isinstance(body, dict):
        return None
    reason = body.get("reason", "")
    for word in WORDS:
        if body.get("ask") == word:
            return Ask(word, reason if isinstance(reason, str) else "")
    return None
