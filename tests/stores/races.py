"""Embedding in place while another writer replaces the object between two requests, and what became of both writes."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

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


class Versions(NamedTuple):
    """The bytes that may be there: as it was, as the other writer leaves it, and what becomes of each by ours."""

    old: bytes
    theirs: bytes
    ours: bytes
    ours_of_theirs: bytes


class Moment(NamedTuple):
    """Time and target of the other writer's change.

    Attributes
    ----------
    size : of the object: "large" ones are written by copies of parts, the others by one PUT; a "tiny" one is read at
        once.
    in_parts : whether the old object was uploaded in parts, which gives it an etag of another kind.
    new_bucket : whether the bucket has had no requests yet.
    shorter : whether the other writer's object has another length than the old one.
    number, after : the request before which, or after whose answer; -2 is never.
    writes : whether that request, in a call that nobody disturbs, writes the object or a part of it.
    """

    size: str
    in_parts: bool = False
    new_bucket: bool = False
    shorter: bool = False
    number: int = -2
    after: bool = False
    writes: bool = False


class Field:
    """Races on one store, through one proxy."""

    def __init__(self, store: Store, proxy: Proxy, folder: Path) -> None:
        self.store, self.proxy, self._folder = store, proxy, folder
        self._bucket = store.create_bucket()
        self._names = itertools.count()
        self._versions: dict[tuple[str, bool], Versions] = {}

    def versions(self, size: str, shorter: bool = False) -> Versions:
        """What may be there; embedding into both on disk gives the same bytes as in a store."""
        if (size, shorter) not in self._versions:
            both = parquet(size, 1), parquet(size, 3, PAYLOAD - 8) if shorter else parquet(size, 2)
            path, made = self._folder / "embedded.parquet", []
            for data in both:
                path.write_bytes(data)
                parquet_bloom.embed(path, ["id"])
                made.append(path.read_bytes())
            self._versions[size, shorter] = Versions(*both, *made)
        return self._versions[size, shorter]

    def moments(self) -> list[Moment]:
        """Every moment of a call that nobody disturbs, with each length of the other writer's object."""
        every = []
        for (size, in_parts), new_bucket in itertools.product(OBJECTS, (False, True)):
            if not new_bucket:
                self.play(Moment(size, in_parts))  # from here on the bucket is known
            calm = Moment(size, in_parts, new_bucket)
            self.play(calm)
            every += [
                calm._replace(shorter=shorter, number=number, after=after, writes=operation in WRITES)
                for number, operation in enumerate(self.operations())
                for shorter, after in itertools.product((False, True), repeat=2)
            ]
        return every

    def operations(self) -> list[str]:
        """List the operations on objects of the last call."""
        return [request.operation for request in self.proxy.log if request.key]

    def play(self, moment: Moment, embed: Callable[[str, dict[str, str]], Any] | None = None) -> tuple[bool, bool]:
        """Play a race, in which nothing may get lost; returns whether the call wrote, and whether the other came."""
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
            (embed or _embed)(store.url(bucket, key), store.options(proxy.endpoint))
        except ParquetBloomError as caught:
            error = caught
        proxy.settle()
        written = any(
            request.key == key and request.operation in WRITES and 200 <= request.status < 300 for request in proxy.log
        )
        final = store.get(bucket, key)
        store.client.delete_object(Bucket=bucket, Key=key)
        judge(versions, final, seen, written, error)
        return error is None, bool(seen)


def judge(
    versions: Versions, final: bytes | None, seen: list[bytes | None], written: bool, error: ParquetBloomError | None
) -> None:
    """Assert that a race ended well.

    Parameters
    ----------
    final : the object after the call.
    seen : what the other writer replaced, if it came.
    written : whether the call made a request that writes the object or a part of it, with success.
    """
    assert final in versions, "MIXED: no version that anybody wrote"
    if not seen:
        assert (final == versions.ours) == (error is None), f"FALSE: {error}"
        assert error is None or not written, "refused by the store, after something was written"
        assert not isinstance(error, ConcurrentChangeError), "said that another writer came, and none did"
        return
    assert seen[0] in (versions.old, versions.ours), "MIXED: no version that anybody wrote"
    assert final in (versions.theirs, versions.ours_of_theirs), "LOST: the other writer's object is gone"
    if final == versions.ours_of_theirs:
        assert error is None, f"FALSE: {error}"
    elif error is None:  # they came after ours
        assert seen[0] == versions.ours, "FALSE: said to be done, and nothing was written"


def run(field: Field, races: int, *, at_writes: bool = False) -> None:
    """Play so many races, all moments alike, or only those around the requests that write, if there are some.

    A moment that never comes, since a call made fewer requests, does not count.
    """
    every = field.moments()
    if at_writes:
        every = [moment for moment in every if moment.writes and not moment.new_bucket] or every
    chosen = min(races, len(every))
    order = itertools.cycle(every[index * len(every) // chosen] for index in range(chosen))
    played = 0
    for moment in itertools.islice(order, 3 * races):
        try:
            played += field.play(moment)[1]
        except AssertionError as error:
            error.add_note(f"{field.store.version()}: {moment}")
            raise
        if played == races:
            return
    raise AssertionError(f"only {played} races of {races} could be played")


def _embed(url: str, options: dict[str, str]) -> None:
    parquet_bloom.embed(url, ["id"], storage_options=options)
