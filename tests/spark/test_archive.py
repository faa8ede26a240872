"""The archive for executors: that they run from it alone, what is in it, and what never is."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.spark import executor_archive
from parquet_bloom.spark import executor_archive as archive_build

HEAVY = ("numpy", "pyarrow", "obstore", "rich")
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
MakeDistribution = Callable[..., Path]


@pytest.mark.long
@pytest.mark.spark
def test_executors_that_have_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a folder, ü").mkdir()
    report = archive_build.write_archive(tmp_path / "a folder, ü" / "env.tar")
    folder = tmp_path / "cluster"
    venv.create(folder / "bare", symlinks=True)
    bare = str(folder / "bare" / "bin" / "python")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    for needed in ("from parquet_bloom import embed", "import pyarrow", "import numpy"):
        alone = subprocess.run([bare, "-c", needed], env=environment, capture_output=True, text=True)
        assert "ModuleNotFoundError" in alone.stderr

    script = Path(__file__).with_name("archive_cluster.py")
    command = [sys.executable, str(script), str(folder), json.dumps(report.settings)]
    paths = os.pathsep.join([str(Path(parquet_bloom.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYSPARK_PYTHON": bare, "PYTHONPATH": paths.rstrip(os.pathsep)}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=500, check=True)
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["status"] == ["embedded"] * 4
    assert seen["rows"] == 1
    packages = ["parquet_bloom/__init__.py", f"parquet_bloom/core/bloom/sbbf{SUFFIX}", "pyarrow", "numpy"]
    (modules,) = seen["modules"]
    assert modules[:2] == [f"environment/{name}" for name in packages[:2]]
    assert modules[2:] == [f"environment/{name}/__init__.py" for name in packages[2:]]
    for file in (folder / "lake").glob("*.parquet"):
        assert parquet_bloom.verify(file, data=True).ok


def test_contents_and_reproducible_bytes(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    report = archive_build.write_archive(
        tmp_path / "one.tar.gz", without=HEAVY, progress=lambda done, total: seen.append((done, total))
    )
    before = os.umask(0o077)
    try:
        archive_build.write_archive(tmp_path / "two.tar", without=[name.upper() for name in HEAVY])
    finally:
        os.umask(before)
    compressed = (tmp_path / "one.tar.gz").read_bytes()
    assert gzip.decompress(compressed) == (tmp_path / "two.tar").read_bytes()
    assert compressed[3:8] == bytes(5)  # neither a name nor a time
    assert report.num_bytes == (tmp_path / "one.tar.gz").stat().st_size
    assert [name for name in os.listdir(tmp_path) if name.endswith(".tmp")] == []
    assert [distribution.name for distribution in report.distributions] == [
        "parquet-bloom",
        "click",
        "pyroaring",
        "thrift",
    ]

    with tarfile.open(tmp_path / "one.tar.gz") as tar:
        members = tar.getmembers()
        manifest = json.loads(tar.extractfile(archive_build.MANIFEST).read())  # type: ignore[union-attr]
    names = [member.name for member in members]
    assert names[1:] == sorted(names[1:])
    assert seen == [(number, len(names) - 1) for number in range(len(names) - 1)]
    assert {(member.mtime, member.mode, member.uid, member.uname) for member in members} == {(315532800, 0o644, 0, "")}
    assert {
        "parquet_bloom/spark/executor_archive.py",
        f"parquet_bloom/core/bloom/sbbf{SUFFIX}",
        "click/__init__.py",
    } <= set(names)
    assert not [name for name in names if name.endswith((".pyc", ".pyx", ".h", ".c", "direct_url.json", "/RECORD"))]
    assert not [name for name in names if {"tests", "__pycache__", "..", "pyspark"} & set(name.split("/"))]
    assert report.unpacked_bytes == sum(member.size for member in members[1:])
    assert manifest["made_for"]["python"] == "{}.{}".format(*sys.version_info)
    assert manifest["distributions"]["parquet-bloom"] == parquet_bloom.__version__


def test_a_run_that_is_cut_off_leaves_the_old_archive(tmp_path: Path) -> None:
    (tmp_path / "env.tar.gz").write_bytes(b"the old one")

    def stop(done: int, total: int) -> None:
        if done == total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        archive_build.write_archive(tmp_path / "env.tar.gz", without=HEAVY, progress=stop)
    assert os.listdir(tmp_path) == ["env.tar.gz"]
    assert (tmp_path / "env.tar.gz").read_bytes() == b"the old one"


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeDistribution:
    """Installs a distribution before all others: ``make("click", ["other>=1"], {"click.py": "text"})``."""
    packages = tmp_path / "lib" / "python" / "site-packages"
    packages.mkdir(parents=True)
    monkeypatch.syspath_prepend(str(packages))

    def create(
        name: str, requires: list[str], files: dict[str, str | None], head: str = "", record: bool = True
    ) -> Path:
        info = packages / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        needs = "".join(f"Requires-Dist: {text}\n" for text in requires)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{head}{needs}")
        files |= {f"{info.name}/{note}": None for note in ("METADATA", "RECORD") if note == "METADATA" or record}
        for location, text in files.items():
            if text is not None:
                (packages / location).parent.mkdir(parents=True, exist_ok=True)
                (packages / location).write_text(text)
        if record:
            (info / "RECORD").write_text("".join(f'"{location}",,\n' for location in files))
        return packages

    return create


def packed(**options: Any) -> dict[str, executor_archive.Distribution]:
    return {result.name: result for result in executor_archive.find_distributions(**options)}


def test_only_files_that_a_distribution_recorded_below_its_folder(make: MakeDistribution, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("top")
    files = {
        "click/__init__.py": "",
        "click/data.json": "{}",
        "click/__pycache__/a.pyc": "",
        "click/tests/test_a.py": "",
        "click-1.0.dist-info/direct_url.json": '{"url": "https://user:token@host/click"}',
        "click-1.0.dist-info/licenses/LICENSE": "free",
        "hook.pth": "import this",
        "../../../bin/click": "#!/bin/sh",
        str(tmp_path / "secret"): None,
        "click/gone.py": None,
        "click/gone.pyc": None,
    }
    folder = make("click", [], files)
    (folder / "click" / "notes.txt").write_text("nobody recorded this")
    result = packed(without=HEAVY)["click"]
    paths = ["click-1.0.dist-info/METADATA", "click-1.0.dist-info/licenses/LICENSE", "click/__init__.py"]
    assert list(result.files) == [*paths, "click/data.json"]
    assert (result.version, result.missing) == ("1.0", 1)


def test_requirements_are_followed(make: MakeDistribution) -> None:
    needs = ["Second_One[more, x] >=1,<3 ; python_version > '3'", "absent; sys_platform == 'win32'", "pyspark"]
    make("click", [*needs, "third; extra == 'unasked'"], {"click.py": ""})
    make("second-one", ["click", 'fourth (>=1) ; extra == "more"', "absent; extra == 'y'"], {"second.py": ""})
    make("fourth", [], {"fourth.py": ""})
    names = ["parquet-bloom", "click", "fourth", "pyroaring", "second-one", "thrift"]
    assert list(packed(without=HEAVY)) == names
    assert list(packed(without=[*HEAVY, "second.one"])) == ["parquet-bloom", "click", "pyroaring", "thrift"]
    assert {"pandas", "numpy"} <= set(packed(extras=["Spark"], without=["rich"]))
    assert "pyspark" not in packed(extras=["spark"], without=["rich"])
    assert {"boto3", "pandas", "hypothesis"} <= set(packed(extras=["test"], without=["rich"]))


def test_unpackable_input(make: MakeDistribution, tmp_path: Path) -> None:
    make("click", ["norecord"], {"click.py": ""})
    make("norecord", ["editable"], {}, record=False)

    def problem(**options: Any) -> str:
        with pytest.raises(ParquetBloomError) as caught:
            archive_build.write_archive(tmp_path / "env.tar", **options)
        assert not (tmp_path / "env.tar").exists()
        return str(caught.value)

    assert problem() == "norecord has no list of its files: install it with pip, or leave it out"
    direct = {"editable-1.0.dist-info/direct_url.json": '{"url": "file:///x", "dir_info": {"editable": true}}'}
    folder = make("editable", ["nowhere-at-all"], direct)
    (folder / "norecord-1.0.dist-info" / "RECORD").write_text("norecord.py,,\n")
    assert problem() == (
        "editable is an editable install without a list of its files: install it normally, or leave it out"
    )
    (folder / next(iter(direct))).unlink()
    assert problem() == "nowhere-at-all is needed but not installed: install it, or leave it out"
    assert problem(without=["nump"]) == "nowhere-at-all is needed but not installed: install it, or leave it out"
    assert problem(without=["nump", "editable"]) == "'nump' is to be left out, but no packed distribution needs it"
    assert (
        problem(extras=["s4"])
        == "there is no extra 's4'; there are: bench, delta, dialects, docs, fuzz, iceberg, lance, lint, objects, "
        "orc, s3, serve, spark, test"
    )


def test_this_package_installed_and_not_from_its_sources(
    make: MakeDistribution, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "lib" / "parquet_bloom"
    for name in (
        "__init__.py",
        "a.py",
        "a.py~",
        ".env",
        f"b{SUFFIX}",
        "b.cpython-27m-x.so",
        "b.c",
        "core/c.py",
        "tests/d.py",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    monkeypatch.setattr(executor_archive, "ROOT", root)
    foreign = tmp_path / "lib" / "pyproject.toml"
    head = "Provides-Extra: S3\n"
    make("parquet-bloom", ["fourth", "fifth; extra == 'S3'"], {"parquet_bloom.py": ""}, head)
    make("fourth", [], {"fourth.py": ""})
    make("fifth", [], {"fifth.py": ""})
    for text in ('[project]\nname = "another"\n', "project = 1\n", "no [ toml"):
        foreign.write_text(text)
        assert list(packed()) == ["parquet-bloom", "fourth"]
    assert list(packed(extras=["s3"])) == ["parquet-bloom", "fifth", "fourth"]
    own = ["__init__.py", "a.py", f"b{SUFFIX}", "core/c.py"]
    assert sorted(packed()["parquet-bloom"].files) == sorted(f"parquet_bloom/{name}" for name in own)
