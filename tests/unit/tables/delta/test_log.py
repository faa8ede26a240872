"""The reader of the log: every kind of checkpoint, what replaces what, and logs that are broken or lead elsewhere."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.writers.delta_log import (
    add,
    beginning,
    column,
    commit,
    inline_vector,
    remove,
    write_actions,
    write_checkpoint,
)

from parquet_bloom.errors import ParquetBloomError, StorageError
from parquet_bloom.tables.delta import delta_log as reader
from parquet_bloom.tables.delta.delta_log import read_live_adds, require_same_files
from parquet_bloom.tables.table_locations import resolve_delta_path

deltalake = pytest.importorskip("deltalake")
KINDS = ["single", "parts", "v2 json", "v2 parquet", "v2 classic"]
BEGIN = beginning([column("id", "long"), column("p", "string")], ["p"], {}, ["deletionVectors", "v2Checkpoint"])


def live(root: Path, version: int) -> dict[str, dict[str, Any]]:
    """The live actions, which must be those of deltalake."""
    adds = read_live_adds(str(root), version)
    theirs = pa.table(deltalake.DeltaTable(root, version=version).get_add_actions())
    names = [resolve_delta_path(name, str(root)) for name in theirs["path"].to_pylist()]
    found = require_same_files(adds, zip(names, theirs["size_bytes"].to_pylist(), strict=True), str(root))
    return {path.removeprefix(f"{root}/"): action for path, action in found.items()}


def test_actions_are_as_they_were_written(tmp_path: Path) -> None:
    full = add(
        "p=a%252520b/x.parquet",
        stats='{"numRecords":1,"minValues":{"id":1.50}}',
        partitionValues={"p": "a%20b"},
        tags={"INSERTION_TIME": "1", "none": None},
        deletionVector=inline_vector([0]),
        baseRowId=7,
        somethingNew={"x": [1]},
        clusteringProvider=None,
    )
    commit(tmp_path, 0, [*BEGIN, full, add("plain.parquet", partitionValues={"p": None})])
    (one, other) = read_live_adds(str(tmp_path), 0)
    assert one == {name: value for name, value in full["add"].items() if value is not None}
    assert other["partitionValues"] == {"p": None}
    assert live(tmp_path, 0).keys() == {"p=a%2520b/x.parquet", "plain.parquet"}


def test_later_actions_replace_earlier_ones(tmp_path: Path) -> None:
    first, second = inline_vector([1]), inline_vector([1, 2])
    commit(tmp_path, 0, [*BEGIN, add("a"), add("b"), add("c")])
    commit(tmp_path, 1, [remove("a"), add("a", deletionVector=first)])
    commit(tmp_path, 2, [remove("a", deletionVector=first), add("a", deletionVector=second), remove("b")])
    commit(tmp_path, 3, [add("b", size=7), {"txn": {"appId": "x", "version": 1}}, {"commitInfo": {"add": 1}}])
    assert [live(tmp_path, version).keys() for version in range(4)] == [{*"abc"}, {*"abc"}, {*"ac"}, {*"abc"}]
    assert live(tmp_path, 1)["a"]["deletionVector"] == first
    assert live(tmp_path, 3)["a"]["deletionVector"] == second
    assert live(tmp_path, 3)["b"]["size"] == 7


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kept", [False, True])
def test_checkpoints(tmp_path: Path, kind: str, kept: bool) -> None:
    """With the commits before the checkpoint, and without them."""
    vector = inline_vector([4])
    state = [add(f"{n}.parquet", 100 + n, {"numRecords": n}, partitionValues={"p": f"{n}"}) for n in range(7)]
    state.append(add("v.parquet", 5, deletionVector=vector, tags={"k": "v"}, baseRowId=9, partitionValues={"p": None}))
    tombstone = remove("gone.parquet")
    commit(tmp_path, 0, [*BEGIN, *state, add("gone.parquet")])
    commit(tmp_path, 1, [tombstone])
    commit(tmp_path, 2, [remove("3.parquet"), add("new.parquet")])
    write_checkpoint(tmp_path, 1, [*BEGIN, *state, tombstone], kind)
    before = read_live_adds(str(tmp_path), 1)
    if not kept:
        for version in (0, 1):
            (tmp_path / "_delta_log" / f"{version:020}.json").unlink()
    assert [action["path"] for action in before] == [f"{n}.parquet" for n in range(7)] + ["v.parquet"]
    assert before == [action["add"] for action in state]
    assert live(tmp_path, 2).keys() == {*(f"{n}.parquet" for n in range(7) if n != 3), "v.parquet", "new.parquet"}
    few = read_live_adds(str(tmp_path), 1, fields=())
    if kind != "v2 json":
        assert [set(action) for action in few] == [{"path", "size"}] * 7 + [{"path", "size", "deletionVector"}]
    else:
        assert few[7]["deletionVector"] == vector


def test_an_incomplete_checkpoint_is_not_one(tmp_path: Path) -> None:
    commit(tmp_path, 0, [*BEGIN, add("a")])
    commit(tmp_path, 1, [add("b")])
    first, _ = write_checkpoint(tmp_path, 1, [*BEGIN, add("a"), add("b")], "parts")
    assert live(tmp_path, 1).keys() == {"a", "b"}
    first.unlink()
    assert live(tmp_path, 1).keys() == {"a", "b"}
    (tmp_path / "_delta_log" / f"{0:020}.json").unlink()
    with pytest.raises(ParquetBloomError, match="version 1 cannot be read: commit 0 is missing, and no checkpoint"):
        read_live_adds(str(tmp_path), 1)


def test_missing_commits(tmp_path: Path) -> None:
    for version in range(4):
        commit(tmp_path, version, [*(BEGIN if not version else []), add(f"{version}")])
    (tmp_path / "_delta_log" / f"{2:020}.json").unlink()
    assert len(read_live_adds(str(tmp_path), 1)) == 2
    for version in (2, 3, 9):
        with pytest.raises(ParquetBloomError, match=r"_delta_log: version .* cannot be read: commit 2 is missing"):
            read_live_adds(str(tmp_path), version)
    with pytest.raises(StorageError, match="cannot list the folder"):
        read_live_adds(str(tmp_path / "nothing"), 0)


def test_another_live_set_refuses() -> None:
    adds = [add("a", 1)["add"], add("b%20c", 2)["add"]]
    assert require_same_files(adds, [("/t/a", 1), ("/t/b c", 2)], "/t").keys() == {"/t/a", "/t/b c"}
    different = {
        "file /t/b c is live by its log, but not by deltalake": [("/t/a", 1)],
        "file /t/d is live by deltalake, but not by its log": [("/t/a", 1), ("/t/b c", 2), ("/t/d", 3)],
        "file /t/a has two sizes in its log": [("/t/a", 2), ("/t/b c", 2)],
    }
    for problem, files in different.items():
        with pytest.raises(ParquetBloomError, match=problem):
            require_same_files(adds, files, "/t")
    with pytest.raises(ParquetBloomError, match="its log lists the file /t/a twice"):
        require_same_files([*adds, add("%61", 1)["add"]], [("/t/a", 1), ("/t/b c", 2)], "/t")


BROKEN_LINES = [
    "{",
    "[]",
    "5",
    '"add"',
    "\ufffd\udcff",
    '{"add": 5}',
    '{"add": {}}',
    '{"add": {"path": ""}}',
    '{"add": {"path": "a"}}',
    '{"add": {"path": "a", "size": -1}}',
    '{"add": {"path": "a", "size": true}}',
    '{"add": {"path": "a", "size": "1"}}',
    '{"add": {"path": "a", "size": 1e3}}',
    '{"add": {"path": ["a"], "size": 1}}',
    '{"add": {"path": "a", "size": 1, "partitionValues": []}}',
    '{"add": {"path": "a", "size": 1, "partitionValues": {"p": 1}}}',
    '{"add": {"path": "a", "size": 1, "stats": {}}}',
    '{"remove": {}}',
    '{"remove": {"path": 5}}',
    '{"remove": []}',
    '{"add": {"path": "a", "size": ' + "9" * 5_000 + "}}",
    '{"add": ' + "[" * 100_000,
]


@pytest.mark.parametrize("number", range(len(BROKEN_LINES)))
def test_broken_lines(tmp_path: Path, number: int) -> None:
    path = commit(tmp_path, 0, [*BEGIN, add("a")])
    with path.open("ab") as file:
        file.write(b"\n\n  \n" + BROKEN_LINES[number].encode("utf-8", "surrogateescape"))
    with pytest.raises(ParquetBloomError) as caught:
        read_live_adds(str(tmp_path), 0)
    assert str(caught.value).startswith(f"{path}: the table's log cannot be understood: ")
    assert len(str(caught.value)) < 2_000


@pytest.mark.ci
def test_lines_across_pieces_of_what_is_read(tmp_path: Path) -> None:
    path = commit(tmp_path, 0, [*BEGIN, *(add(f"{n:0200}.parquet") for n in range(30_000))])
    assert path.stat().st_size > 8.5 * 2**20
    assert len(read_live_adds(str(tmp_path), 0)) == 30_000


@pytest.mark.parametrize(
    ("name", "limit", "kind", "problem"),
    [
        ("_LONGEST_LINE", 50, None, "a line is longer than 50 bytes"),
        ("_MOST_ACTIONS", 99, None, "more than 99 files"),
        ("_MOST_ACTIONS", 99, "v2 json", "too many actions"),
    ],
)
def test_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, limit: int, kind: str | None, problem: str
) -> None:
    state = [*BEGIN, *(add(f"{n:09}.parquet") for n in range(100))]
    path = commit(tmp_path, 0, state)
    path.write_text(path.read_text().rstrip("\n"))
    if kind:
        write_checkpoint(tmp_path, 0, state, kind)
    monkeypatch.setattr(reader, name, limit)
    with pytest.raises(ParquetBloomError, match=problem):
        read_live_adds(str(tmp_path), 0)


@pytest.mark.parametrize(
    "name", ["../x.parquet", "/etc/passwd", "a/b.parquet", "", "..", "file:///x", "s3://b/x", 5, None]
)
def test_sidecars_elsewhere(tmp_path: Path, name: Any) -> None:
    top = [{"checkpointMetadata": {"version": 0}}, *BEGIN, {"sidecar": {"path": name, "sizeInBytes": 1}}]
    path = tmp_path / "_delta_log" / f"{0:020}.checkpoint.3a0d65cd-4056-49b8-937b-95f9e3ee90e5.json"
    path.parent.mkdir()
    path.write_text("\n".join(map(json.dumps, top)))
    with pytest.raises(ParquetBloomError, match=r"it has a sidecar .*, which is not in _sidecars/"):
        read_live_adds(str(tmp_path), 0)


def test_files_of_the_log_that_are_links_to_elsewhere(tmp_path: Path) -> None:
    commit(tmp_path / "other", 0, [*BEGIN, add("a")])
    (tmp_path / "t" / "_delta_log").mkdir(parents=True)
    (tmp_path / "t" / "_delta_log" / f"{0:020}.json").symlink_to(tmp_path / "other" / "_delta_log" / f"{0:020}.json")
    with pytest.raises(StorageError, match="it is a link that leads out of its folder"):
        read_live_adds(str(tmp_path / "t"), 0)


def test_sidecars_of_sidecars(tmp_path: Path) -> None:
    _, first, _ = write_checkpoint(tmp_path, 0, [*BEGIN, add("a"), add("b")], "v2 json")
    write_actions(first, [{"sidecar": {"path": first.name}}], {"sidecar": pa.struct([("path", pa.string())])})
    with pytest.raises(ParquetBloomError, match="a sidecar names other sidecars"):
        read_live_adds(str(tmp_path), 0)
    write_actions(first, [{"sidecar": "x"}], {"sidecar": pa.string()})
    with pytest.raises(ParquetBloomError, match="a column of actions is not a struct"):
        read_live_adds(str(tmp_path), 0)
    first.unlink()
    with pytest.raises(StorageError):
        read_live_adds(str(tmp_path), 0)


@pytest.mark.ci
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_checkpoints(tmp_path: Path, kind: str) -> None:
    """Bytes changed by chance: actions, which deltalake would have to confirm, or an error on one line."""
    rng = random.Random(4)
    paths = write_checkpoint(tmp_path / "t", 0, [*BEGIN, *(add(f"{n}", stats="{}") for n in range(20))], kind)
    refused = 0
    for _ in range(60):
        shutil.copytree(tmp_path / "t", tmp_path / "u", dirs_exist_ok=True)
        path = tmp_path / "u" / rng.choice(paths).relative_to(tmp_path / "t")
        data = bytearray(path.read_bytes())
        for _ in range(rng.randrange(1, 5)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(data[: rng.choice([len(data)] * 3 + [rng.randrange(len(data))])])
        try:
            read_live_adds(str(tmp_path / "u"), 0)
        except ParquetBloomError as error:
            text = str(error)
            refused += 1
            assert len(text.splitlines()) == 1
            assert str(tmp_path / "u") in text
    assert refused
