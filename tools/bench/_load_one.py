"""Steps of `load.py` on one file: with many columns, with many bytes, and with extremely large column chunks."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _load import Size, Step
from _load_files import command

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError

# ---------------------------------------------------------------------------------------------------- many columns


def _make_columns(folder: Path, size: Size) -> str:
    columns, rows = size.of(10_000, 200), 3_000
    values = np.random.default_rng(1).permutation(rows)
    table = pa.table({f"some_column_{i}": values + i for i in range(columns)})
    pq.write_table(table, folder / "wide.parquet", row_group_size=1_000, write_page_index=True)
    return f"{columns:,} columns, 3 row groups"


def _open(folder: Path, size: Size) -> str:
    started = time.perf_counter()
    with parquet_bloom.open(folder / "wide.parquet") as file:
        assert len(file.leaves) == size.of(10_000, 200)
        return f"{time.perf_counter() - started:.3f} s"


def _command(name: str, *arguments: Any) -> str:
    done = command(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ""


def _show_wide(folder: Path, size: Size) -> str:
    return _command("show", "show", folder / "wide.parquet")


def _embed_wide(folder: Path, size: Size) -> str:
    report = parquet_bloom.embed(folder / "wide.parquet", ["some_column_7"])
    return f"{report.num_filters} filters, {report.bytes_added:+,} bytes in {report.seconds:.2f} s"


def _embed_all(folder: Path, size: Size) -> str:
    names = [f"some_column_{i}" for i in range(size.of(1_000, 100))]
    report = parquet_bloom.embed(folder / "wide.parquet", names)
    return f"{report.num_filters:,} filters, {report.bytes_added:+,} bytes in {report.seconds:.2f} s"


def _prune_wide(folder: Path, size: Size) -> str:
    report = parquet_bloom.prune(folder / "wide.parquet", "some_column_7 = 1500")
    return f"{report.requests} requests, {report.bytes_read:,} bytes"


def _read_wide(folder: Path, size: Size) -> str:
    table = parquet_bloom.read_table(folder / "wide.parquet", "some_column_7 = 1500")
    assert (table.num_rows, table.num_columns) == (1, size.of(10_000, 200))
    return f"a row of {table.num_columns:,} columns"


def _verify_wide(folder: Path, size: Size) -> str:
    return str(parquet_bloom.verify(folder / "wide.parquet").ok)


COLUMNS = (
    Step("make", 0, _make_columns),
    Step("open", 200, _open),
    Step("show", 200, _show_wide),
    Step("embed one column", 250, _embed_wide),
    Step("embed 1,000 columns", 600, _embed_all),
    Step("prune", 200, _prune_wide),
    Step("read a row", 700, _read_wide),  # pyarrow's read_row_group alone takes 510 here
    Step("verify", 250, _verify_wide),
)

# ------------------------------------------------------------------------------------------------------ many bytes

FLOATS = 8
BIG_SCHEMA = pa.schema([("id", pa.int64()), *((f"v{number}", pa.float64()) for number in range(FLOATS))])


def _rows(size: Size) -> int:
    return size.of(12_000_000, 100_000)


def _ids(row_group: int, rows: int) -> np.ndarray:
    return np.random.default_rng([77, row_group]).integers(-(1 << 63), 1 << 63, rows)


def _make_big(folder: Path, size: Size) -> str:
    rows = _rows(size)
    options = {"compression": "none", "use_dictionary": False, "write_page_index": True}
    with pq.ParquetWriter(folder / "big.parquet", BIG_SCHEMA, **options) as writer:
        for number in range(24):
            floats = np.random.default_rng([78, number])
            columns = [pa.array(_ids(number, rows)), *(pa.array(floats.random(rows)) for _ in range(FLOATS))]
            writer.write_table(pa.table(columns, schema=BIG_SCHEMA), row_group_size=rows)
    return f"{(folder / 'big.parquet').stat().st_size / 1e9:.1f} GB, 24 row groups of {rows:,} rows"


def _embed_big(folder: Path, size: Size) -> str:
    report = parquet_bloom.embed(folder / "big.parquet", ["id"])
    assert report.num_filters == 24
    return f"{report.bytes_added:+,} bytes"


def _sample_id(size: Size) -> int:
    return int(_ids(11, _rows(size))[4_321])


def _prune_big(folder: Path, size: Size) -> str:
    key = _sample_id(size)
    started = time.perf_counter()
    report = parquet_bloom.prune(folder / "big.parquet", f"id = {key}")
    (selected,) = report.selected.values()
    assert 11 in selected
    return f"{time.perf_counter() - started:.3f} s; row groups {selected}, {report.bytes_read:,} bytes read"


def _read_big(folder: Path, size: Size) -> str:
    key = _sample_id(size)
    started = time.perf_counter()
    table = parquet_bloom.read_table(folder / "big.parquet", f"id = {key}")
    assert table.num_rows == 1
    return f"{time.perf_counter() - started:.2f} s"


def _batches_big(folder: Path, size: Size) -> str:
    rows = 0
    for batch in parquet_bloom.dataset(folder / "big.parquet").scan("id > 0", ["v0"]).to_batches():
        rows += batch.num_rows
        if rows > 3 * _rows(size) / 2:  # of several row groups
            break
    return f"{rows:,} rows"


def _verify_big(folder: Path, size: Size) -> str:
    report = parquet_bloom.verify(folder / "big.parquet")
    assert report.ok
    return f"{len(report.chunks)} filters"


def _drop_big(folder: Path, size: Size) -> str:
    report = parquet_bloom.drop(folder / "big.parquet")
    return f"{report.num_filters} filters, {report.new_size - report.old_size:+,} bytes"


BIG = (
    Step("make", 0, _make_big),
    Step("embed in place", 700, _embed_big),
    Step("prune", 500, _prune_big),
    Step("read a row", 500, _read_big),
    Step("iterate over half of the rows", 1_500, _batches_big),
    Step("verify", 700, _verify_big),
    Step("drop", 200, _drop_big),
)

# ------------------------------------------------------------------------------------------------- beyond measure


def _make_distinct(folder: Path, size: Size) -> str:
    count = size.of(100_000_000, 200_000)
    schema = pa.schema([("id", pa.int64())])
    with pq.ParquetWriter(folder / "distinct.parquet", schema, compression="none", use_dictionary=False) as writer:
        writer.write_table(pa.table([pa.array(np.arange(count))], schema=schema), row_group_size=count)
    largest = pq.read_metadata(folder / "distinct.parquet").row_group(0).num_rows  # pyarrow's maximum is 64 Mi
    return f"{count:,} distinct values, {largest:,} of them in the first row group"


def _embed_distinct(folder: Path, size: Size) -> str:
    report = parquet_bloom.embed(folder / "distinct.parquet", ["id"])
    return f"a filter of {report.filters[0].num_bytes:,} bytes"


def _verify_distinct(folder: Path, size: Size) -> str:
    report = parquet_bloom.verify(folder / "distinct.parquet", data=True)
    assert report.ok
    return f"{report.chunks[0].num_values:,} values looked for"


def _prune_distinct(folder: Path, size: Size) -> str:
    report = parquet_bloom.prune(folder / "distinct.parquet", "id = 77")
    assert report.selected
    return f"{report.bytes_read:,} bytes read"


def _long(number: int, size: Size) -> str:
    return f"{number:09}" * (size.of(100_000_000, 90_000) // 9)


def _make_long(folder: Path, size: Size) -> str:
    schema = pa.schema([("text", pa.string())])
    with pq.ParquetWriter(folder / "long.parquet", schema, use_dictionary=False, write_statistics=False) as writer:
        for number in range(8):
            writer.write_table(pa.table([[_long(number, size)]], schema=schema))
    return f"8 values of {len(_long(0, size)):,} bytes"


def _embed_long(folder: Path, size: Size) -> str:
    return f"{parquet_bloom.embed(folder / 'long.parquet', ['text'], threads=1).num_filters} filters"


def _prune_long(folder: Path, size: Size) -> str:
    report = parquet_bloom.prune(folder / "long.parquet", [("text", "=", _long(5, size))])
    assert [list(row_groups) for row_groups in report.selected.values()] == [[5]]
    return f"{report.bytes_read:,} bytes read"


def _read_long(folder: Path, size: Size) -> str:
    table = parquet_bloom.read_table(folder / "long.parquet", [("text", "=", _long(5, size))])
    assert table.num_rows == 1
    return "1 row"


CLAIMED = 1 << 30


def _varint(number: int) -> bytes:
    """Encode an integer as in page headers: zigzag, seven bits per byte."""
    number, out = number << 1, bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _make_claim(folder: Path, size: Size) -> str:
    """Make a file of some kilobytes whose dictionary page claims to have 1 GB; it has an eighth of that."""
    path = folder / "claim.parquet"
    text = "a" * ((1 << 27) + 1000)  # from here on the number has as many digits as 1 GB
    pq.write_table(pa.table({"name": [text, "b"]}), path, compression="zstd", write_statistics=False)
    data = bytearray(path.read_bytes())
    page_offset = pq.read_metadata(path).row_group(0).column(0).dictionary_page_offset
    real = _varint(len(text) + 1 + 8)
    at = data.index(real, page_offset, page_offset + 16)
    data[at : at + len(real)] = _varint(CLAIMED)
    path.write_bytes(data)
    return f"{len(data):,} bytes"


def _tried(path: Path, *tries: Any) -> str:
    output = []
    for name, what in tries:
        try:
            what()
            output.append(f"{name}: fine")
        except ParquetBloomError as error:
            output.append(f"{name}: {type(error).__name__}")
    return ", ".join(output)


def _inspect_claim(folder: Path, size: Size) -> str:
    path = folder / "claim.parquet"
    return _tried(
        path,
        ("prune", lambda: parquet_bloom.prune(path, "name = 'a'")),
        ("verify", lambda: parquet_bloom.verify(path)),
        ("advise", lambda: parquet_bloom.advise(path, sample=0)),
    )


def _read_claim(folder: Path, size: Size) -> str:
    path = folder / "claim.parquet"
    return _tried(
        path,
        ("embed", lambda: parquet_bloom.embed(path, ["name"])),
        ("read_table", lambda: parquet_bloom.read_table(path, "name = 'a'")),
    )


VALUES = (
    Step("make 100,000,000 values", 0, _make_distinct),
    Step("embed", 2_500, _embed_distinct),
    Step("verify with the data", 1_000, _verify_distinct),
    Step("prune", 200, _prune_distinct),
    Step("make values of 100 MB", 0, _make_long),
    Step("embed", 1_500, _embed_long),
    Step("prune", 1_500, _prune_long),
    Step("read a row", 1_500, _read_long),
    Step("make a dictionary of 1 GB, it says", 0, _make_claim),
    Step("prune, verify, advise", 200, _inspect_claim),
    Step("embed, read", 600, _read_claim),
)
