"""The stable words for what was wrong with a record (floor 1, pure).

Reasons say why a body could not be read at all; warnings say what was changed in one that could. Both reach
the tables, the counters and the API under these spellings.
"""

from __future__ import annotations

from dataclasses import dataclass

NOT_JSON = "not_json"
NOT_UTF8 = "not_utf8"
DUPLICATE_KEY = "duplicate_key"
NOT_AN_OBJECT = "not_an_object"
NOT_AN_EVENT = "not_an_event"
BAD_TYPE = "bad_type"
MISSING = "missing"
SUBJECT_MISMATCH = "subject_mismatch"
OVERSIZED = "oversized"
INVALID_SUBJECT = "invalid_subject"
TOO_DEEP = "too_deep"

REASONS = (
    NOT_JSON,
    NOT_UTF8,
    DUPLICATE_KEY,
    NOT_AN_OBJECT,
    NOT_AN_EVENT,
    BAD_TYPE,
    MISSING,
    SUBJECT_MISMATCH,
    OVERSIZED,
    INVALID_SUBJECT,
    TOO_DEEP,
)

NOT_REPORTED = "not_reported"
NEGATIVE_AMOUNT = "negative_amount"
AMOUNT_OUT_OF_RANGE = "amount_out_of_range"
TRUNCATED = "truncated"
TIME_OUT_OF_RANGE = "time_out_of_range"
PROTECTED_LABEL = "protected_label"

WARNINGS = (
    NOT_REPORTED,
    NEGATIVE_AMOUNT,
    AMOUNT_OUT_OF_RANGE,
    TRUNCATED,
    TIME_OUT_OF_RANGE,
    PROTECTED_LABEL,
)


@dataclass(frozen=True, slots=True)
class FactWarning:
    """One thing about a readable record that was not as it should be: `code` is one of WARNINGS."""

    code: str
    field: str
    detail: str = ""
