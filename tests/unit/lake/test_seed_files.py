"""Files of another program (partition-index), written by a slow twin of it, are read."""

from __future__ import annotations

import random
import struct
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from parquet_bloom.core.hash.siphash import siphash
from parquet_bloom.errors import BrokenIndexError, StorageError
from parquet_bloom.lake.partition_index_files import PartitionIndexFile


def fingerprint(value: int) -> int:
    data = value.to_bytes(8, "little")
    while not (h := siphash(data, 329, 4242432435)) & 0xFFFF:
        data += h.to_bytes(8, "little")
    return h & 0xFFFF


def first_bucket(value: int, num_buckets: int) -> int:
    return siphash(value.to_bytes(8, "little"), 0, 0) % num_buckets


def other_bucket(mark: int, bucket: int, num_buckets: int) -> int:
    return ((siphash(mark.to_bytes(8, "little"), 0, 0) - bucket) % 2**64) % num_buckets


class Program:
    """Reference implementation, value by value: one filter per partition, appended to files at `persist`."""

    def __init__(self, folder: Path, num_buckets: int):
        self.folder, self.num_buckets = folder, num_buckets
        self.rows: list[list[int]] = [[] for _ in range(num_buckets)]
        self.partitions: list[tuple[tuple[int, int] | str, int, bool, int]] = []
        self.random = random.Random(7)

    def add(self, values: range | list[int], name: tuple[int, int] | str, active: bool = True) -> None:
        buckets: list[list[int]] = [[] for _ in range(self.num_buckets)]
        slots = 1
        for value in values:
            mark = fingerprint(value)
            first = first_bucket(value, self.num_buckets)
            second = other_bucket(mark, first, self.num_buckets)
            if mark in buckets[first] or mark in buckets[second]:
                continue
            at = second if len(buckets[second]) < slots else first
            for _ in range(63):
                if len(buckets[at]) < slots:
                    break
                position = self.random.randrange(len(buckets[at]))
                mark, buckets[at][position] = buckets[at][position], mark
                at = other_bucket(mark, at, self.num_buckets)
            else:
                slots += len(buckets[at]) >= slots
            buckets[at].append(mark)
        for row, bucket in zip(self.rows, buckets, strict=True):
            row += bucket + [0] * (slots - len(bucket))
        self.partitions.append((name, slots, active, len(values)))

    def persist(self, tells_values: bool = True) -> None:
        (self.folder / "index").mkdir()
        for number, row in enumerate(self.rows):
            (self.folder / "index" / f"{number:07d}.bucket").write_bytes(struct.pack(f"<{len(row)}H", *row))
        data = struct.pack("<QQQ", self.num_buckets, len(self.rows[0]), len(self.partitions))
        for name, slots, active, num_values in self.partitions:
            if isinstance(name, str):
                data += struct.pack("<Q", len(name.encode())) + name.encode()
            else:
                data += struct.pack("<QQ", *name)
            data += struct.pack("<QB", slots, active) + (struct.pack("<Q", num_values) if tells_values else b"")
        (self.folder / "partitions.data").write_bytes(data)

    def answer(self, value: int) -> list[tuple[int, int] | str]:
        mark, first = fingerprint(value), first_bucket(value, self.num_buckets)
        second = other_bucket(mark, first, self.num_buckets)
        results, location = [], 0
        for name, slots, active, _ in self.partitions:
            if (
                active
                and mark
                in self.rows[first][location : location + slots] + self.rows[second][location : location + slots]
            ):
                results.append(name)
            location += slots
        return results


@pytest.mark.ci
@pytest.mark.parametrize("num_buckets", [1, 38, 101])
@pytest.mark.parametrize("tells_values", [True, False])
@pytest.mark.parametrize("named", [True, False])
def test_files_of_the_program(tmp_path: Path, num_buckets: int, tells_values: bool, named: bool) -> None:
    program = Program(tmp_path, num_buckets)
    start = 0
    for number, size in enumerate([100, 0, 1, 250, 30]):
        name = f"Ordner/Datei ä{number}.parquet" if named else (start, size)
        program.add(range(start, start + size), name, active=number != 4)
        start += size
    program.persist(tells_values)
    index = PartitionIndexFile(str(tmp_path))
    assert [p.name for p in index.partitions] == [p[0] for p in program.partitions]
    assert [p.slots for p in index.partitions] == [p[1] for p in program.partitions]
    assert {p.num_values for p in index.partitions} == ({100, 0, 1, 250, 30} if tells_values else {None})
    queried = np.arange(start + 300, dtype=np.uint64)
    matches = index.lookup(queried)
    assert [[p.name for p in some] for some in matches] == [program.answer(value) for value in range(start + 300)]
    owner = program.partitions[3][0]
    assert all(owner in [p.name for p in matches[value]] for value in range(101, 351))
    assert not any(program.partitions[4][0] in [p.name for p in some] for some in matches)


def test_nothing_in_it(tmp_path: Path) -> None:
    Program(tmp_path, 3).persist()
    index = PartitionIndexFile(str(tmp_path))
    assert index.partitions == []
    assert index.lookup(np.array([1, 2], np.uint64)) == [[], []]
    assert index.lookup(np.array([], np.uint64)) == []


def test_damage(tmp_path: Path) -> None:
    program = Program(tmp_path, 5)
    program.add(range(40), "a")
    program.add(range(40, 50), "b")
    program.persist()
    path = tmp_path / "partitions.data"
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(BrokenIndexError, match=r"partitions\.data"):
            PartitionIndexFile(str(tmp_path))
    path.write_bytes(data + b"\0")
    with pytest.raises(BrokenIndexError):
        PartitionIndexFile(str(tmp_path))
    chance = random.Random(1)
    for _ in range(500):  # nothing but the named errors, whatever the bytes are
        broken = bytearray(data)
        broken[chance.randrange(len(broken))] = chance.randrange(256)
        path.write_bytes(broken)
        with suppress(BrokenIndexError, StorageError):
            PartitionIndexFile(str(tmp_path)).lookup(np.arange(5, dtype=np.uint64))
    path.write_bytes(struct.pack("<QQQ", 5, 1, 2**62))
    with pytest.raises(BrokenIndexError):
        PartitionIndexFile(str(tmp_path))
    path.write_bytes(data)
    bucket = tmp_path / "index" / f"{first_bucket(7, 5):07d}.bucket"
    bucket.write_bytes(bucket.read_bytes()[:-1])
    with pytest.raises(BrokenIndexError, match="bucket"):
        PartitionIndexFile(str(tmp_path)).lookup(np.array([7], np.uint64))
    bucket.unlink()
    with pytest.raises(StorageError):
        PartitionIndexFile(str(tmp_path)).lookup(np.array([7], np.uint64))
    with pytest.raises(StorageError):
        PartitionIndexFile(str(tmp_path / "elsewhere"))
