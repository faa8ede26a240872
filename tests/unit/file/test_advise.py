"""advise: which columns deserve filters; numbers against lakes whose answers are known by how they were made."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.report_pages import drawn_paths, drawn_states, drawn_texts, read_report

import parquet_bloom
from parquet_bloom import errors
from parquet_bloom.file.file_survey import SKETCH, Sample, survey
from parquet_bloom.file.verdict import Advice, engines_for, share_in_common, share_in_range, share_of_equal_bounds
from parquet_bloom.filter import hash_values
from parquet_bloom.hashing import column_type

ROWS = 4000
FILES = 6


def columns(number: int, rng: np.random.Generator) -> dict[str, Any]:
    """Columns of one file of the lake; each row group has half of the rows."""
    ids = rng.integers(0, 1 << 60, ROWS)
    return {
        "seq": np.arange(number * ROWS, (number + 1) * ROWS),
        "user": ids,
        "trace": [f"https://host/{value:016x}" for value in ids.tolist()],
        "country": [f"c{value}" for value in rng.integers(0, 30, ROWS).tolist()],
        "flag": rng.integers(0, 2, ROWS).astype(bool),
        "ratio": rng.random(ROWS),
        "ntz": pa.array(rng.integers(0, 1 << 50, ROWS), pa.timestamp("us")),
        "tags": [[value] for value in ids.tolist()],
        "st": [{"a": value} for value in ids.tolist()],
        "nothing": pa.nulls(ROWS, pa.int64()),
    }


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("advise") / "a lake"
    path.mkdir()
    rng = np.random.default_rng(7)
    for number in range(FILES):
        pq.write_table(pa.table(columns(number, rng)), path / f"{number}.parquet", row_group_size=ROWS // 2)
    return path


def test_verdicts_and_reasons(lake: Path) -> None:
    report = parquet_bloom.advise(lake)
    assert (report.files, report.row_groups, report.rows) == (FILES, 2 * FILES, FILES * ROWS)
    assert report.num_bytes == sum(file.stat().st_size for file in lake.iterdir())
    result = {advice.column: (advice.verdict, advice.reason) for advice in report.columns}
    for name in ("user", "trace", "st.a"):
        verdict, reason = result[name]
        assert verdict == "yes"
        assert reason.startswith("a filter leaves ")
    assert result["seq"][0] == "no"
    assert "min and max alone leave 8.3% of the row groups" in result["seq"][1]
    assert result["country"][0] == "no"
    assert "a value is in about 100% of the row groups" in result["country"][1]
    assert result["flag"] == ("no", "BOOLEAN columns get no filter: there are two values to find")
    assert result["nothing"] == ("no", "it holds no values")
    assert result["ratio"] == ("maybe", "floats are seldom asked for by equality")
    assert result["ntz"] == ("maybe", "timestamps are seldom asked for by equality")
    assert result["tags.list.element"] == ("maybe", "only parquet_bloom asks filters of elements")
    assert report.worth() == ["user", "trace", "st.a"]
    assert report["user"].engines == ("DuckDB", "DataFusion", "ClickHouse", "Spark")
    assert report["st.a"].engines == ("DuckDB", "ClickHouse", "Spark")
    with pytest.raises(errors.UnknownColumnError):
        report["nobody"]


def test_numbers(lake: Path) -> None:
    user = parquet_bloom.advise(lake, ["user", "country"], fpp=0.1)["user"]
    total = 2 * FILES
    assert (user.row_groups, user.filtered, user.num_values) == (total, 0, FILES * ROWS)
    assert user.distinct == pytest.approx(1, abs=0.001)
    assert user.holding == pytest.approx(1 / total, rel=0.01)
    assert user.in_range > 0.99
    assert user.sizes.keys() == {0.1, 0.05, 0.01, 0.001}
    assert user.sizes[0.01] == total * parquet_bloom.size_for(ROWS // 2, 0.01)
    holding, fpp = 1 / total, 0.1
    assert user.skipped_present == pytest.approx(1 - holding - (1 - holding) * fpp, abs=0.01)
    assert user.skipped_absent == pytest.approx(1 - fpp, abs=0.01)


def test_predictions_match_embedding(lake: Path, tmp_path: Path) -> None:
    predicted = parquet_bloom.advise(lake, "user")["user"]
    written = 0
    for file in sorted(lake.iterdir()):
        written += sum(
            directory.num_bytes for directory in parquet_bloom.embed(file, "user", output=tmp_path / file.name).filters
        )
    assert written == predicted.sizes[0.01]
    keys = [int(pq.read_table(file, columns=["user"])["user"][n].as_py()) for file in lake.iterdir() for n in (5, 3000)]
    reports = [parquet_bloom.prune(tmp_path, f"user = {key}") for key in keys]
    skipped = [sum(not group.read for file in report.files for group in file.row_groups) for report in reports]
    assert sum(skipped) / (len(keys) * 2 * FILES) == pytest.approx(predicted.skipped_present, abs=0.03)
    again = parquet_bloom.advise(tmp_path, "user")["user"]
    assert (again.verdict, again.reason) == ("no", f"all {2 * FILES} row groups with values have a filter already")


def test_without_a_sample_no_values_are_read(lake: Path) -> None:
    report = parquet_bloom.advise(lake, sample=0)
    assert report.sampled == 0
    assert report["seq"].verdict == "no"
    country = report["country"]
    assert (country.verdict, country.distinct, country.holding, country.dictionary) == ("no", 0.015, None, 1)
    assert country.reason.startswith(
        "1.50% of a row group's values are distinct, and most row groups have the same min"
    )
    user = report["user"]
    assert (user.verdict, user.distinct, user.same_min, user.same_max) == ("yes", 1, 0, 0)
    assert user.reason.endswith("; row groups were compared by min and max alone")
    assert report.open_question is None
    few = parquet_bloom.advise(sorted(lake.iterdir())[:2], ["user", "country"], sample=0, fpp=0.1)
    assert few["user"].verdict == "maybe"  # four row groups are too few to tell by min and max
    assert few["user"].holding is None
    assert few.command is few.call is None
    paths = " ".join(f"'{path}'" for path in sorted(lake.iterdir())[:2])
    assert few.open_question == f"parquet-bloom advise {paths} --column user --fpp 0.1 --sample 8"


def test_surveys_are_merged_and_the_footer_alone_tells_less(lake: Path) -> None:
    sampled, advice = Advice(), Advice()
    for file in sorted(lake.iterdir()):
        sampled.add(pickle.loads(pickle.dumps(survey(file, sample=2))))
        advice.add(survey(file))
    assert tuple(sampled.columns(0.01)) == parquet_bloom.advise(lake, sample=2 * FILES).columns
    result = {each.column: each for each in advice.columns(0.01)}
    assert (result["country"].distinct, result["country"].verdict) == (None, "maybe")
    assert result["country"].reason.startswith("its values are in dictionaries, so few may be distinct; ")
    assert result["user"].sizes[0.01] == 2 * FILES * parquet_bloom.size_for(ROWS // 2, 0.01)  # at most


@pytest.mark.parametrize(("values", "verdict"), [(["de", "fr", "it", "es"], "no"), ([], "maybe")])
def test_dictionaries_of_some_files_tell_of_the_others_if_their_bounds_agree(
    tmp_path: Path, values: list[str], verdict: str
) -> None:
    """Where a writer makes no dictionaries in every second file."""
    rng = np.random.default_rng(3)
    for number in range(2):
        texts = [f"{key:016x}" for key in rng.integers(0, 1 << 60, 8_000).tolist()]
        column = [values[i % 4] for i in range(8_000)] if values else texts
        options = {"use_dictionary": number == 0, "row_group_size": 4_000}
        pq.write_table(pa.table({"c": column}), tmp_path / f"{number}.parquet", **options)
    advice = parquet_bloom.advise(tmp_path, sample=0)["c"]
    assert (advice.verdict, advice.dictionary, advice.distinct) == (verdict, 0.5, None)
    if values:
        facts = "in 50% of the row groups dictionaries hold its values, of which 0.10% are distinct"
        assert (
            advice.reason
            == f"{facts}, and most row groups have the same min and max: they seem to hold the same few values"
        )
    else:
        assert advice.reason.startswith(
            "in 50% of the row groups dictionaries hold its values, of which 100.00% are distinct;"
        )
    assert parquet_bloom.advise(tmp_path, sample=4)["c"].verdict == (verdict if values else "yes")


def test_the_command_and_the_call(lake: Path, tmp_path: Path) -> None:
    report = parquet_bloom.advise([lake], ["user", "country"], fpp=0.001)
    assert report.command == f"parquet-bloom embed '{lake}' --column user --fpp 0.001 --in-place"
    assert report.call == f"parquet_bloom.spark.embed(spark, '{lake}', ['user'], fpp=0.001)"
    lines = str(report).splitlines()
    assert lines[0].startswith(f"{FILES} files, {2 * FILES} row groups, {FILES * ROWS:,} rows, ")
    assert " ".join(lines[1].split()) == "verdict column type distinct ranges leave filters skips asked by why"
    assert [line.split()[:2] for line in lines[2:4]] == [["yes", "user"], ["no", "country"]]
    assert lines[-2:] == [report.command, report.call]
    odd = tmp_path / "odd.parquet"
    rng = np.random.default_rng(1)
    ids = rng.integers(0, 1 << 60, 10_000)
    pq.write_table(pa.table({"a b=0.5": ids, "bulk": [rng.bytes(50) for _ in ids]}), odd, row_group_size=1000)
    assert "--column 'a b=0.5=0.01' " in str(parquet_bloom.advise(odd, "a b=0.5").command)


def test_a_page_shows_what_a_lookup_reads_of_each_column(lake: Path, tmp_path: Path) -> None:
    report = parquet_bloom.advise(lake, sample=8)
    page = report.to_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text("utf-8") == page
    shown = read_report(page)
    states = drawn_states(page)
    columns = {path: states[40 * number : 40 * number + 40] for number, path in enumerate(drawn_paths(page))}
    assert set(columns) == {f"{advice.column}: {advice.verdict}" for advice in report.columns}
    assert [*columns] == sorted(columns, key=lambda name: ("yes", "maybe", "no").index(name.rpartition(" ")[2]))
    assert set(columns["seq: no"]) == {"read", "range"}
    user = report["user"]
    assert columns["user: yes"].count("read") == max(1, round((1 - user.skipped_present) * 40))
    assert columns["user: yes"].count("filter") > 20
    assert any("a filter: yes; " in text for text in drawn_texts(page, "filter"))
    (table,) = shown["tables"]
    assert [row[:2] for row in table["rows"]] == [name.rsplit(": ", 1) for name in columns]
    assert shown["commands"] == [["To embed what is advised", report.command]]
    assert ["columns worth a filter", f"{len(report.worth())}", f"of {len(columns)}"] in shown["facts"]
    unsure = replace(user, skipped_present=None, verdict="maybe")
    assert set(drawn_states(replace(report, columns=(unsure,)).to_html())) == {"unknown"}
    wide = replace(report, columns=tuple(replace(user, column=f"user{i}") for i in range(201)))
    assert drawn_paths(wide.to_html())[-1] == "user199: yes"
    assert "The first 200 of 201 columns are drawn." in read_report(wide.to_html())["map"]["about"]
    assert len(read_report(wide.to_html())["tables"][0]["rows"]) == 201
    assert read_report(replace(report, columns=(), failures=(("a", "a: broken"),)).to_html())["notes"]


def test_broken_files_and_wrong_parameters(lake: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no Parquet PAR1")
    good = tmp_path / "good.parquet"
    good.write_bytes((lake / "0.parquet").read_bytes())
    seen: list[tuple[int, int]] = []
    report = parquet_bloom.advise(tmp_path, threads=1, progress=lambda *step: seen.append(step))
    assert seen == [(1, 2), (2, 2)]
    assert (report.files, [path for path, _ in report.failures]) == (1, [str(tmp_path / "broken.parquet")])
    assert f"cannot be read: {tmp_path / 'broken.parquet'}: " in str(report)
    with pytest.raises(errors.UnknownColumnError, match="'nobody': no such column in any file"):
        parquet_bloom.advise(good, ["nobody"])
    with pytest.raises(errors.ParquetBloomError, match="fpp"):
        parquet_bloom.advise(good, fpp=0)
    with pytest.raises(errors.ParquetBloomError, match="sample"):
        parquet_bloom.advise(good, sample=-1)


def test_a_column_that_cannot_be_read(lake: Path, tmp_path: Path) -> None:
    data = bytearray((lake / "0.parquet").read_bytes())
    chunk = pq.read_metadata(lake / "0.parquet").row_group(0).column(1)
    data[chunk.dictionary_page_offset : chunk.dictionary_page_offset + 20] = bytes(20)
    (tmp_path / "a.parquet").write_bytes(data)
    report = parquet_bloom.advise(tmp_path, ["user", "country"])
    assert f"; in a file it cannot be read ({tmp_path / 'a.parquet'}: row group 0, column 'user': " in str(report)
    assert report["country"].distinct is not None
    (tmp_path / "b.parquet").write_bytes((lake / "1.parquet").read_bytes())
    user = parquet_bloom.advise(tmp_path, ["user"])["user"]
    assert user.verdict == "yes"
    assert "; in a file it cannot be read (" in user.reason


def test_few_row_groups_and_dear_filters(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    ids = rng.integers(0, 1 << 60, 3000)
    pq.write_table(pa.table({"id": ids, "other": [rng.bytes(200) for _ in ids]}), tmp_path / "a.parquet")
    alone = parquet_bloom.advise(tmp_path / "a.parquet", ["id"])["id"]
    assert (alone.verdict, alone.holding) == ("maybe", 1)
    assert alone.reason == "there is one row group, which only values that do not occur can skip"
    pq.write_table(pa.table({"id": ids.astype(np.int32)}), tmp_path / "b.parquet", row_group_size=300)
    dear = parquet_bloom.advise(tmp_path / "b.parquet")["id"]
    assert dear.verdict == "maybe"
    assert re.fullmatch(r"filters would take 2\d% of the files' size", dear.reason)
    dearer = parquet_bloom.advise(tmp_path / "b.parquet", fpp=0.0001)["id"]
    assert re.fullmatch(r"filters would take 5\d% of the files' size, and 2\d% at fpp 0.05", dearer.reason)


def test_shares_of_ranges_and_of_equal_bounds() -> None:
    urls = [(b"https://example.org/order/%04d" % n, b"https://example.org/order/%04d~" % n) for n in range(50)]
    for bounds, share in (
        *(([], 1), ([(0, 10)] * 7, 1), ([(n * 10, n * 10 + 9) for n in range(20)], 1 / 20), ([(b"", b"")] * 3, 1)),
        *(([(b"u%02d" % n, b"u%02d~" % n) for n in range(20)], 1 / 20), ([(float("-inf"), float("inf"))] * 3, 1)),
        ([(n / 20, (n + 0.9) / 20) for n in range(20)], 1 / 20),
    ):
        assert share_in_range(bounds) == pytest.approx(share)
    assert share_in_range([(0, 9), (10, 19)], unknown=2) == pytest.approx(3 / 4)
    assert 0.02 <= share_in_range([(n * 5, n * 5 + 10) for n in range(100)]) <= 0.03
    assert share_in_range([*urls, (b"-", urls[25][1])]) < 0.04  # one text unlike the others does not blur them
    assert share_in_range([*urls, (b"", b"")]) < 0.03
    assert share_of_equal_bounds([]) is share_of_equal_bounds([(1, 2)]) is None
    assert share_of_equal_bounds([(1, 2), (1, 3)]) == (1, 0)
    assert share_of_equal_bounds([(1, 5), (1, 5), (2, 5), (3, 6)]) == pytest.approx((1 / 6, 1 / 2))
    assert share_of_equal_bounds([(b"a", b"z"), (b"a", b"x" * 64)]) is None
    rng = np.random.default_rng(2)
    users = np.arange(1000)
    spans = [(int(some.min()), int(some.max())) for some in (rng.choice(users, 500, replace=False) for _ in range(400))]
    assert share_of_equal_bounds(spans) == pytest.approx((1 / 3, 1 / 3), abs=0.05)  # Jaccard's index of halves


def test_share_in_common() -> None:
    def sample(values: Any) -> Sample:
        hashes = np.unique(hash_values(pa.array(values)))
        return Sample(len(values), len(hashes), hashes[:SKETCH])

    assert share_in_common([[sample(range(100))]]) is None
    assert share_in_common([[sample(range(100))], [sample(range(100))]]) == 1
    assert share_in_common([[sample(range(50_000))], [sample(range(50_000, 100_000))]]) == 0
    half = share_in_common([[sample(range(50_000))], [sample(range(25_000, 75_000))]])
    assert half == pytest.approx(0.5, abs=0.08)
    few_of_many = share_in_common([[sample(range(10))], [sample(range(50_000))]])
    assert few_of_many is None or 0 <= few_of_many <= 1
    buckets = [[sample(range(100))] * 2, [sample(range(100, 200))]]
    assert share_in_common(buckets, 0.25) == 0.25
    assert share_in_common(buckets[:1], 0.25) == 1


def test_buckets_by_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for number in range(8):
        values = rng.choice(rng.integers(0, 1 << 60, 500), 20_000)
        pq.write_table(pa.table({"key": values}), tmp_path / f"{number}.parquet", row_group_size=4000)
    (key,) = parquet_bloom.advise(tmp_path, sample=8).columns
    assert key.holding == pytest.approx(1 / 8, rel=0.1)  # all five row groups of a file, out of 40


def test_engines() -> None:
    of = column_type.from_arrow
    assert engines_for(of(pa.int8())) == ("DuckDB", "ClickHouse", "Spark")
    assert engines_for(of(pa.uint64())) == ("DuckDB", "DataFusion", "ClickHouse")
    assert engines_for(of(pa.timestamp("us"))) == ("DuckDB",)
    assert engines_for(of(pa.timestamp("us", "UTC"))) == ("DuckDB", "Spark")
    assert engines_for(column_type.from_parquet("INT96")) == engines_for(of(pa.bool_())) == ()
    assert engines_for(of(pa.string()), repeated=True) == ()
    assert engines_for(of(pa.string()), nested=True) == ("DuckDB", "ClickHouse", "Spark")
    assert engines_for(of(pa.decimal128(38, 2))) == ("DataFusion", "Spark")
    assert engines_for(of(pa.date32())) == ("DuckDB", "Spark")
