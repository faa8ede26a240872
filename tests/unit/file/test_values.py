"""A column's stored values, as filters are built from them: those of a dictionary too, and none that no row has.

They are taken from the pages as they are stored, and by pyarrow where that cannot be: both are tested.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datafusion
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import stored_values
from support.oracle import oracle
from support.oracle.oracle import OracleFilter

import parquet_bloom
from parquet_bloom.core.hash.xxh64 import hash_one
from parquet_bloom.errors import UnreadableColumnError
from parquet_bloom.file.bloom_file import BloomFile
from parquet_bloom.file.column_reader import ColumnReader
from parquet_bloom.storage import open_source

WORDS = [f"word {i}" for i in range(40)]
ROWS = 100_000  # more than are decoded at once


class Opened:
    """A file's reader of one column; what it reads is given out as sets of hashes."""

    def __init__(self, path: Path, column: str):
        self.source = open_source(path)
        file = BloomFile(self.source)
        self.groups = range(file.footer.num_row_groups)
        self.reader = ColumnReader(self.source, file.footer, next(x for x in file.leaves if x.name == column))

    def from_dictionary(self, row_group: int) -> bool:
        return self.reader._has_dictionary(row_group)

    def occurring(self, row_group: int) -> stored_values.Outcome:
        """Read by both ways, which agree."""
        result = stored_values.stored(self.reader, row_group)
        assert result in (None, stored_values.decoded(self.reader, row_group))
        return stored_values.hash_all(self.reader.read_occurring(row_group))

    def read(self, row_group: int) -> stored_values.Outcome:
        return stored_values.hash_all(self.reader.batches(row_group))


@pytest.fixture
def opened() -> Iterator[Any]:
    files: list[Opened] = []

    def open_column(path: Path, column: str) -> Opened:
        files.append(Opened(path, column))
        return files[-1]

    yield open_column
    for file in files:
        file.source.close()


def texts(values: list[str]) -> set[int]:
    return {hash_one(value.encode()) for value in values}


def test_a_dictionary_gives_each_value_a_few_times(tmp_path, opened):
    path = tmp_path / "words.parquet"
    pq.write_table(pa.table({"word": [None, *WORDS] * (ROWS // 41)}), path)
    column = opened(path, "word")
    assert column.from_dictionary(0)
    assert column.occurring(0) == texts(WORDS)
    assert sum(map(len, column.reader.read_occurring(0))) == len(WORDS)
    assert stored_values.decoded(column.reader, 0) == texts(WORDS)
    zones = list(column.reader.read_zones(0, ROWS // 2))
    assert [zone for zone, _ in zones][:: len(zones) - 1] == [0, 1]
    assert all(len(values) == len(WORDS) for _, values in zones)


def test_only_values_that_some_row_has(tmp_path, opened):
    """A writer may put more into a dictionary than its rows refer to: those are not found in the filter either."""
    path, output = tmp_path / "unused.parquet", tmp_path / "out.parquet"
    numbers = pa.array([7, None, 7, 9] * 1000, pa.int32())
    pq.write_table(pa.table({"word": pa.DictionaryArray.from_arrays(numbers, WORDS)}), path, store_schema=False)
    assert b"word 39" in path.read_bytes()[: pq.read_metadata(path).row_group(0).column(0).data_page_offset]
    column = opened(path, "word")
    assert column.from_dictionary(0)
    assert column.occurring(0) == texts(["word 7", "word 9"])
    report = parquet_bloom.embed(path, ["word"], output=output)
    expected = OracleFilter(report.filters[0].num_bytes)
    for value in (b"word 7", b"word 9"):
        expected.insert(value)
    assert report.filters[0].ndv == 2
    assert oracle.filters(output)[0, "word"].bitset == expected.to_bytes()


def test_a_dictionary_that_was_given_up(tmp_path, opened):
    """Values after it are stored plainly: all are found."""
    path = tmp_path / "given-up.parquet"
    values = [f"value {i // 2}" for i in range(20_000)]
    pq.write_table(pa.table({"word": values}), path, dictionary_pagesize_limit=4096, data_page_size=1024)
    encodings = pq.read_metadata(path).row_group(0).column(0).encodings
    assert {"PLAIN", "RLE_DICTIONARY"} <= set(encodings)
    column = opened(path, "word")
    assert not column.from_dictionary(0)
    assert column.occurring(0) == texts(values)


@pytest.mark.parametrize("number", [40, -1])
def test_a_number_that_the_dictionary_lacks(tmp_path, opened, monkeypatch, number):
    path = tmp_path / "words.parquet"
    pq.write_table(pa.table({"word": WORDS * 50}), path)
    broken = pa.DictionaryArray.from_arrays(pa.array([3, number], pa.int32()), pa.array(WORDS, pa.binary()), safe=False)
    column = opened(path, "word")
    monkeypatch.setattr(column.reader, "_decode", lambda *_: iter([broken]))
    with pytest.raises(UnreadableColumnError, match="not in the dictionary") as raised:
        list(column.reader.read_zones(0, 10))
    assert (raised.value.path, raised.value.row_group, raised.value.column) == (str(path), 0, "word")


@pytest.mark.parametrize("suffix", ["", "2.0"])
def test_a_dictionary_given_up_for_delta_pages(tmp_path, opened, suffix):
    """Writers of version 2 turn to delta encodings then, of which pyarrow makes no dictionaries."""
    rows = 100_000
    texts = [f"a/long/common/prefix/{i:012d}" for i in range(rows)]
    context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(1))
    options = datafusion.ParquetWriterOptions(
        writer_version=suffix or "1.0", compression="zstd(3)", dictionary_page_size_limit=50_000
    )
    path = tmp_path / "written.parquet"
    context.from_arrow(pa.table({"text": texts})).write_parquet_with_options(str(path), options)
    if path.is_dir():
        (path,) = path.glob("*.parquet")
    column = opened(path, "text")
    assert pq.read_metadata(path).row_group(0).column(0).has_dictionary_page
    assert set().union(*map(column.occurring, column.groups)) == {hash_one(text.encode()) for text in texts}
    parquet_bloom.embed(path, ["text"])
    assert parquet_bloom.verify(path, data=True).ok
