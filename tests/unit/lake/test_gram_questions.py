"""What users are told of grams: which were asked for, and whether an index of them is worth it."""

from __future__ import annotations

import json
import random
import re
import shutil
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError, PredicateError, UnknownColumnError
from parquet_bloom.lake import advise_index

WORDS = "connection refused by upstream while reading header from client timeout exceeded retry in queue"


def make_lake(folder: Path) -> Path:
    folder.mkdir()
    for number in range(4):
        rng = random.Random(number)
        texts = [f"{' '.join(rng.sample(WORDS.split(), 3))} {rng.getrandbits(64):x}" for _ in range(400)]
        texts[7] = f"kernel panic no. {number}"
        path = folder / f"{number}.parquet"
        pq.write_table(pa.table({"message": texts}), path, row_group_size=200, use_dictionary=False)
    return folder


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_lake(tmp_path_factory.mktemp("grams") / "lake")


@pytest.fixture(scope="module")
def index(lake: Path) -> str:
    path = f"{lake}.index"
    with parquet_bloom.LakeIndex.create(path, ["grams(message)"], lake=lake, granularity="row_group") as made:
        made.append()
    return path


@pytest.mark.ci
def test_the_grams_of_a_question_are_shown_with_their_units(lake: Path, index: str) -> None:
    report = parquet_bloom.prune(lake, "message LIKE '%panic no. 2%'", index=index)
    assert [Path(path).name for path in report.selected] == ["2.parquet"]
    [line] = report.index_notes
    assert line.startswith("grams(message), of 8 row groups: ")
    assert " in 1" in line
    assert " in 4" in line  # "panic" is in each file
    assert line in report.explain()


@pytest.mark.parametrize("where", ["message LIKE '%pa%'", "message NOT LIKE '%panic%'", "regexp_matches(message, '.')"])
def test_what_no_gram_decides_is_said_and_read(lake: Path, index: str, where: str) -> None:
    report = parquet_bloom.prune(lake, where, index=index)
    assert len(report.selected) == 4
    [line] = report.index_notes
    assert line.startswith(f"grams(message) cannot tell where {where}: ")


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("message LIKE '%pa%'", "no text of 3 bytes or more has to be there"),
        ("message ILIKE '%panic%'", "that takes grams(lower(message))"),
        ("regexp_matches(message, '(?i)panic')", "that takes grams(lower(message))"),
        ("upper(message) LIKE '%PANIC%'", "they are not those of upper(message)"),
    ],
)
def test_the_reason_why_there_are_no_grams_is_the_true_one(lake: Path, index: str, where: str, reason: str) -> None:
    report = parquet_bloom.prune(lake, where, index=index)
    assert len(report.selected) == 4
    assert report.index_notes[0].endswith(f": {reason}")


def test_grams_are_shown_as_the_text_that_they_are_of(lake: Path, index: str) -> None:
    [line] = parquet_bloom.prune(lake, "message LIKE '%Gr\u00f6\u00dfe%'", index=index).index_notes
    assert "\u00c3" not in line
    assert "\u00f6" in line
    assert re.search(r"\\x[0-9a-f]{2}", line)  # a part of a character


@pytest.mark.usefixtures("settled_tokens")
def test_files_that_are_not_covered_are_no_files_without_the_gram(lake: Path, tmp_path: Path) -> None:
    shutil.copytree(lake, tmp_path / "lake")
    pq.write_table(pa.table({"message": [b"panic no. 2"]}), tmp_path / "lake" / "binary.parquet")
    with parquet_bloom.LakeIndex.create(tmp_path / "i", ["grams(message)"], lake=tmp_path / "lake") as made:
        assert [*made.append().uncovered] == ["grams(message)"]
        report = parquet_bloom.prune(tmp_path / "lake", "message LIKE '%no. 2%'", index=made)
    assert [Path(path).name for path in report.selected] == ["2.parquet", "binary.parquet"]
    assert report.index_notes[0].startswith("grams(message), of 4 files: ")


def test_files_are_ruled_out_by_a_gram_and_not_by_an_expression(lake: Path, index: str) -> None:
    text = parquet_bloom.prune(lake, "message LIKE '%no. 2%'", index=index).explain()
    assert "the index says: a gram of 'message' is absent" in text


def test_the_page_says_what_the_index_was_asked(lake: Path, index: str) -> None:
    report = parquet_bloom.prune(lake, "message LIKE '%no. 2%' OR message LIKE '%zz%'", index=index)
    assert len(report.index_notes) == 2
    page = report.to_html()
    assert all(json.dumps(f"Of the index: {note}.")[1:-1] in page for note in report.index_notes)


def test_grams_of_lower_case_answer_both_kinds_of_questions(lake: Path, tmp_path: Path) -> None:
    with parquet_bloom.LakeIndex.create(tmp_path / "i", ["grams(lower(message))"], lake=lake) as made:
        made.append()
        for where in ("message ILIKE '%PANIC NO. 2%'", "lower(message) LIKE '%panic no. 2%'", "message LIKE '%no. 2%'"):
            assert [Path(path).name for path in parquet_bloom.prune(lake, where, index=made).selected] == ["2.parquet"]
            assert parquet_bloom.read_table(lake, where=where, index=made).num_rows == 1
        report = parquet_bloom.prune(lake, "upper(message) LIKE '%PANIC NO. 2%'", index=made)
        assert len(report.selected) == 4


@pytest.mark.ci
def test_advice_measures_pieces_of_text(tmp_path: Path) -> None:
    rng, num_bytes = random.Random(1), 0
    for number in range(4):
        words = ["".join(rng.choices("abcdefghijklmnop", k=rng.randrange(3, 9))) for _ in range(40)]
        texts = [None if row % 5 == 0 else " ".join(rng.choices(words, k=6)) for row in range(6000)]
        num_bytes += sum(len(text or "") for text in texts)
        pq.write_table(pa.table({"message": texts}), tmp_path / f"{number}.parquet", row_group_size=3000)
    advice = advise_index(tmp_path, "grams(message)", zone_rows=200)
    assert advice.recommended is not None
    for option in advice.granularities:
        assert option.text_share == pytest.approx(option.num_bytes / num_bytes, rel=0.001)
    assert advice.granularities[0].text_share < advice.granularities[2].text_share
    assert f"{advice.granularities[0].text_share:.0%} of the text;" in str(advice).splitlines()[0]
    shares = {piece.length: piece.named for piece in advice.granularities[-1].pieces}
    assert {*shares} == {4, 6, 8, 12, 16, 24}
    assert 0 < shares[24] <= shares[12] < shares[4] <= 1
    assert "a piece of text is looked for in" in str(advice)
    assert "a key" not in str(advice).splitlines()[0]


def test_short_pieces_of_random_ids_are_everywhere(tmp_path: Path) -> None:
    rng = random.Random(1)
    ids = [f"{rng.randrange(10**12):012}" for _ in range(60_000)]
    pq.write_table(pa.table({"id": ids}), tmp_path / "a.parquet", row_group_size=30_000)
    advice = advise_index(tmp_path, "grams(id)", granularities=["row_group"])
    shares = {piece.length: piece.named for piece in advice.granularities[0].pieces}
    assert shares[4] > 0.9


@pytest.mark.parametrize("texts", [[None] * 100, ["ab", ""] * 50, ["abc", "xyz"] * 50])
def test_texts_that_are_too_short_for_pieces_are_no_reason_for_an_index(
    tmp_path: Path, texts: list[str | None]
) -> None:
    for number in range(2):
        pq.write_table(pa.table({"x": pa.array(texts, pa.string())}), tmp_path / f"{number}.parquet")
    advice = advise_index(tmp_path, "grams(x)")
    assert advice.recommended is None
    assert advice.reason.startswith("the texts are shorter than 4 bytes")


def test_a_piece_of_short_texts_is_half_of_one(tmp_path: Path) -> None:
    """All of one is a question for an index of the column, or for bounds."""
    rng = random.Random(1)
    ids = [f"{rng.randrange(10**12):012}" for _ in range(60_000)]
    pq.write_table(pa.table({"id": ids}), tmp_path / "a.parquet", row_group_size=20_000)
    advice = advise_index(tmp_path, "grams(id)")
    assert {option.piece_length for option in advice.granularities} == {6}


@pytest.mark.ci
def test_grams_of_random_ids_are_too_many(tmp_path: Path) -> None:
    rng = random.Random(1)
    ids = [str(uuid.UUID(int=rng.getrandbits(128))) for _ in range(3000)]
    repeated = [
        f"{rng.getrandbits(16):04x}" * 7 for _ in range(50_000)
    ]  # of which a large file has less than small ones
    pq.write_table(pa.table({"id": ids}), tmp_path / "ids.parquet")
    pq.write_table(pa.table({"id": repeated}), tmp_path / "repeated.parquet", row_group_size=5000)
    other, finer = (advise_index(tmp_path / name, "grams(id)") for name in ("ids.parquet", "repeated.parquet"))
    assert other.reason.startswith("an index would take 1")
    assert finer.reason.startswith("a piece of 12 bytes may be in 100% of the units, and a finer index would take 2")
    for advice in (other, finer):
        assert (advice.recommended, advice.command) == (None, "")
        assert "% of the bytes of the text, as of random ids" in advice.reason
        assert "by an index of the column (`get`) or by Bloom filters, their beginnings by bounds" in advice.reason


@pytest.mark.parametrize("column", ["grams()", "grams(upper(message))", "grams(message", "lower(grams(message))"])
def test_what_is_no_expression_is_said_to_be_none(lake: Path, tmp_path: Path, column: str) -> None:
    with (
        parquet_bloom.LakeIndex.create(tmp_path / "i", [column], lake=lake) as made,
        pytest.raises(UnknownColumnError, match=r"no such column in any of 4 files; nor is it an expression: lower"),
    ):
        made.append()
    with pytest.raises(ParquetBloomError, match=r"no such column; nor is it an expression: lower"):
        advise_index(lake, column)
    with pytest.raises(ParquetBloomError, match=r"no such column$"):
        advise_index(lake, "grams(nope)")


def test_grams_are_of_postings_and_of_texts(lake: Path, tmp_path: Path) -> None:
    with pytest.raises(ParquetBloomError, match="grams are of the layout 'postings'"):
        parquet_bloom.LakeIndex.create(tmp_path / "c", ["grams(message)"], lake=lake, layout="cuckoo")
    with parquet_bloom.LakeIndex.create(tmp_path / "i", ["grams(message)"], lake=lake) as made:
        made.append()
        with pytest.raises(PredicateError, match="asked for by a predicate"):
            made.lookup("grams(message)", ["panic"])
