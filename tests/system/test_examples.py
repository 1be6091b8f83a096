"""The example programs do what the guide says."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.brokers import AnyBroker
from tests.support.examples import lead
from tests.support.loops import on_a_loop


@on_a_loop
async def test_the_python_example_follows_the_changes_through_everything(
    broker: AnyBroker, tmp_path: Path
) -> None:
    await lead([sys.executable, "docs/examples/follow_changes.py"], broker, tmp_path)
