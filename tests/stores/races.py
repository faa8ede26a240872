"""Embedding in place while another writer replaces the object between two requests, and what became of both writes.

A race is one call with the replacement at one moment: before the n-th request or after its answer. `play`
says in a word how it ended; the words of `GOOD` are all that the promise allows.
"""

from __future__ import annotations

import io
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from proxy import Proxy
from servers import Store
from support.servers.s3_server import WRITES

import parquet_bloom
from parquet_bloom.errors import ConcurrentChangeError, ParquetBloomError

ROWS = {"tiny": 80, "small": 1_000, "large": 11_000}
OBJECTS = (("tiny", False), ("small", False), ("large", False), ("large", True))
PAYLOAD = 500

REFUSED = "refused, nothing written"
REFUSED_LATE = "refused for the other writer"
OURS = "ours"
THEIRS_LATER = "theirs, after ours"
OURS_OF_THEIRS = "ours, made of theirs"
GOOD = frozenset((REFUSED, REFUSED_LATE, OURS, THEIRS_LATER, OURS_OF_THEIRS))

LOST = "LOST: the other writer's object is gone"
MIXED = "MIXED: no version that anybody wrote"
FALSE_SUCCESS = "FALSE: said to be done, and nothing was written"
FALSE_FAILURE = "FALSE: said to have failed, and was written"
FALSE_ALARM = "FALSE: said that another writer came, and none did"
WRITTEN_FIRST = "refused by the store, after something was written"


def parquet(size: str, seed: int, payload: int = PAYLOAD) -> bytes:
    """Write a file: two of one size have the same footer and differ in every page, so that a mixture reads well."""
    rng = np.random.default_rng(seed)
    rows = ROWS[size]
    noise = pa.py_buffer(rng.bytes(rows * payload))
    bulk = pa.FixedSizeBinaryArray.from_buffers(pa.binary(payload), rows, [None, noise])
    sink = io.BytesIO()
    plain = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    pq.write_table(pa.table({"id": rng.choice(10**9, rows, replace=False), "bulk": bulk}), sink, **plain)
    return sink.getvalue()


@dataclass(frozen=True)
class Versions:
    """The bytes that may stand there: as it was, as the other writer leaves it, and what becomes of each by ours."""

    old: bytes
    theirs: bytes
    ours: bytes
    ours_of_theirs: bytes

    @classmethod
    def make(cls, old: bytes, theirs: bytes, folder: Path) -> Versions:
        """Embed into both on disk, which gives the same bytes as in a store."""

        def embedded(data: bytes) -> bytes:
            path = folder / "embedded.parquet"
            path.write_bytes(data)
            parquet_bloom.embed(path, ["id"])
            return path.read_bytes()

        return cls(old, theirs, embedded(old), embedded(theirs))


@dataclass(frozen=True)
class Moment:
    """Time and target of the other writer's change.

    Attributes
    ----------
    size : of the object: "large" ones are written by copies of parts, the others by one PUT; a "tiny" one is read at
        once.
    in_parts : whether the old object was uploaded in parts, which gives it an etag of another kind.
    new_bucket : whether the bucket has had no requests yet.
    shorter : whether the other writer's object has another length than the old one.
    number, after : the request before which, or after whose answer.
    writes : whether that request, in a call that nobody disturbs, writes the object or a part of it.
    """

    size: str
    in_parts: bool
    new_bucket: bool
    shorter: bool
    number: int
    after: bool
    writes: bool = False


class Field:
    """Races on one store, through one proxy.

    Attributes
    ----------
    outcomes : how often each has come.
    bad : what the moment was of each that is not good, with the error if there was one.
    """

    def __init__(self, store: Store, proxy: Proxy, folder: Path) -> None:
        self.store, self.proxy = store, proxy
        self.outcomes: Counter[str] = Counter()
        self.bad: list[tuple[str, Moment, str]] = []
        self._bucket = store.create_bucket()
        self._names = itertools.count()
        self._versions = {}
        for size in ROWS:
            old, same = parquet(size, 1), parquet(size, 2)
            assert len(old) == len(same)
            shorter = parquet(size, 3, PAYLOAD - 8)
            self._versions[size, False] = Versions.make(old, same, folder)
            self._versions[size, True] = Versions.make(old, shorter, folder)

    def versions(self, size: str, shorter: bool = False) -> Versions:
        """Return what may stand there."""
        return self._versions[size, shorter]

    def moments(self) -> list[Moment]:
        """Every moment of a call that nobody disturbs, with each length of the other writer's object."""
        every = []
        for (size, in_parts), new_bucket in itertools.product(OBJECTS, (False, True)):
            if not new_bucket:
                self.requests(size, in_parts, new_bucket)  # from here on the bucket is known
            requests = self.requests(size, in_parts, new_bucket)
            every += [
                Moment(size, in_parts, new_bucket, shorter, number, after, operation in WRITES)
                for shorter in (False, True)
                for number, operation in enumerate(requests)
                for after in (False, True)
            ]
        return every

    def requests(self, size: str, in_parts: bool, new_bucket: bool) -> list[str]:
        """List the operations on objects of a call without a race, which has to end well too."""
        self.race(Moment(size, in_parts, new_bucket, False, -2, False))
        return [request.operation for request in self.proxy.log if request.key]

    def race(self, moment: Moment, embed: Callable[[str, dict[str, str]], Any] | None = None) -> bool:
        """Play one and count its outcome; whether the other writer came."""
        outcome, came, error = self.play(moment, embed or _embed)
        self.outcomes[outcome] += 1
        if outcome not in GOOD:
            self.bad.append((outcome, moment, f"{type(error).__name__}: {error}" if error else ""))
        return came

    def play(
        self, moment: Moment, embed: Callable[[str, dict[str, str]], Any]
    ) -> tuple[str, bool, ParquetBloomError | None]:
        """Play one; returns its outcome, whether the other writer came, and the error."""
        store, proxy = self.store, self.proxy
        versions = self.versions(moment.size, moment.shorter)
        bucket = store.create_bucket() if moment.new_bucket else self._bucket
        key = f"lake/{next(self._names)}.parquet"
        (store.put_in_parts if moment.in_parts else store.put)(bucket, key, versions.old)
        seen: list[bytes | None] = []

        def replace() -> None:
            seen.append(store.get(bucket, key))
            store.put(bucket, key, versions.theirs)

        proxy.clear()
        proxy.at(moment.number, replace, after=moment.after)
        error = None
        try:
            embed(store.url(bucket, key), store.options(proxy.endpoint))
        except ParquetBloomError as caught:
            error = caught
        proxy.settle()
        written = any(
            request.key == key and request.operation in WRITES and 200 <= request.status < 300 for request in proxy.log
        )
        outcome = judge(versions, store.get(bucket, key), seen[0] if seen else None, bool(seen), written, error)
        store.client.delete_object(Bucket=bucket, Key=key)
        return outcome, bool(seen), error


def judge(
    versions: Versions,
    final: bytes | None,
    replaced: bytes | None,
    came: bool,
    written: bool,
    error: ParquetBloomError | None,
) -> str:
    """Say how a race ended.

    Parameters
    ----------
    final : the object after the call.
    replaced : what the other writer replaced, if it came.
    written : whether the call made a request that writes the object or a part of it, with success.
    """
    if final not in (versions.old, versions.theirs, versions.ours, versions.ours_of_theirs):
        return MIXED
    if came and replaced not in (versions.old, versions.ours):
        return MIXED
    if not came:
        if final == versions.ours:
            return FALSE_FAILURE if error else OURS
        if error is None:
            return FALSE_SUCCESS
        if isinstance(error, ConcurrentChangeError):
            return FALSE_ALARM
        return WRITTEN_FIRST if written else REFUSED
    if final == versions.ours_of_theirs:
        return FALSE_FAILURE if error else OURS_OF_THEIRS
    if final != versions.theirs:
        return LOST
    if error is None:
        return THEIRS_LATER if replaced == versions.ours else FALSE_SUCCESS
    return REFUSED_LATE if written or isinstance(error, ConcurrentChangeError) else REFUSED


def run(field: Field, races: int, *, at_writes: bool = False) -> None:
    """Play so many races, all moments alike, or only those around the requests that write, if there are some.

    A moment that never comes, since a call made fewer requests, does not count.
    """
    every = field.moments()
    if at_writes:
        every = [moment for moment in every if moment.writes and not moment.new_bucket] or every
    chosen = min(races, len(every))
    order: Iterator[Moment] = itertools.cycle(every[index * len(every) // chosen] for index in range(chosen))
    played = 0
    for moment in itertools.islice(order, 3 * races):
        played += field.race(moment)
        if played == races:
            return
    raise AssertionError(f"only {played} races of {races} could be played")


def _embed(url: str, options: dict[str, str]) -> None:
    parquet_bloom.embed(url, ["id"], storage_options=options)
