"""Frames as a broker puts them on the wire, for feeding a parser."""

from __future__ import annotations

from dataclasses import dataclass

ACK = b"$JS.ACK.S.c.1."
SID = 7


@dataclass(frozen=True, slots=True)
class Sent:
    """One record and the numbers in its reply subject."""

    subject: bytes
    payload: bytes
    stream_seq: int
    consumer_seq: int
    stored_at_ns: int = 1_700_000_000_000_000_000
    pending: int = 0
    headers: bytes = b""

    def frame(self, *, ack: bytes = ACK, sid: int = SID, tail: bytes = b"") -> bytes:
        """Return it as MSG, or as HMSG where it has headers."""
        reply = b"%b%d.%d.%d.%d%b" % (
            ack, self.stream_seq, self.consumer_seq, self.stored_at_ns, self.pending, tail,
        )  # fmt: skip
        body = self.headers + self.payload
        if self.headers:
            sizes = b"%d %d" % (len(self.headers), len(body))
            return b"HMSG %b %d %b %b\r\n%b\r\n" % (self.subject, sid, reply, sizes, body)
        return b"MSG %b %d %b %d\r\n%b\r\n" % (self.subject, sid, reply, len(body), body)

    @property
    def numbers(self) -> tuple[int, int, int, int]:
        return (self.stream_seq, self.consumer_seq, self.stored_at_ns, self.pending)


def status(line: bytes, *, sid: int = SID) -> bytes:
    """Return a message without a reply subject: what a broker tells a consumer."""
    headers = b"NATS/1.0 %b\r\n\r\n" % line
    return b"HMSG _INBOX.x %d %d %d\r\n%b\r\n" % (sid, len(headers), len(headers), headers)
