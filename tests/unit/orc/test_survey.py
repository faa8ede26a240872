"""Advice on ORC files: files with known answers, and files of real writers."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc as pyarrow_orc

import parquet_bloom
from parquet_bloom import errors, orc
from parquet_bloom.file.verdict import fpp_apart, fpp_together
from parquet_bloom.orc.orc_survey import StrideSizing, fpp_for, num_bits, num_hash_functions
from parquet_bloom.scan.survey_files import survey

FILES, STRIPES, GROUPS, STRIDE = 3, 2, 5, 400
ROWS = STRIPES * GROUPS * STRIDE


def columns(number: int, rng: np.random.Generator) -> dict[str, Any]:
    ids = rng.integers(0, 1 << 60, ROWS)
    return {
        "seq": np.arange(number * ROWS, (number + 1) * ROWS),
        "user": ids,
        "trace": [f"https://host/{value:016x}" for value in ids.tolist()],
        "country": [f"c{value}" for value in rng.integers(0, 30, ROWS).tolist()],
        "flag": rng.integers(0, 2, ROWS).astype(bool),
        "tiny": rng.integers(-100, 100, ROWS).astype(np.int8),
        "ratio": rng.random(ROWS),
        "bin": [b"%x" % value for value in ids.tolist()],
        "tags": [[value] for value in ids.tolist()],
        "st": [{"a": value, "b": "x"} for value in ids.tolist()],
        "nothing": pa.nulls(ROWS, pa.int64()),
        "bulk": [rng.bytes(60) for _ in range(ROWS)],
    }


def write(path: Path, table: pa.Table, **options: Any) -> None:
    stripe = {"batch_size": GROUPS * STRIDE, "stripe_size": 1, "row_index_stride": STRIDE}
    pyarrow_orc.write_table(table, path, **stripe | options)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("orc-advise")
    rng = np.random.default_rng(7)
    for number in range(FILES):
        write(folder / f"{number}.orc", pa.table(columns(number, rng)))
    return folder


def test_verdicts_and_reasons(lake: Path) -> None:
    report = parquet_bloom.advise(lake)
    total = FILES * STRIPES * GROUPS
    assert (report.files, report.orc_files, report.row_groups, report.rows) == (FILES, FILES, total, FILES * ROWS)
    result = {advice.column: (advice.verdict, advice.reason) for advice in report.columns}
    for name in ("user", "trace", "st.a"):
        assert result[name][0] == "yes", name
        assert result[name][1].startswith("a filter leaves ")
        assert result[name][1].endswith("; made for 0.002 a row group, a stripe of 5 has 0.01")
        assert report[name].engines == (("Spark",) if "." in name else ("ClickHouse", "Spark"))
    assert result["seq"][0] == "no"
    assert "it is sorted, or nearly" in result["seq"][1]
    assert result["country"][0] == "no"
    assert "a value is in about 100% of the row groups" in result["country"][1]
    assert result["flag"] == ("no", "BOOLEAN columns get no filter: there are two values to find")
    assert result["tiny"][0] == "no"
    assert result["tiny"][1].startswith("filters of it cannot be trusted: ORC's C++ library ")
    assert result["nothing"] == ("no", "it holds no values")
    assert result["ratio"] == ("maybe", "floats are seldom asked for by equality")
    assert result["bin"] == ("maybe", "only parquet_bloom asks filters of binary")
    assert result["tags.item"] == ("no", "no engine probes filters of elements of ORC's lists and maps")
    assert report["user"].type == "bigint"
    assert report.command is report.call is None


def test_predictions_match_writers(lake: Path, tmp_path: Path) -> None:
    """The options it gives make filters as large as it says, of stripes that are seldom read in vain."""
    report = parquet_bloom.advise(lake, ["user", "trace", "seq"])
    assert report.orc_options == {
        "orc.bloom.filter.columns": "user,trace",
        "orc.bloom.filter.fpp": "0.002",
        "orc.row.index.stride": "1000",  # the least that Java takes
    }
    spark, by_pyarrow = report.orc_calls
    assert spark.startswith("frame.write.option('orc.bloom.filter.columns', 'user,trace').option(")
    assert by_pyarrow == (
        "pyarrow.orc.write_table(table, path, bloom_filter_columns=[2, 3], bloom_filter_fpp=0.002, "
        f"row_index_stride={STRIDE})"
    )
    assert str(report).splitlines()[-2:] == [spark, by_pyarrow]
    num_queries = vain = written = 0
    rng = np.random.default_rng(8)
    absent = (rng.integers(0, 1 << 60, 500) | 1 << 61).tolist()
    for file in sorted(lake.iterdir()):
        target = tmp_path / file.name
        write(target, pyarrow_orc.read_table(file), bloom_filter_columns=[2, 3], bloom_filter_fpp=0.002)
        with orc.open(target) as opened:
            filters = list(opened.filters(["user"]))
            written += sum(one.num_bits // 8 for one in filters)
            for stripe in opened.stripes:
                maybe = [one.check(absent) for one in filters if one.stripe == stripe.number]
                vain += int(np.any(maybe, axis=0).sum())
                num_queries += len(absent)
    assert vain / num_queries < 0.015
    assert report["user"].sizes[0.01] == pytest.approx(written, rel=0.01)  # the fpp written has fewer digits
    again = parquet_bloom.advise(tmp_path, ["user"])["user"]
    assert (again.verdict, again.weak) == ("no", False)
    assert again.reason.startswith(f"all {FILES * STRIPES * GROUPS} row groups with values have a filter already")
    assert again.filter_fpp == pytest.approx(0.002, rel=0.5)


def test_filters_that_are_too_weak_for_stripes(lake: Path, tmp_path: Path) -> None:
    """At pyarrow's own fpp; those of `trace`, which are kept, would be lost if they were not requested again."""
    table = pyarrow_orc.read_table(lake / "0.orc")
    write(tmp_path / "a.orc", table, bloom_filter_columns=[1, 2, 3])
    report = parquet_bloom.advise(tmp_path, ["seq", "user", "trace", "country", "st.a"])
    user = report["user"]
    assert (report["seq"].verdict, report["seq"].filter_fpp is None) == ("no", False)
    assert "it is sorted, or nearly" in report["seq"].reason
    assert (user.verdict, user.weak) == ("maybe", True)
    assert user.filter_fpp == pytest.approx(0.05, rel=0.2)
    assert "readers of whole stripes, of up to 5 row groups, read 2" in user.reason
    assert report.orc_options is not None
    assert report.orc_options["orc.bloom.filter.columns"] == "seq,user,trace,st.a"
    one_each = tmp_path / "one"
    one_each.mkdir()
    write(one_each / "a.orc", table, bloom_filter_columns=[2], bloom_filter_fpp=0.01, batch_size=STRIDE)
    assert parquet_bloom.advise(one_each, ["user"])["user"].verdict == "no"  # a row group a stripe


def test_without_a_sample_values_are_not_read(lake: Path, tmp_path: Path) -> None:
    for path in lake.iterdir():  # whose data cannot be decoded
        data = bytearray(path.read_bytes())
        with orc.open(path) as file:
            for stripe in file.stripes:
                start = stripe.offset + stripe.index_length
                data[start : start + stripe.data_length] = bytes(stripe.data_length)
        (tmp_path / path.name).write_bytes(data)
    report = parquet_bloom.advise(tmp_path, sample=0)
    assert not report.failures
    assert report["seq"].verdict == "no"
    assert report["user"].verdict == "maybe"
    assert report["user"].holding is None
    assert report.open_question is not None


def test_a_lake_of_both_formats(lake: Path, tmp_path: Path) -> None:
    table = pyarrow_orc.read_table(lake / "0.orc", columns=["user", "bulk"])
    (tmp_path / "a.parquet").write_bytes((lake / "0.orc").read_bytes())  # recognized by their contents
    pq.write_table(table, tmp_path / "b.orc", row_group_size=STRIDE)
    (tmp_path / "cut.orc").write_bytes((lake / "0.orc").read_bytes()[:-9])
    report = parquet_bloom.advise(tmp_path, ["user"])
    assert (report.files, report.orc_files, len(report.failures)) == (2, 1, 1)
    assert report["user"].row_groups == 2 * STRIPES * GROUPS
    assert report.command is not None
    assert pickle.loads(pickle.dumps(survey(tmp_path / "a.parquet", 2))).together == GROUPS
    with pytest.raises(errors.UnknownColumnError, match="'nobody': no such column in any file"):
        parquet_bloom.advise(tmp_path, ["nobody"])


def test_a_file_without_row_indexes(tmp_path: Path) -> None:
    pyorc = pytest.importorskip("pyorc")
    rng = np.random.default_rng(5)
    with (tmp_path / "a.orc").open("wb") as file, pyorc.Writer(file, "struct<id:bigint>", row_index_stride=0) as writer:
        writer.writerows((value,) for value in rng.integers(0, 1 << 60, 25_000).tolist())
    report = parquet_bloom.advise(tmp_path, ["id"])
    assert report.orc_stride == 10_000  # a writer's default
    assert report["id"].together == 3
    assert report["id"].sizes[0.01] == 3 * num_bits(10_000, fpp_apart(0.01, 3)) // 8


def test_sizes_are_those_of_writers(tmp_path: Path) -> None:
    for stride in (1, 7, 100, 1000):
        for fpp in (0.9, 0.05, 0.01, 0.0001):
            options = {"row_index_stride": stride, "bloom_filter_columns": [1], "bloom_filter_fpp": fpp}
            pyarrow_orc.write_table(pa.table({"id": range(20)}), tmp_path / "a.orc", **options)
            with orc.open(tmp_path / "a.orc") as file:
                one = next(iter(file.filters()))
                assert (one.num_bits, one.num_hash_functions) == (
                    num_bits(stride, fpp),
                    num_hash_functions(stride, fpp),
                )


def test_sizing() -> None:
    assert (num_bits(10_000, 0.01), num_hash_functions(10_000, 0.01)) == (95_872, 7)
    assert StrideSizing(10_000)(10_000, 0.01) == 95_872 // 8 == StrideSizing(10_000)(0, 0.01)
    assert StrideSizing(1000)(2001, 0.01) == 3 * num_bits(1000, 0.01) // 8
    assert fpp_for(10_000, 95_872, 7) == pytest.approx(0.01, rel=0.02)
    assert fpp_for(0, 64, 3) == 0
    for wrong in ((0, 0.1), (10, 0.0), (10, 1.0)):
        with pytest.raises(ValueError, match="num_values must be at least 1"):
            num_bits(*wrong)


def test_filter_sizes_apart_and_together() -> None:
    for together in (1, 2, 38, 1000):
        for fpp in (0.5, 0.01, 1e-6):
            apart = fpp_apart(fpp, together)
            assert 1 - math.prod([1 - apart] * together) == pytest.approx(fpp, rel=1e-6)
            assert fpp_together(apart, together) == pytest.approx(fpp)
            assert fpp_together(1.0, together) == 1
