"""Encrypted files: refused on one line where footer or column are, open columns served, nothing planted believed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from support.corpus import FOLDER
from support.writers import encrypted_files as files

import parquet_bloom
from parquet_bloom import LakeIndex, zones
from parquet_bloom.cli import tool
from parquet_bloom.errors import EncryptedFileError, ParquetBloomError

SEALED = {"columns": ("secret",), "all": ()}
WITHOUT_KEYS = "cannot be changed without the keys"


@pytest.fixture(params=files.ALGORITHMS)
def algorithm(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def mixed(algorithm: str, tmp_path: Path) -> Path:
    """A plaintext footer, one column encrypted."""
    return files.encrypted(tmp_path / "mixed.parquet", algorithm, plaintext_footer=True)


def refused(call: Callable[[], object], path: Path, words: str) -> None:
    with pytest.raises(EncryptedFileError, match=words) as caught:
        call()
    text = str(caught.value)
    assert text.startswith(str(path))
    assert "\n" not in text


def everything(path: Path, folder: Path, column: str) -> dict[str, Callable[[], object]]:
    """Run every operation on a file."""
    output = folder / "output.parquet"
    value = repr(files.PLACE[column])
    return {
        "open": lambda: parquet_bloom.open(path).close(),
        "verify": lambda: parquet_bloom.verify(path, data=True),
        "embed": lambda: parquet_bloom.embed(path, [column], output=output),
        "embed in place": lambda: parquet_bloom.embed(path, [column], replace=True),
        "drop": lambda: parquet_bloom.drop(path, output=output),
        "prune": lambda: parquet_bloom.prune(path, f"{column} = {value}"),
        "row_ranges": lambda: parquet_bloom.dataset(path).scan(f"{column} = {value}").row_ranges(),
        "read_table": lambda: parquet_bloom.read_table(path, f"{column} = {value}"),
        "to_batches": lambda: list(parquet_bloom.dataset(path).scan(f"{column} = {value}").to_reader()),
        "zones": lambda: zones.build(path, column, folder / "zones.arrow"),
        "append": lambda: LakeIndex.create(folder / "index", [column]).append([path]),
    }


@pytest.mark.parametrize("columns", SEALED.values(), ids=SEALED)
def test_an_encrypted_footer_is_refused_everywhere(columns, algorithm, tmp_path):
    path = files.encrypted(tmp_path / "a.parquet", algorithm, plaintext_footer=False, columns=columns)
    before = path.read_bytes()
    for call in everything(path, tmp_path, "open").values():
        refused(call, path, "the footer is encrypted")
    report = parquet_bloom.advise(path)
    assert report.failures == ((str(path), f"{path}: the footer is encrypted"),)
    assert path.read_bytes() == before
    assert not (tmp_path / "output.parquet").exists()


CORPUS = FOLDER / "encrypt_columns_and_footer_bloom_filter.parquet.encrypted"


@pytest.mark.skipif(not CORPUS.exists(), reason="no file of another project")
def test_a_file_with_filters_under_encryption(tmp_path):
    path = Path(shutil.copy(CORPUS, tmp_path / "a.parquet"))
    for name, call in everything(path, tmp_path, "open").items():
        if name != "append":
            refused(call, path, "the footer is encrypted")
    assert path.read_bytes() == CORPUS.read_bytes()


@pytest.mark.parametrize("kind", ["mixed", "all", "signed"])
@pytest.mark.parametrize("column", ["open", "secret"])
def test_no_footer_that_is_signed_is_changed(kind, column, tmp_path):
    """Not even for an open column: the signature, which nobody can renew without the key, would not fit any more."""
    path = tmp_path / "a.parquet"
    if kind == "signed":
        files.signed(path)
    else:
        files.encrypted(path, plaintext_footer=True, columns=("secret",) if kind == "mixed" else ())
    before = path.read_bytes()
    for name in ("embed", "embed in place", "drop"):
        refused(everything(path, tmp_path, column)[name], path, WITHOUT_KEYS)
    assert path.read_bytes() == before
    assert not (tmp_path / "output.parquet").exists()


def test_open_columns_are_served(mixed, tmp_path):
    """Beside an encrypted one, and where all of it is under encryption, its metadata too."""
    for path in (mixed, files.without_metadata(shutil.copy(mixed, tmp_path / "sealed.parquet"))):
        index = LakeIndex.create(tmp_path / f"index of {path.name}", ["open"])
        index.append([path])
        target = tmp_path / "zones.arrow"
        zones.build(path, "open", target, rows_per_zone=8)
        with zones.open(target) as zoned:
            for name in ("open", "name"):
                where = f"{name} = {files.PLACE[name]!r}"
                report = parquet_bloom.prune(path, where)
                assert report.selected == {str(path): [0]}
                assert report.doubts == []
                for options in ({}, {"index": index}, {"zones": zoned}):
                    result = parquet_bloom.read_table(path, where, columns=["open", "name"], **options)
                    assert result.to_pylist() == [{"open": 5, "name": "n05"}]
        assert parquet_bloom.verify(path, data=True).ok
        with parquet_bloom.open(path) as file:
            assert file.columns == ["open", "secret", "name"]
            assert list(file.chunks()) == []
        index.close()


def test_an_encrypted_column_is_refused_by_name(mixed, tmp_path):
    for path in (mixed, files.without_metadata(shutil.copy(mixed, tmp_path / "sealed.parquet"))):
        queried = everything(path, tmp_path, "secret")
        for name in ("read_table", "to_batches"):
            refused(queried[name], path, "encrypted columns cannot be read, only the others: 'secret'$")
        refused(lambda: parquet_bloom.read_table(path, "open = 5"), path, "'secret'$")  # noqa: B023
        refused(queried["zones"], path, "row group 0, column 'secret': the column is encrypted")
        advice = parquet_bloom.advise(path)["secret"]
        assert "the column is encrypted" in str(advice)
        # An index takes the file, for its other columns; for this one it stays a candidate for all values.
        with LakeIndex.create(tmp_path / f"index of {path.name}", ["secret", "open"]) as index:
            assert index.append([path]).uncovered == {"secret": {str(path): "the column is encrypted"}}
            for value in (1005, 5):
                report = parquet_bloom.prune(path, f"secret = {value}", index=index)
                assert report.selected == {str(path): [0, 1, 2]}


@pytest.mark.parametrize("columns", SEALED.values(), ids=SEALED)
@pytest.mark.parametrize("plant", ["filters", "filters without length", "sealed filters", "statistics", "both"])
def test_nothing_in_the_clear_is_believed_of_an_encrypted_column(plant, columns, algorithm, tmp_path):
    """Filter and statistics rule the row out, and could be anybody's: no key was needed to write them."""
    path = files.encrypted(tmp_path / "a.parquet", algorithm, plaintext_footer=True, columns=columns)
    if plant in ("statistics", "both"):
        files.with_planted_statistics(path)
    if plant != "statistics":
        is_sealed = plant == "sealed filters"
        files.with_planted_filters(path, length=plant != "filters without length", is_sealed=is_sealed)
    for where in ("secret = 1005", "secret < 2000", "secret IN (1005, 7)", "secret IS NULL", "secret IS NOT NULL"):
        for _ in range(2):  # the second time by what a cache knows
            report = parquet_bloom.prune(path, where)
            assert report.selected == {str(path): [0, 1, 2]}, where
            if "NULL" not in where and "<" not in where:  # the filters that would be used
                assert {doubt for *_, doubt in report.doubts} == {"'secret': the column is encrypted"}
        assert parquet_bloom.dataset(path).scan(where).row_ranges() == {
            str(path): {group: [(0, 30)] for group in range(3)}
        }
        refused(lambda: parquet_bloom.read_table(path, where), path, "encrypted columns cannot be read")  # noqa: B023
    if plant == "statistics":
        return
    with parquet_bloom.open(path) as file:
        for chunk in file.chunks(columns=["secret"]):
            assert chunk.problem == "the column is encrypted"
            with pytest.raises(ParquetBloomError, match="column 'secret': the column is encrypted"):
                file.filter(chunk.row_group, "secret")
        assert file.cached.filter_headers == {}  # nothing was read of them
    problems = parquet_bloom.verify(path, data=True).problems
    assert {(problem.column, problem.problem) for problem in problems} >= {("secret", "the column is encrypted")}


def test_a_planted_filter_is_one_that_would_be_believed(tmp_path):
    """Without this, the tests above would hold for filters that nobody believes."""
    path = tmp_path / "a.parquet"
    pq.write_table(files.table(), path, row_group_size=files.GROUP, write_statistics=False)
    files.with_planted_filters(path, everywhere=True)
    assert parquet_bloom.prune(path, "secret = 1005").selected == {}
    pq.write_table(files.table(), path, row_group_size=files.GROUP)
    files.with_planted_statistics(path, everywhere=True)
    assert parquet_bloom.prune(path, "secret = 1005").selected == {}


def test_open_columns_are_shown_beside_one_without_metadata(tmp_path):
    """`show` ended at the first encrypted column all of whose metadata is under encryption."""
    path = tmp_path / "a.parquet"
    files.with_planted_filters(files.encrypted(path, plaintext_footer=True), everywhere=True)
    files.without_metadata(path)
    code, out, err = _show("--json", path)
    document = json.loads(out)
    assert (code, err, document["errors"]) == (0, "", [])
    shown = {(row["row_group"], row["column"]) for row in document["filters"]}
    assert shown == {(group, name) for group in range(3) for name in ("open", "name")}
    code, _, err = _show("--column", "secret", path)
    assert code == 2
    assert "column 'secret': the column is encrypted" in err


def _show(*words: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(tool, ["show", *map(str, words)])
    return result.exit_code, result.stdout, result.stderr


def test_the_tool(tmp_path):
    """Exit codes, one line of error, no traceback."""
    hidden = files.encrypted(tmp_path / "hidden.parquet", plaintext_footer=False)
    mixed = files.with_planted_filters(files.encrypted(tmp_path / "mixed.parquet", plaintext_footer=True))

    def run(*words: object) -> tuple[int, str, str]:
        command = "import sys; from parquet_bloom.cli import main; sys.exit(main())"
        done = subprocess.run([sys.executable, "-c", command, *map(str, words)], capture_output=True, text=True)
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout, done.stderr

    for words in (
        ["show"],
        ["verify"],
        ["embed", "--column", "open", "--in-place"],
        ["drop", "--in-place"],
        ["find", "--where", "open = 5"],
    ):
        code, _, errors = run(*words, hidden)
        assert code != 0, words
        assert "hidden.parquet: the footer is encrypted" in errors, words
    code, _, errors = run("embed", "--column", "open", "--in-place", mixed)
    assert code != 0
    assert WITHOUT_KEYS in errors
    code, output, _ = run("show", "--format", "ndjson", mixed)
    rows = [json.loads(line) for line in output.splitlines()]
    assert {(row["column"], row["problem"]) for row in rows} == {("secret", "the column is encrypted")}
    code, output, errors = run("prune", "--format", "ndjson", "--where", "secret = 1005", mixed)
    assert code == 0
    assert [json.loads(line)["read"] for line in output.splitlines()] == [True] * 3
