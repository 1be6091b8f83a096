"""The streams that an answer speaks of, and how long one waits for a position in them (floor 3, pure)."""

from __future__ import annotations

from datetime import timedelta

from events.streams import BEATS_NAME, FLEET_NAME

READ_STREAMS = (FLEET_NAME, BEATS_NAME)
MIN_SEQ_WITHIN = timedelta(seconds=5)
# Longer than any commit takes with the reader up to date (under 1 s), shorter than the time-outs of usual
# clients and proxies (10 to 30 s), so that the caller reads our problem and not theirs.
