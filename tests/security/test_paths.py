"""Paths in manifests, tables, indexes and requests: none of them leads out of where its files belong."""

from __future__ import annotations

import json
import os
import shutil
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from support.processes.watching import everything_in, touched

from parquet_bloom import zones
from parquet_bloom.cli import tool
from parquet_bloom.core.hash.xxh64 import hash_one
from parquet_bloom.errors import IndexInUseError, ParquetBloomError, StorageError
from parquet_bloom.lake.index_manifest import manifest_name
from parquet_bloom.lake.lake_index import LakeIndex
from parquet_bloom.storage import list_files, object_location
from parquet_bloom.tables.delta.delta_table import delta_files

pytestmark = pytest.mark.default

# Values in the place of a name of an index file. {} is the folder outside.
NAMES = [
    "../outside/secret.files", "{}/secret.files", "file://{}/secret.files", "//host/share", "..", ".", "", "a/b",
    "x\0y", "\ud800", "%2e%2e%2foutside%2fsecret.files", "..%2Foutside", "..\\outside\\secret.files",
    "\uff0e\uff0e\uff0foutside", "line\nbreak", "n" * 5_000, "link.files", 7, None, ["x"], {"a": 1}, True,
]  # fmt: skip
COMMANDS = (
    ("lookup", "{index}", "--column", "id", "7"), ("check", "{index}", "--sample", "3"), ("stats", "{index}"),
    ("compact", "{index}"), ("remove", "{index}", "{lake}/a.parquet"), ("append", "{index}"),
)  # fmt: skip


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A lake, an index over it, and beside them a folder that is nobody's business."""
    (tmp_path / "lake").mkdir()
    for name in ("a", "b"):
        pq.write_table(pa.table({"id": [ord(name), 7]}), tmp_path / "lake" / f"{name}.parquet")
    with LakeIndex.create(tmp_path / "index", ["id"], lake=str(tmp_path / "lake")) as index:
        index.append()
    (tmp_path / "outside").mkdir()
    shutil.copy(next((tmp_path / "index").glob("*.files")), tmp_path / "outside" / "secret.files")
    shutil.copy(next((tmp_path / "index").glob("*.postings")), tmp_path / "outside" / "secret.postings")
    (tmp_path / "index" / "link.files").symlink_to(tmp_path / "outside" / "nothing")
    return tmp_path


def newest(index: Path) -> tuple[int, dict[str, Any]]:
    number = max(int(path.name[9:21]) for path in index.glob(manifest_name(0).replace("0", "?")))
    return number, json.loads((index / manifest_name(number)).read_bytes()[:-18])


def forged(index: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Make an altered manifest the newest one, with the right number and checksum."""
    number, document = newest(index)
    change(document)
    document["number"] = number + 1
    body = json.dumps(document).encode()
    (index / manifest_name(number + 1)).write_bytes(body + f"\n{hash_one(body):016x}\n".encode())


def run_all(workspace: Path) -> list[str]:
    """Run every command on the index; what they say on stderr, each on its own terms."""
    output = []
    for command in COMMANDS:
        arguments = [part.format(index=workspace / "index", lake=workspace / "lake") for part in command]
        result = CliRunner().invoke(tool, ["index", *arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert "bug" not in result.stderr, result.stderr
        assert all(character.isprintable() or character == "\n" for character in result.stderr)
        assert len(result.stderr.splitlines()) <= 4
        output.append(result.stderr)
    return output


def only_inside(workspace: Path, seen: list[tuple[str, str]]) -> None:
    outside = os.path.realpath(workspace / "outside")
    for event, path in seen:
        assert not os.path.realpath(os.path.join(workspace / "index", path)).startswith(outside), (event, path)


@pytest.mark.parametrize("where", ["files", "name", "part"])
def test_a_manifest_leads_to_no_file_outside_of_the_index(workspace: Path, where: str) -> None:
    before = everything_in(workspace / "outside") | everything_in(workspace / "lake")
    complete = workspace / "whole"
    shutil.copytree(workspace / "index", complete, symlinks=True)
    for name in NAMES:
        shutil.rmtree(workspace / "index")
        shutil.copytree(complete, workspace / "index", symlinks=True)
        named = name.format(workspace / "outside") if isinstance(name, str) else name

        def change(document: dict[str, Any], named: Any = named) -> None:
            segment = document["segments"][0]
            if where == "part":
                segment["parts"][0]["slices"][0]["name"] = named
            else:
                segment[where] = named

        forged(workspace / "index", change)
        with touched() as seen:
            run_all(workspace)
        only_inside(workspace, seen)
        assert everything_in(workspace / "outside") | everything_in(workspace / "lake") == before


def test_an_index_is_not_left_by_links(workspace: Path) -> None:
    """Its lock, a table of files and a manifest lead elsewhere: nothing there is written, cut or deleted."""
    index, outside = workspace / "index", workspace / "outside"
    (outside / "victim").write_text("precious")
    (outside / manifest_name(9)).write_text("no manifest")
    before = everything_in(outside)
    (index / "writer.lock").unlink(missing_ok=True)
    (index / "writer.lock").symlink_to(outside / "victim")
    with pytest.raises(StorageError, match="cannot lock the folder"), LakeIndex.open(index) as opened:
        opened.remove(str(workspace / "lake" / "a.parquet"))
    (index / "writer.lock").unlink()
    os.link(outside / "victim", index / "writer.lock")
    with pytest.raises(StorageError, match="not a file of the index"), LakeIndex.open(index) as opened:
        opened.compact()
    assert (outside / "victim").read_text() == "precious"
    (index / "writer.lock").unlink()
    table = next(path for path in index.glob("*.files") if not path.is_symlink())
    (index / "0123456789abcdef.files").symlink_to(outside / "secret.files")
    (index / manifest_name(9)).symlink_to(outside / manifest_name(9))
    run_all(workspace)
    (index / manifest_name(9)).unlink()
    run_all(workspace)
    assert not table.exists() or table.is_file()
    assert everything_in(outside).keys() == before.keys()
    assert {path: state[2] for path, state in everything_in(outside).items()} == {
        p: state[2] for p, state in before.items()
    }


def test_foreign_files_are_not_deleted(workspace: Path) -> None:
    """Not even where a manifest says that it is."""
    index = workspace / "index"
    retained = [
        "holiday.files",
        "my.postings",
        "x.cuckoo",
        "notes.txt",
        "manifest-1.json",
        "manifest-000000000001.json.bak",
    ]
    for name in retained:
        (index / name).write_text(name)
    (index / "fedcba9876543210-0.postings").write_text("of a writer that died")
    _, document = newest(index)
    forged(index, lambda document: document["segments"].append({**document["segments"][0], "files": "holiday.files"}))
    forged(index, lambda other: other.update(document))
    with LakeIndex.open(index) as opened:
        opened.compact(keep_seconds=0)
    assert {name: (index / name).read_text() for name in retained} == {name: name for name in retained}
    assert not (index / "fedcba9876543210-0.postings").exists()


def test_a_lake_elsewhere_is_listed_but_never_written_to(workspace: Path) -> None:
    """An index names its lake's location: opening it lists files there, and does nothing else."""
    before = everything_in(workspace / "outside")
    (workspace / "outside" / "c.parquet").write_bytes((workspace / "lake" / "a.parquet").read_bytes())
    before = everything_in(workspace / "outside")
    forged(workspace / "index", lambda document: document.update(lake={"paths": [str(workspace / "outside" / "c*")]}))
    run_all(workspace)
    assert everything_in(workspace / "outside") == before
    with touched() as seen, LakeIndex.open(workspace / "index", live=False) as index:
        index.lookup("id", [7])
    only_inside(workspace, seen)


@pytest.mark.parametrize(
    "lake",
    [
        {"paths": ["../outside\0"]}, {"paths": "x"}, {"paths": [7]}, {"paths": [None]}, {"paths": None}, {"delta": 7},
        {"delta": "/nothing\0"}, {"iceberg": None}, {"other": []}, [], "lake", 7, {"paths": ["\ud800"]},
    ],
)  # fmt: skip
def test_a_lake_that_is_none(workspace: Path, lake: Any) -> None:
    forged(workspace / "index", lambda document: document.update(lake=lake))
    with pytest.raises(ParquetBloomError) as caught:
        LakeIndex.open(workspace / "index").close()
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------------------------------------------------- tables


def delta_table(root: Path, *paths: str) -> Path:
    schema = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    actions: list[dict[str, Any]] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {"id": "x", "format": {"provider": "parquet", "options": {}}, "schemaString": json.dumps(schema),
                      "partitionColumns": [], "configuration": {}, "createdTime": 1}},
    ]  # fmt: skip
    actions += [
        {"add": {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}}
        for path in paths
    ]
    (root / "_delta_log").mkdir(parents=True)
    (root / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    return root


OUTSIDE = [
    "../secret.parquet", "..%2fsecret.parquet", "%2e%2e/secret.parquet", "%2E%2E%2Fsecret.parquet",
    "a/../../secret.parquet",
    "/etc/passwd", "file:///etc/passwd", "FILE:///etc/passwd", "file:/etc/passwd", "file://localhost/etc/passwd",
    "file://host/etc/passwd", "//host/share", "file://{}/../secret.parquet", "file://{}/..%2fsecret.parquet",
    "s3://bucket/key", "http://127.0.0.1:1/x", "link/secret.parquet", "linked.parquet", "a%00b", "{}-too/a.parquet",
]  # fmt: skip


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_delta_table_names_no_file_outside(tmp_path: Path, path: str) -> None:
    pytest.importorskip("deltalake")
    root = delta_table(tmp_path / "t", path.format(tmp_path / "t"))
    (tmp_path / "secret.parquet").write_bytes(b"")
    (root / "link").symlink_to(tmp_path)
    (root / "linked.parquet").symlink_to(tmp_path / "secret.parquet")
    with pytest.raises(ParquetBloomError) as caught:
        delta_files(root)
    assert "\n" not in str(caught.value)
    with pytest.raises(ParquetBloomError):
        LakeIndex.create(tmp_path / "index", ["id"], lake={"delta": str(root)})


def test_outside_files_are_taken_on_request(tmp_path: Path) -> None:
    """And is known by the index from then on."""
    pytest.importorskip("deltalake")
    pq.write_table(pa.table({"id": [7]}), tmp_path / "clone.parquet")
    root = delta_table(tmp_path / "t", f"file://{tmp_path}/clone.parquet")
    with LakeIndex.create(tmp_path / "index", ["id"], lake=delta_files(root, outside=True)) as index:
        index.append()
    with LakeIndex.open(tmp_path / "index") as index:
        assert [one.path for one in index.lookup("id", [7])[0]] == [str(tmp_path / "clone.parquet")]
    document = newest(tmp_path / "index")[1]["lake"]
    assert document == {"delta": str(root), "outside": True}
    forged(tmp_path / "index", lambda document: document.update(lake={"delta": str(root)}))
    with pytest.raises(ParquetBloomError, match="outside of the table's folder"):
        LakeIndex.open(tmp_path / "index")


# -------------------------------------------------------------------------------------- zones, folders, object stores


def test_zones_open_no_file_that_they_name(workspace: Path) -> None:
    """A zone index names files only to be compared with the queried ones."""
    path = workspace / "id.zones.parquet"
    zones.build(workspace / "lake", "id", path)
    with touched() as seen, zones.open(path) as index:
        index.equals(7)
    assert not [one for one in seen if "/lake/" in one[1]]


@pytest.mark.parametrize(
    "value", ["..%2F..%2Foutside", "%2e%2e", "%2Fetc%2Fpasswd", "a%00b", "%FF", "x\\..\\y", "\u2025"]
)
def test_a_folder_s_value_is_a_value_and_no_path(tmp_path: Path, value: str) -> None:
    folder = tmp_path / "lake" / f"day={value}"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"id": [7]}), folder / "a.parquet")
    assert list_files(tmp_path / "lake") == [str(folder / "a.parquet")]
    result = CliRunner().invoke(tool, ["find", str(tmp_path / "lake"), "--where", "id = 7", "--json"])
    assert len(json.loads(result.stdout)["rows"]) == 1


def test_names_are_bytes_and_nothing_is_normalized(tmp_path: Path) -> None:
    """Two spellings of one letter are two files, and what looks like dots and slashes is none."""
    names = [unicodedata.normalize(form, "caf\u00e9.parquet") for form in ("NFC", "NFD")]
    names += ["\uff0e\uff0e\uff0fa.parquet", "\u2024\u2024\u2215a.parquet", "..\\a.parquet"[2:], "%2e%2e%2fa.parquet"]
    (tmp_path / "lake").mkdir()
    for number, name in enumerate(names):
        pq.write_table(pa.table({"id": [number]}), tmp_path / "lake" / name)
    with LakeIndex.create(tmp_path / "index", ["id"], lake=str(tmp_path / "lake")) as index:
        index.append()
        for number, name in enumerate(names):
            assert [one.path for one in index.lookup("id", [number])[0]] == [str(tmp_path / "lake" / name)]


@pytest.mark.parametrize("key", ["a/../b", "../b", "a//b", "a/./b", "..", "/b", "a/..", "./a"])
def test_keys_of_object_stores_lead_nowhere_else(key: str) -> None:
    pytest.importorskip("obstore")
    for url in (f"s3://bucket/{key}", f"gs://bucket/{key}"):
        with pytest.raises(StorageError, match="a key cannot have empty parts"):
            object_location(url, None)


def test_a_pipe_is_not_a_lock_file(workspace: Path) -> None:
    (workspace / "index" / "writer.lock").unlink(missing_ok=True)
    os.mkfifo(workspace / "index" / "writer.lock")
    with LakeIndex.open(workspace / "index") as index, pytest.raises((StorageError, IndexInUseError)):
        index.compact()
