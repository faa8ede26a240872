"""`parquet-bloom verify`: exit codes, and false negatives."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import parquet_bloom


def test_exit_codes(lake, run):
    assert run("verify", "lake").code == 0
    assert run("verify", "lake", "broken.parquet").code == 1
    Path("no.parquet").write_bytes(b"nothing")
    assert run("verify", "no.parquet", "lake").code == 2
    assert run("verify", "broken.parquet", "no.parquet").code == 2  # not all that is bad is known
    assert run("verify", "broken.parquet", "--column", "other").code == 0
    assert run("verify", "broken.parquet", "--column", "key").code == 1
    missing = run("verify", "lake", "--column", "nope")
    (line,) = missing.errors
    assert missing.code == 2
    assert line.startswith("error: lake/by=datafusion/part-0.parquet: column 'nope': no such column; there are: ")
    assert line.endswith("(the same in 4 more files)")


def test_a_false_negative_is_found_with_data_only(tmp_path, run):
    path, other = tmp_path / "a.parquet", tmp_path / "b.parquet"
    pq.write_table(pa.table({"id": range(1000, 2000)}), path, compression="none", use_dictionary=False)
    pq.write_table(pa.table({"id": range(3000, 4000)}), other, compression="none", use_dictionary=False)
    for file in (path, other):
        parquet_bloom.embed(file, ["id"])
    with parquet_bloom.open(path) as one, parquet_bloom.open(other) as two:
        (chunk,), (wrong,) = one.chunks(), two.chunks()
        start, bitset = chunk.offset + chunk.header.header_bytes, wrong.filter.to_bytes()
    data = path.read_bytes()
    path.write_bytes(data[:start] + bitset + data[start + len(bitset) :])
    assert run("verify", path).code == 0
    result = run("verify", path, "--data", "--json")
    assert result.code == 1
    (row,) = json.loads(result.out)["filters"]
    assert (row["ok"], row["num_values"]) == (False, 1000)
    assert 900 < row["num_missing"] <= 1000
    assert row["problem"] == f"the filter denies {row['num_missing']:,} of the column's 1,000 values"


def test_unusual_values_are_noted(tmp_path, run):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": range(20_000)}), path)
    parquet_bloom.embed(path, {"id": {"ndv": 1}})
    result = run("verify", path, "--json")
    assert result.code == 0
    (row,) = json.loads(result.out)["filters"]
    assert row["ok"]
    assert row["note"].startswith("saturated: ")
    assert "saturated: " in run("verify", path).out


def test_files_without_filters_are_counted_and_not_called_good(lake, run):
    for option in ((), ("--data",)):
        result = run("verify", "lake/by=pyarrow/plain.parquet", *option)
        assert (result.code, result.out, result.err) == (0, "", "no filters in 1 file\n")
    assert (
        "; 1 file without filters; only their structure was checked (--data probes the values)"
        in run("verify", "lake").err
    )
    assert run("verify", "lake", "--data").err.endswith(", none of them bad; 1 file without filters\n")
    for options, data in (([], False), (["--data"], True)):
        document = json.loads(run("verify", "lake", *options, "--json").out)
        assert (document["data"], document["totals"]["unfiltered"]) == (data, 1)
