"""`parquet-bloom spark-archive`: its output; the archive itself is tested with Spark."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

SMALL = [part for name in ("numpy", "pyarrow", "obstore", "rich") for part in ("--without", name)]


def test_settings_are_printed_to_be_copied(tmp_path: Path, run: Any) -> None:
    result = run("spark-archive", "-o", tmp_path / "env.tar.gz", *SMALL)
    assert result.code == 0
    table, submit, session = result.out.rstrip("\n").split("\n\n")
    names = ["distribution", "parquet-bloom", "click", "pyroaring", "thrift"]
    assert [line.split()[0] for line in table.splitlines()] == names
    assert shlex.split(submit.replace("\\\n", "")) == [
        *("spark-submit", "--archives", f"{tmp_path}/env.tar.gz#environment"),
        *("--conf", "spark.executorEnv.PYTHONPATH=./environment", "..."),
    ]
    settings: dict[str, str] = {}

    class Builder:
        def config(self, key: str, value: str) -> Builder:
            settings[key] = value
            return self

        def getOrCreate(self) -> None:
            settings["created"] = "yes"

    exec(session, {"SparkSession": type("SparkSession", (), {"builder": Builder()})})
    archives = f"{tmp_path}/env.tar.gz#environment"
    assert settings == {
        "spark.archives": archives,
        "spark.executorEnv.PYTHONPATH": "./environment",
        "created": "yes",
    }
    size = (tmp_path / "env.tar.gz").stat().st_size
    assert result.err.startswith(f"{tmp_path}/env.tar.gz: {size:,} bytes, unpacked ")
    assert f"; for Python {sys.version_info.major}.{sys.version_info.minor} on " in result.err


def test_paths_that_a_shell_and_spark_read_otherwise(tmp_path: Path, run: Any) -> None:
    result = run("spark-archive", "-o", tmp_path / "a b,#%'ü.tar", *SMALL)
    assert result.code == 0
    uri = f"file://{tmp_path}/a%20b%2C%23%25%27%C3%BC.tar#environment"
    assert f"--archives '{uri}' \\\n" in result.out
    assert f'    .config("spark.archives", "{uri}")\n' in result.out


def test_json(tmp_path: Path, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("spark-archive", "--output", "env.tgz", "--json", *SMALL)
    document = json.loads(result.out)
    assert (result.code, result.err) == (0, "")
    assert document["output"] == "env.tgz"
    assert document["num_bytes"] == (tmp_path / "env.tgz").stat().st_size
    assert document["settings"]["spark.archives"] == f"{tmp_path}/env.tgz#environment"
    assert set(document["made_for"]) == {"python", "implementation", "platform", "libc"}
    assert document["unpacked_bytes"] == sum(row["bytes"] for row in document["distributions"])
    assert set(document["distributions"][0]) == {"name", "version", "files", "bytes", "missing"}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "missing option '-o' / '--output' (see parquet-bloom spark-archive --help)"),
        (["-o", "env.zip"], "env.zip: the name of an archive must end in .tar.gz, .tgz or .tar"),
        (["-o", "no/folder/env.tar"], "no/folder/env.tar: there is no folder {here}/no/folder"),
        (["-o", "env.tar", "--without", "nump"], "'nump' is to be left out, but no packed distribution needs it"),
        (
            ["-o", "env.tar", "--extra", "s4"],
            "there is no extra 's4'; there are: bench, delta, dialects, docs, fuzz, iceberg, lance, lint, objects, "
            "orc, s3, serve, spark, test",
        ),
    ],
)
def test_errors_are_one_line(
    arguments: list[str], problem: str, tmp_path: Path, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("spark-archive", *arguments)
    assert (result.code, result.out, result.err) == (2, "", f"error: {problem.format(here=tmp_path)}\n")
    assert not list(tmp_path.iterdir())
