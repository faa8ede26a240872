"""Whole small Parquet files with damage anywhere: whatever they are, a named error or an answer.

An input that begins with `PAR1` is used as a file; any other is a recipe: what is done to which good file.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from choices import Choices, damaged
from scratch import as_file, one_line
from small_parquet import bases, header_changed, with_filter, with_index

import parquet_bloom
from parquet_bloom.cli.commands.show_command import _rows
from parquet_bloom.core.bloom.variants import VARIANTS
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.file.metadata_cache import SHARED_CACHE
from parquet_bloom.predicate import parse

ALLOWED = (ParquetBloomError,)
SLICE = 120
MAX_INPUT = 16_384

_WHERE = parse("k = 53 AND s = 'v0000053'")
_FEW = parse("k IN (3, 53) OR n IS NULL")

_HEAVY: dict[int, Callable[[str], object]] = {  # what takes the time of several others
    2: lambda path: parquet_bloom.verify(path, variant=VARIANTS[os.path.getsize(path) % len(VARIANTS)].name),
    6: partial(parquet_bloom.verify, data=True, variant="detect"),
    8: partial(parquet_bloom.verify, data=True),
    10: parquet_bloom.advise,
    12: lambda path: parquet_bloom.read_table(path, _WHERE),
    14: lambda path: parquet_bloom.read_table(path, _FEW),
}


def seeds() -> list[bytes]:
    return [base.data for base in bases()] + [bytes([number, how]) for number in range(4) for how in range(8)]


def file_of(data: bytes) -> bytes:
    """The file that an input means."""
    if data.startswith(b"PAR1"):
        return data
    choices = Choices(data)
    base, how = choices.pick(bases()), choices.below(8)
    if how < 4 or (how == 4 and not base.indexes):
        return base.with_footer(base.footer.changed(choices, 3))
    if how == 4:
        key = choices.pick(list(base.indexes))
        return with_index(base, key, base.indexes[key].changed(choices, 2))
    if how == 5:
        key = choices.pick(list(base.filters))
        header, bitset = header_changed(choices), base.filters[key][1]
        return with_filter(base, key, header, bitset, choices.pick((None, 32, 0, 2**31 - 1)))
    if how == 6:  # pages, dictionaries, filters, page indexes
        return base.with_footer(base.footer.data)[:4] + damaged(base.data[4:], choices)
    body = damaged(base.body[4:], choices)
    return base.data[:4] + body + base.data[len(base.body) :]


def run(data: bytes) -> None:
    SHARED_CACHE.clear()
    complete = file_of(data)
    # What is done with a file depends on its bytes, so that an input means one thing, and takes the time of one.
    step = sum(complete[-64:]) % 32
    with as_file(complete) as path:
        try:
            with parquet_bloom.open(path) as file:
                file.columns  # noqa: B018
                for chunk in file.chunks():
                    chunk.problem  # noqa: B018
                if step == 0:
                    list(_rows(file, (), (), set()))
            if step in _HEAVY:
                _HEAVY[step](path)
            elif step % 4 == 1:
                parquet_bloom.prune(path, _WHERE if step % 8 == 1 else _FEW, cache=None)
        except ParquetBloomError as error:
            one_line(error)
