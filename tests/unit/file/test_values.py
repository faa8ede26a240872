"""A column's stored values, as filters are built from them: those of a dictionary too, and none that no row has.

They are taken from the pages as they are stored, and by pyarrow where that cannot be: both are tested.
"""

from __future__ import annotations

from pathlib import Path

import datafusion
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.oracle import oracle
from support.oracle.oracle import OracleFilter
from support.stored_values import decoded, hash_all, open_readers, stored

import parquet_bloom
from parquet_bloom.core.hash.xxh64 import hash_one
from parquet_bloom.errors import UnreadableColumnError

WORDS = [f"word {i}" for i in range(40)]
ROWS = 100_000  # more than are decoded at once


def texts(values: list[str]) -> set[int]:
    return {hash_one(value.encode()) for value in values}


def occurring(path: Path, column: str) -> list[set[int]]:
    """Read the values of each row group by both ways, which agree."""
    with open_readers(path) as readers:
        reader, results = readers[column], []
        for row_group in range(pq.read_metadata(path).num_row_groups):
            assert stored(reader, row_group) in (None, decoded(reader, row_group))
            results.append(hash_all(reader.read_occurring(row_group)))
        return results


def test_a_dictionary_gives_each_value_a_few_times(tmp_path: Path) -> None:
    path = tmp_path / "words.parquet"
    pq.write_table(pa.table({"word": [None, *WORDS] * (ROWS // 41)}), path)
    assert occurring(path, "word") == [texts(WORDS)]
    with open_readers(path) as readers:
        reader = readers["word"]
        assert sum(map(len, reader.read_occurring(0))) == len(WORDS)
        zones = list(reader.read_zones(0, ROWS // 2))
        assert [zone for zone, _ in zones][:: len(zones) - 1] == [0, 1]
        assert all(len(values) == len(WORDS) for _, values in zones)


def test_only_values_that_some_row_has(tmp_path: Path) -> None:
    """A writer may put more into a dictionary than its rows refer to: those are not found in the filter either."""
    path, output = tmp_path / "unused.parquet", tmp_path / "out.parquet"
    numbers = pa.array([7, None, 7, 9] * 1000, pa.int32())
    pq.write_table(pa.table({"word": pa.DictionaryArray.from_arrays(numbers, WORDS)}), path, store_schema=False)
    assert b"word 39" in path.read_bytes()[: pq.read_metadata(path).row_group(0).column(0).data_page_offset]
    assert occurring(path, "word") == [texts(["word 7", "word 9"])]
    report = parquet_bloom.embed(path, ["word"], output=output)
    expected = OracleFilter.of(report.filters[0].num_bytes, [b"word 7", b"word 9"])
    assert report.filters[0].ndv == 2
    assert oracle.filters(output)[0, "word"].bitset == expected.to_bytes()


def test_a_dictionary_that_was_given_up(tmp_path: Path) -> None:
    """Values after it are stored plainly: all are found."""
    path = tmp_path / "given-up.parquet"
    values = [f"value {i // 2}" for i in range(20_000)]
    pq.write_table(pa.table({"word": values}), path, dictionary_pagesize_limit=4096, data_page_size=1024)
    assert {"PLAIN", "RLE_DICTIONARY"} <= set(pq.read_metadata(path).row_group(0).column(0).encodings)
    assert occurring(path, "word") == [texts(values)]


@pytest.mark.parametrize("number", [40, -1])
def test_a_number_that_the_dictionary_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    path = tmp_path / "words.parquet"
    pq.write_table(pa.table({"word": WORDS * 50}), path)
    broken = pa.DictionaryArray.from_arrays(pa.array([3, number], pa.int32()), pa.array(WORDS, pa.binary()), safe=False)
    with open_readers(path) as readers:
        monkeypatch.setattr(readers["word"], "_decode", lambda *_: iter([broken]))
        with pytest.raises(UnreadableColumnError, match="not in the dictionary") as raised:
            list(readers["word"].read_zones(0, 10))
    assert (raised.value.path, raised.value.row_group, raised.value.column) == (str(path), 0, "word")


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_a_dictionary_given_up_for_delta_pages(tmp_path: Path, version: str) -> None:
    """Writers of version 2 turn to delta encodings then, of which pyarrow makes no dictionaries."""
    values = [f"a/long/common/prefix/{i:012d}" for i in range(ROWS)]
    context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(1))
    limits = {"compression": "zstd(3)", "dictionary_page_size_limit": 50_000}
    options = datafusion.ParquetWriterOptions(writer_version=version, **limits)
    path = tmp_path / "written.parquet"
    context.from_arrow(pa.table({"text": values})).write_parquet_with_options(str(path), options)
    if path.is_dir():
        (path,) = path.glob("*.parquet")
    assert pq.read_metadata(path).row_group(0).column(0).has_dictionary_page
    assert set().union(*occurring(path, "text")) == texts(values)
    parquet_bloom.embed(path, ["text"])
    assert parquet_bloom.verify(path, data=True).ok
