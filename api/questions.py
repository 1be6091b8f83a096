"""Questions that need the tables: asked on cursors of the one database, in a few threads (floor 3)."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

import duckdb

from events.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from duckdb import DuckDBPyConnection

    from projections.projection import Projection

Answer = TypeVar("Answer")

THREADS = 4
# DuckDB answers a fixed question in 3 to 30 ms, most of it with the interpreter's lock released. More
# threads than this only queue inside DuckDB behind the writer; fewer would let one slow as-of question hold
# up every page.


class Questions:
    """A small pool of threads, each question on a cursor of its own, so that none sees half a transaction.

    DuckDB's errors come out as StoreError: the file may have been moved aside while a question was asked.
    """

    def __init__(self, projection: Projection) -> None:
        self._projection = projection
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="question")

    async def ask(self, question: Callable[[DuckDBPyConnection], Answer]) -> Answer:
        """Return what a function makes of a cursor; its errors come through."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._on_cursor, question)

    async def work(self, work: Callable[[], Answer]) -> Answer:
        """Return what a function without a cursor makes, off the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        """Let running questions end and take no more; closing twice is fine."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _on_cursor(self, question: Callable[[DuckDBPyConnection], Answer]) -> Answer:
        try:
            with closing(self._projection.cursor()) as cursor:
                return question(cursor)
        except duckdb.Error as err:
            raise StoreError(str(self._projection.path), why=str(err)) from err
