"""The operations of the service, independent of HTTP."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ..errors import ParquetBloomError
from ..lake.expression_keys import find_value_type
from ..lake.index_manifest import list_lake_roots
from ..lake.index_reports import AppendReport, Candidate
from ..lake.lake_files import OUTSIDE, LakeListing
from ..lake.lake_index import LakeIndex
from ..predicate.key_expression import KeyExpression
from ..storage import is_local
from .error_responses import ApiError, change_error, encode_json, hide_index_path, lookup_error
from .metrics import Metrics
from .request_body import Budget, check_timezone, parse_body, parse_literals, parse_text_literal
from .request_guards import AllowedPaths
from .served_rows import GetQuery, RowLookups, rows_error
from .service_settings import Settings

if TYPE_CHECKING:
    from ..util.given_types import FileSystem

R = TypeVar("R")


class BoundedExecutor:
    """A thread pool with a bounded queue.

    Parameters
    ----------
    name : name of the threads.
    threads : number of threads.
    waiting : maximum number of waiting tasks.
    full : makes the error that rejects further tasks.

    Attributes
    ----------
    taken : number of running and waiting tasks.
    """

    def __init__(self, name: str, threads: int, waiting: int, full: Callable[[], ApiError]):
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._max_tasks = threads + waiting
        self._full = full
        self.taken = 0

    async def run(
        self, function: Callable[[], R], seconds: float, late: Callable[[], ApiError], cancel_running: bool = True
    ) -> R:
        """Run a function in a thread, and return its result or raise its exception.

        Parameters
        ----------
        function : the function.
        seconds : timeout.
        late : makes the error for a timeout. The thread cannot be stopped: it counts as taken until it is done.
        cancel_running : if False, the timeout applies only while the task is queued.
        """
        if self.taken >= self._max_tasks:
            raise self._full()
        self.taken += 1
        future = self._pool.submit(function)
        done = asyncio.wrap_future(future)
        done.add_done_callback(self._leave)
        try:
            return await asyncio.wait_for(asyncio.shield(done), seconds)
        except TimeoutError:
            if done.done() and not done.cancelled():
                return done.result()
            if future.cancel() or cancel_running:
                raise late() from None
            return await asyncio.shield(done)

    def _leave(self, done: asyncio.Future[R]) -> None:
        self.taken -= 1
        if not done.cancelled():
            done.exception()  # mark the exception as retrieved, as nothing may be waiting for it any more

    def close(self) -> None:
        """Cancel waiting tasks, and wait for running ones."""
        self._pool.shutdown(wait=True, cancel_futures=True)


_BATCH_VALUES = 1_000  # values looked up before the candidates are counted
_MAX_INLINE_BODY = 65_536  # bytes of a body that are parsed fast enough for the event loop


class _LookupAnswer(NamedTuple):
    """The encoded response to a lookup, and what metrics count of it."""

    body: bytes
    num_values: int
    num_candidates: int
    num_doubts: int


class Service:
    """An open index, with the threads that query and change it.

    Attributes
    ----------
    index : the index; each lookup uses its state at that time.
    settings : limits of the service.
    budget : budget of request bodies.
    metrics : counts of what the service has done; changed on the event loop only.
    """

    def __init__(self, index: LakeIndex, settings: Settings, lake_filesystem: FileSystem | None = None):
        self.index = index
        self.settings = settings
        self.budget = Budget(settings)
        self.metrics = Metrics()
        self._filesystem = lake_filesystem
        self._confine()
        self._refreshed = time.monotonic()
        self._problem: str | None = None
        self._stopping = threading.Event()
        waiting = settings.lookups_waiting
        self._lookups = BoundedExecutor("lookup", settings.lookup_threads, waiting, lambda: _busy("requests"))
        self._gets = BoundedExecutor("get", settings.row_threads, settings.rows_waiting, lambda: _busy("requests"))
        self._rows = RowLookups(index, settings)
        self._bodies = BoundedExecutor("body", 1, waiting, lambda: _busy("large requests"))
        self._changes = BoundedExecutor("change", 1, settings.changes_waiting, _changing)

    def stop(self) -> None:
        """Stop a running change at its next file."""
        self._stopping.set()

    def close(self) -> None:
        """Wait for running requests, and close the index."""
        self.stop()
        for executor in (self._bodies, self._lookups, self._gets, self._changes):
            executor.close()
        self.index.close()

    async def parse(self, data: bytes) -> dict[str, object]:
        """Parse a body; large ones are parsed in a thread, one at a time, so that other requests do not wait."""
        if len(data) <= _MAX_INLINE_BODY:
            return parse_body(data, self.settings.max_values)
        seconds = self.settings.body_seconds
        return await self._bodies.run(
            lambda: parse_body(data, self.settings.max_values), seconds, lambda: _late(seconds)
        )

    # ------------------------------------------------------------------------------------------------------- queries

    async def lookup(self, column: str, values: list[object], timezone: str) -> bytes:
        """Return the encoded response to `POST /lookup`."""
        return self._count(await self._query(lambda: self._lookup(column, parse_literals(values), timezone)))

    async def lookup_text(self, column: str, text: str, type_name: str | None, timezone: str) -> bytes:
        """Return the encoded response to `GET /lookup`."""

        def look_up() -> _LookupAnswer:
            indexed = self.index.state.find_column(column)
            parts = [part.info for segment in self.index.state.segments for part in segment.parts]
            kinds = {info.column_type.kind for info in parts if info.column == indexed}
            if isinstance(indexed, KeyExpression):
                kinds = {find_value_type(indexed).kind}
            return self._lookup(column, [parse_text_literal(text, type_name, kinds)], timezone)

        return self._count(await self._query(look_up))

    def _count(self, answer: _LookupAnswer) -> bytes:
        self.metrics.lookups.add()
        self.metrics.values.add(answer.num_values)
        self.metrics.candidates.add(answer.num_candidates)
        self.metrics.doubts.add(answer.num_doubts)
        return answer.body

    def _lookup(self, column: str, literals: list[object], timezone: str) -> _LookupAnswer:
        check_timezone(timezone)
        state, max_candidates = self.index.state, self.settings.max_candidates
        if len(state.live.unindexed) * len(literals) > max_candidates:
            raise _too_many(max_candidates)
        positions: dict[tuple[type, object], int] = {}
        order = [positions.setdefault((type(literal), literal), len(positions)) for literal in literals]
        distinct = [literal for _, literal in positions]  # 1 and 1.0 are distinct
        state.require_comparable(column, distinct)
        distinct_candidates: list[list[dict[str, object]]] = []
        doubts: dict[str, None] = {}
        num_candidates = 0
        for first in range(0, len(distinct) or 1, _BATCH_VALUES):
            answers = state.lookup(column, distinct[first : first + _BATCH_VALUES], timezone, self.index.remote)
            num_candidates += sum(map(len, answers))
            if num_candidates > max_candidates:
                raise _too_many(max_candidates)
            doubts.update(dict.fromkeys(answers.doubts))
            distinct_candidates += [[_encode_candidate(candidate) for candidate in found] for found in answers]
        results = [{"candidates": distinct_candidates[i]} for i in order]
        num_candidates = sum(len(distinct_candidates[i]) for i in order)
        if num_candidates > max_candidates:
            raise _too_many(max_candidates)
        number = state.manifest.number
        texts = [hide_index_path(doubt, self.index.path) for doubt in doubts]
        body = encode_json({"version": number, "column": column, "results": results, "doubts": texts})
        return _LookupAnswer(body, len(literals), num_candidates, len(texts))

    async def get(self, query: GetQuery) -> bytes:
        """Return the encoded response to `POST /get`."""
        if not self.settings.rows:
            raise ApiError(403, "the service gives no rows: it was started without --rows")

        def get() -> tuple[bytes, int]:
            try:
                return self._rows.read(query, self._stopping.is_set)
            except ParquetBloomError as error:
                raise rows_error(error, self.index.path) from error

        seconds = self.settings.lookup_seconds
        body, num_rows = await self._gets.run(get, seconds, lambda: _late(seconds))
        self.metrics.gets.add()
        self.metrics.keys.add(len(query.keys))
        self.metrics.rows.add(num_rows)
        return body

    async def stats(self) -> dict[str, object]:
        return (await self._query(self.index.stats)).to_dict()

    def health(self) -> dict[str, object]:
        """Return the state of the service without waiting for a thread, so that it is available under load."""
        state = self.index.state
        return {
            **self.status(),
            "version": state.manifest.number,
            "files": state.manifest.num_files,
            "unindexed": len(state.live.unindexed) if state.live.listed else None,
            "changes": self._changes.taken,
            "read_only": self.settings.read_only,
            "rows": self.settings.rows,
            "refreshed_seconds_ago": round(time.monotonic() - self._refreshed, 3),
            "refresh_problem": self._problem,
        }

    def status(self) -> dict[str, object]:
        """Return what everyone may know of the state of the service."""
        return {"status": "stopping" if self._stopping.is_set() else "ok"}

    def encode_metrics(self) -> bytes:
        """Return the metrics as text, without waiting for a thread."""
        state = self.index.state
        unindexed = len(state.live.unindexed) if state.live.listed else None
        num_bytes = sum(segment.num_bytes for segment in state.manifest.segments)
        waiting = "running and waiting"
        gauges: dict[str, tuple[str, float | None]] = {
            "index_version": ("Version of the index, which each change of it increases.", state.manifest.number),
            "index_files": ("Indexed files.", state.manifest.num_files),
            "index_unindexed_files": ("Files of the lake that are not indexed: each lookup names them.", unindexed),
            "index_bytes": ("Bytes of the index, without its lists of files.", num_bytes),
            "lookups_in_progress": (f"Lookups {waiting}.", self._lookups.taken),
            "gets_in_progress": (f"Requests for rows {waiting}.", self._gets.taken),
            "changes_in_progress": (f"Changes and refreshes {waiting}.", self._changes.taken),
            "refresh_age_seconds": ("Seconds since the last refresh or change.", time.monotonic() - self._refreshed),
            "refresh_failed": ("1 if the last refresh failed.", int(self._problem is not None)),
        }
        return self.metrics.encode(gauges)

    def count_refusal(self, status: int) -> None:
        """Count an answer to what is not a valid HTTP request."""
        self.metrics.requests.add(1, "none", "none", str(status))

    async def _query(self, function: Callable[[], R]) -> R:
        def query() -> R:
            try:
                return function()
            except ParquetBloomError as error:
                raise lookup_error(error, self.index.path) from error

        seconds = self.settings.lookup_seconds
        return await self._lookups.run(query, seconds, lambda: _late(seconds))

    # ------------------------------------------------------------------------------------------------------- changes

    async def append(self, files: list[str] | None, skip_unreadable: bool) -> dict[str, object]:
        def append() -> tuple[AppendReport, int]:
            lake = self.index.state.manifest.lake
            if files is None and not lake:
                raise ApiError(422, "files: required, as the index has no recorded lake")
            listing = None
            if files is not None:
                allowed = AllowedPaths([*list_lake_roots(lake), *self.settings.roots])
                entries = allowed.find_files(files, self._filesystem)
                # Files alone: a folder would be part of the lake from now on, and allowed after a restart.
                listing = LakeListing(entries, named=frozenset(entry.path for entry in entries))
            report = self.index.append(
                listing,
                progress=self._progress(),
                on_error=(lambda error: None) if skip_unreadable else None,
            )
            self._mark_fresh()
            return report, self.index.snapshot().version

        report, version = await self._change(append)
        self.metrics.appended.add(report.indexed)
        return {"version": version} | report.to_dict()

    async def remove(self, files: list[str]) -> dict[str, object]:
        def remove() -> tuple[int, int]:
            for path in files:
                if is_local(self._filesystem, [path]) and (path[:1] != "/" or ".." in path.split("/")):
                    raise ApiError(404, f"files: the index has no {path[:200]!r}: files are named as it names them")
            count = self.index.remove(files)
            self._mark_fresh()
            return count, self.index.snapshot().version

        count, version = await self._change(remove)
        self.metrics.removed.add(count)
        return {"version": version, "removed": count}

    async def refresh(self) -> dict[str, object]:
        def refresh() -> dict[str, object]:
            try:
                self.index.refresh(self._progress())
            except ParquetBloomError as error:
                self._problem = hide_index_path(str(error), self.index.path)
                raise
            self._mark_fresh()
            state = self.index.state
            unindexed = len(state.live.unindexed) if state.live.listed else None
            return {"version": state.manifest.number, "files": state.manifest.num_files, "unindexed": unindexed}

        try:
            document = await self._change(refresh, changes=False)
        except ApiError:
            self.metrics.refreshes.add(1, "failed")
            raise
        self.metrics.refreshes.add(1, "ok")
        return document

    async def keep_fresh(self) -> None:
        """Refresh periodically, for ever; /health reports a failed refresh, and the next one tries again."""
        while self.settings.refresh_seconds is not None:
            await asyncio.sleep(self.settings.refresh_seconds)
            with suppress(ApiError):
                await self.refresh()

    async def _change(self, function: Callable[[], R], changes: bool = True) -> R:
        if changes and self.settings.read_only:
            raise ApiError(403, "the service is read-only")

        def change() -> R:
            if self._stopping.is_set():
                raise _stopped()
            try:
                return function()
            except ParquetBloomError as error:
                raise change_error(error, self.index.path) from error

        return await self._changes.run(change, self.settings.change_seconds, _changing, cancel_running=False)

    def _progress(self) -> Callable[[int, int], None]:
        """Make a progress function of a change that ends it, leaving the index unchanged, after its timeout."""
        end = time.monotonic() + self.settings.change_seconds

        def progress(done: int, total: int) -> None:
            if self._stopping.is_set():
                raise _stopped()
            if time.monotonic() > end:
                raise _late(self.settings.change_seconds)

        return progress

    def _confine(self) -> None:
        """Open files of the lake's folders, and of the allowed roots, only if no link leads out of these."""
        lake = self.index.state.manifest.lake
        roots = [] if OUTSIDE in lake else list_lake_roots(lake)
        self.index.confine(AllowedPaths([*roots, *self.settings.roots]).folders)

    def _mark_fresh(self) -> None:
        self._confine()
        self._rows.reset()
        self._refreshed, self._problem = time.monotonic(), None


def version() -> str:
    return str(sys.modules[__name__.partition(".")[0]].__version__)


def _busy(what: str) -> ApiError:
    return ApiError(429, f"too many {what} are waiting", headers={"retry-after": "1"})


def _changing() -> ApiError:
    return ApiError(409, "other changes of the index are being made", headers={"retry-after": "5"})


def _late(seconds: float) -> ApiError:
    return ApiError(503, f"timed out after {seconds:g} seconds", headers={"retry-after": "5"})


def _stopped() -> ApiError:
    return ApiError(503, "the service is stopping; the index is unchanged")


def _encode_candidate(candidate: Candidate) -> dict[str, object]:
    """Return a candidate as `CandidateModel` describes it; rows are left out where there are none."""
    encoded = candidate.to_dict()
    if candidate.rows is None:
        del encoded["rows"]
    return encoded


def _too_many(max_candidates: int) -> ApiError:
    return ApiError(
        422, f"values: the response would list more than {max_candidates:,} files; look up fewer values at a time"
    )
