"""Whole small ORC files with damage anywhere, under every codec: whatever they are, a named error or an answer.

An input that begins with `ORC` is used as a file; any other is a recipe: what is done to a good file.
"""

from __future__ import annotations

from choices import Choices
from scratch import as_file, one_line
from small_orc import CODECS, changed_file, together

import parquet_bloom
from parquet_bloom import orc
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.predicate import parse

ALLOWED = (ParquetBloomError,)
SLICE = 80

_WHERE = parse("k = 53 AND s = 'v0000053'")
_FEW = parse("k IN (3, 53) OR n IS NULL")


def seeds() -> list[bytes]:
    files = [together(codec, lambda location, plain: plain) for codec in CODECS]
    return [
        *files,
        *(bytes([codec, location, how, 9]) for codec in range(6) for location in range(0, 60, 7) for how in range(4)),
    ]


def run(data: bytes) -> None:
    complete = data if data.startswith(b"ORC") else changed_file(Choices(data))
    step = sum(complete[-64:]) % 16
    with as_file(complete, ".orc") as path:
        try:
            if step >= 8:
                with orc.open(path) as file:
                    for leaf in file.leaves:
                        file.stripe_statistics(leaf)
                    file.row_group_evidence(file.leaves, range(len(file.stripes)))
                    for bloom_filter in file.filters():
                        assert 0 <= bloom_filter.fill <= 1
                        assert bloom_filter.check_hashes.__self__ is bloom_filter
            elif step >= 4:
                parquet_bloom.prune(path, _WHERE if step % 2 else _FEW, cache=None)
            elif step == 0:
                orc.verify(path)
            elif step == 1:
                orc.verify(path, data=True)
            elif step == 2:
                parquet_bloom.read_table(path, _WHERE)
            else:
                parquet_bloom.advise(path)
        except ParquetBloomError as error:
            one_line(error)
