"""Index files of another program: `partitions.data` and buckets, as they are or with damage."""

from __future__ import annotations

import struct

import numpy as np
from choices import Choices, damaged
from scratch import as_folder, one_line

from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.lake.partition_index_files import PartitionIndexFile

ALLOWED = (ParquetBloomError,)

_BUCKETS = 3


def _partitions(texts: bool, values: bool) -> bytes:
    data = struct.pack("<QQQ", _BUCKETS, 6, 3)
    for number in range(3):
        name = struct.pack("<Q", 2) + b"p%d" % number if texts else struct.pack("<QQ", number * 10, 10)
        data += name + struct.pack("<QB", number + 1, number != 1) + (struct.pack("<Q", 10) if values else b"")
    return data


_GOOD = [_partitions(texts, values) for texts in (False, True) for values in (False, True)]


def seeds() -> list[bytes]:
    return [bytes([0x80]) + good for good in _GOOD] + [bytes([number, 0, 1, 2, 9]) for number in range(4)]


def run(data: bytes) -> None:
    choices = Choices(data)
    first = choices.byte()
    reported = choices.rest if first & 0x80 else damaged(_GOOD[first % 4], choices)
    buckets = {f"index/{number:07d}.bucket": bytes(range(1, 13)) for number in range(_BUCKETS - (first & 1))}
    if first & 2:
        buckets["index/0000000.bucket"] = bytes(first % 16)
    with as_folder({"partitions.data": reported, **buckets}) as location:
        try:
            index = PartitionIndexFile(location)
            assert len(index.partitions) * 17 <= len(reported)
            index.lookup(np.arange(5, dtype=np.uint64))
        except ParquetBloomError as error:
            one_line(error)
