"""What the service does, whichever way it is asked."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Any, TypeVar

from ..errors import ParquetBloomError
from ..lake.index import LakeIndex
from .errors import ApiError, change_error, encode_json, hide_index_path, lookup_error
from .limits.allowed_paths import AllowedPaths, lake_roots
from .limits.request_body import Budget, parse_body
from .limits.workers import BoundedExecutor
from .settings import Settings
from .values import check_timezone, parse_literals, parse_text_literal

R = TypeVar("R")

_AT_A_TIME = 1_000  # values, after which the candidates are counted
_IN_THE_LOOP = 65_536  # bytes of a body that are parsed so quickly that nobody has to wait for it


class Service:
    """An index, open, with the threads that ask and change it.

    Attributes
    ----------
    index : the index; lookups are answered from its state as it is then.
    settings : its bounds.
    budget : of bodies.
    """

    def __init__(self, index: LakeIndex, settings: Settings, lake_filesystem: object | None = None):
        self.index = index
        self.settings = settings
        self.budget = Budget(settings)
        self._filesystem = lake_filesystem
        self._refreshed = time.monotonic()
        self._problem: str | None = None
        self._stopping = threading.Event()
        waiting = settings.lookups_waiting
        self._lookups = BoundedExecutor("lookup", settings.lookup_threads, waiting, lambda: _busy("requests"))
        self._bodies = BoundedExecutor("body", 1, waiting, lambda: _busy("large requests"))
        self._changes = BoundedExecutor("change", 1, settings.changes_waiting, _changing)

    def stop(self) -> None:
        """Give up what is being changed, at the next file."""
        self._stopping.set()

    def close(self) -> None:
        """Wait for what has begun, and let go of the index."""
        self.stop()
        for lane in (self._bodies, self._lookups, self._changes):
            lane.close()
        self.index.close()

    async def parse(self, data: bytes) -> Any:
        """What a body says; large ones are parsed one at a time, and nobody else waits for it."""
        if len(data) <= _IN_THE_LOOP:
            return parse_body(data, self.settings.max_values)
        seconds = self.settings.body_seconds
        return await self._bodies.run(
            lambda: parse_body(data, self.settings.max_values), seconds, lambda: _late(seconds)
        )

    # ------------------------------------------------------------------------------------------------------- asking

    async def lookup(self, column: str, values: list[Any], timezone: str) -> bytes:
        """The answer to `POST /lookup`, encoded."""
        return await self._ask(lambda: self._found(column, parse_literals(values), timezone))

    async def lookup_text(self, column: str, text: str, type_name: str | None, timezone: str) -> bytes:
        """The answer to `GET /lookup`, encoded."""

        def found() -> bytes:
            parts = [part.info for segment in self.index.state.segments for part in segment.parts]
            kinds = {info.column_type.kind for info in parts if info.column == column}
            return self._found(column, [parse_text_literal(text, type_name, kinds)], timezone)

        return await self._ask(found)

    def _found(self, column: str, literals: list[Any], timezone: str) -> bytes:
        check_timezone(timezone)
        state, most = self.index.state, self.settings.max_candidates
        if len(state.live.unindexed) * len(literals) > most:
            raise _too_many(most)
        place: dict[Any, int] = {}
        asked = [place.setdefault((type(literal), literal), len(place)) for literal in literals]
        once = [literal for _, literal in place]  # each value is looked up once; 1 and 1.0 are two
        found: list[dict[str, Any]] = []
        doubts: dict[str, None] = {}
        named = 0
        for first in range(0, len(once) or 1, _AT_A_TIME):
            answers = state.lookup(column, once[first : first + _AT_A_TIME], timezone, self.index.remote)
            named += sum(map(len, answers))
            if named > most:
                raise _too_many(most)
            doubts.update(dict.fromkeys(answers.doubts))
            found += [{"candidates": [candidate._asdict() for candidate in some]} for some in answers]
        results = [found[at] for at in asked]
        if sum(len(one["candidates"]) for one in results) > most:
            raise _too_many(most)
        number = state.manifest.number
        told = [hide_index_path(doubt, self.index.path) for doubt in doubts]
        return encode_json({"version": number, "column": column, "results": results, "doubts": told})

    async def stats(self) -> dict[str, Any]:
        found = await self._ask(self.index.stats)
        return asdict(found) | {"bytes_a_value": found.bytes_a_value}

    def health(self) -> dict[str, Any]:
        """How it is, asked of nobody: answered however much there is to do."""
        state = self.index.state
        return {
            "status": "stopping" if self._stopping.is_set() else "ok",
            "version": state.manifest.number,
            "files": state.manifest.num_files,
            "unindexed": len(state.live.unindexed) if state.live.judged else None,
            "changes": self._changes.taken,
            "read_only": self.settings.read_only,
            "refreshed_seconds_ago": round(time.monotonic() - self._refreshed, 3),
            "refresh_problem": self._problem,
        }

    async def _ask(self, function: Callable[[], R]) -> R:
        def asked() -> R:
            try:
                return function()
            except ParquetBloomError as error:
                raise lookup_error(error, self.index.path) from error

        seconds = self.settings.lookup_seconds
        return await self._lookups.run(asked, seconds, lambda: _late(seconds))

    # ------------------------------------------------------------------------------------------------------- changes

    async def append(self, files: list[str] | None, skip_unreadable: bool) -> dict[str, Any]:
        def append() -> dict[str, Any]:
            lake = self.index.state.manifest.lake
            if files is None and not lake:
                raise ApiError(422, "files: the index knows of no lake of its own, so that files have to be named")
            chosen = None
            if files is not None:
                chosen = AllowedPaths([*lake_roots(lake), *self.settings.roots]).check(files, self._filesystem)
            report = self.index.append(
                chosen,
                progress=self._progress(),
                on_error=(lambda error: None) if skip_unreadable else None,
            )
            self._is_fresh()
            told = asdict(report) | {"failed": {path: str(error) for path, error in report.failed.items()}}
            return {"version": self.index.snapshot().version} | told

        return await self._change(append)

    async def remove(self, files: list[str]) -> dict[str, Any]:
        def remove() -> dict[str, Any]:
            count = self.index.remove(files)
            self._is_fresh()
            return {"version": self.index.snapshot().version, "removed": count}

        return await self._change(remove)

    async def refresh(self) -> dict[str, Any]:
        def refresh() -> dict[str, Any]:
            try:
                self.index.refresh(self._progress())
            except ParquetBloomError as error:
                self._problem = hide_index_path(str(error), self.index.path)
                raise
            self._is_fresh()
            state = self.index.state
            unindexed = len(state.live.unindexed) if state.live.judged else None
            return {"version": state.manifest.number, "files": state.manifest.num_files, "unindexed": unindexed}

        return await self._change(refresh, changes=False)

    async def keep_fresh(self) -> None:
        """Refresh every so often, for ever; what goes wrong is told by /health, and tried again."""
        while self.settings.refresh_seconds is not None:
            await asyncio.sleep(self.settings.refresh_seconds)
            with suppress(ApiError):
                await self.refresh()

    async def _change(self, function: Callable[[], R], changes: bool = True) -> R:
        if changes and self.settings.read_only:
            raise ApiError(403, "the service is read-only")

        def changed() -> R:
            if self._stopping.is_set():
                raise _stopped()
            try:
                return function()
            except ParquetBloomError as error:
                raise change_error(error, self.index.path) from error

        return await self._changes.run(changed, self.settings.change_seconds, _changing, ends=False)

    def _progress(self) -> Callable[[int, int], None]:
        """What a change calls after each file: it ends it when its time is over. The index is then what it was."""
        end = time.monotonic() + self.settings.change_seconds

        def progress(done: int, total: int) -> None:
            if self._stopping.is_set():
                raise _stopped()
            if time.monotonic() > end:
                raise _late(self.settings.change_seconds)

        return progress

    def _is_fresh(self) -> None:
        self._refreshed, self._problem = time.monotonic(), None


def version() -> str:
    """The package's."""
    return str(sys.modules[__name__.partition(".")[0]].__version__)


def _busy(what: str) -> ApiError:
    return ApiError(429, f"too many {what} are waiting", headers={"retry-after": "1"})


def _changing() -> ApiError:
    return ApiError(409, "other changes of the index are being made", headers={"retry-after": "5"})


def _late(seconds: float) -> ApiError:
    return ApiError(503, f"given up after {seconds:g} seconds", headers={"retry-after": "5"})


def _stopped() -> ApiError:
    return ApiError(503, "the service is stopping; the index is what it was")


def _too_many(most: int) -> ApiError:
    return ApiError(
        422, f"values: the answer would name files more than {most:,} times; ask for fewer values at a time"
    )
