"""Filters go into a table while others write to it: each row is there once, whoever comes first."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from support.writers import changing_tables as tables

from parquet_bloom.tables.embed.embed_table import embed_table

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

PROJECT = Path(__file__).parents[2]
PROGRAM = """
import sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, sys.argv[3])
from pathlib import Path
from support.writers import changing_tables as tables
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.tables.embed.embed_table import embed_table

embedded = 0
while not Path(sys.argv[2], "enough").exists():
    try:
        if sys.argv[1] == "delta":
            table = sys.argv[2] + "/table"
        else:
            table = tables.open_catalog(Path(sys.argv[2])).load_table("db.events")
        embedded += len(embed_table(table, ["id", "s"], retries=3, threads=1).files)
    except ParquetBloomError as error:
        text = str(error)
        # Another process had the database, or compacted the file away, at this moment.
        assert any(one in text for one in ("committed during each", "locked", "removed it", "No such file")), text
print(embedded)
"""


def write(open_table: Any, chance: random.Random, number: int) -> Any:
    """Append or delete until it succeeds; returns what becomes of the rows."""
    append = tables.rows(10_000 + number * 20, 20)
    victim = chance.randrange(200)
    while True:
        table = open_table()
        is_delta = hasattr(table, "table_uri")
        try:
            if number % 3:
                if is_delta:
                    from deltalake import write_deltalake

                    write_deltalake(table, append, mode="append")
                else:
                    table.append(append)
                return tables.added(append)
            table.delete(f"id = {victim}" if is_delta else f"id == {victim}")
            return tables.kept(lambda row: row[0] != victim)
        except Exception as error:  # theirs: a conflict with the other process
            if not any(
                one in str(error).lower()
                for one in ("concurrent", "conflict", "locked", "deleted", "updated", "branch main")
            ):
                raise


@pytest.mark.ci
@pytest.mark.parametrize("kind", [pytest.param("delta", marks=pytest.mark.default), "iceberg"])
def test_an_embedder_or_two_beside_a_writer(kind: str, tmp_path: Path) -> None:
    chance = random.Random(kind)
    if kind == "delta":
        from deltalake import DeltaTable

        root = tables.make_delta(tmp_path / "table", 2, partitioned=False)
        open_table, read = lambda: DeltaTable(root), lambda: tables.read_delta(root)
        given = lambda: root  # noqa: E731
    else:
        tables.make_iceberg(tmp_path, 2)
        open_table = given = lambda: tables.open_catalog(tmp_path).load_table("db.events")
        read = lambda: tables.read_iceberg(open_table())  # noqa: E731
    expected = read()
    arguments = [sys.executable, "-c", PROGRAM, kind, str(tmp_path), str(PROJECT / "tests")]
    environment = os.environ | {"PYTHONPATH": str(PROJECT)}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": environment}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        others = [subprocess.Popen(arguments, **pipes) for _ in range(2)]
        try:
            number = 0
            while number < 20 or (
                number < 60 and any(other.poll() is None for other in others) and not embedded(tmp_path)
            ):
                expected = write(open_table, chance, number)(expected)
                number += 1
                assert read() == expected
        finally:
            (tmp_path / "enough").touch()
            ended = [other.communicate() for other in others]
    for other, (out, errors) in zip(others, ended, strict=True):
        assert other.returncode == 0, errors
        assert int(out) >= 0
    assert read() == expected
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        embed_table(given(), ["id", "s"])
        assert not embed_table(given(), ["id", "s"]).changed
    assert read() == expected


def embedded(folder: Path) -> bool:
    """Return whether files of an embedder are there."""
    return any(".c000." in path.name or path.name.endswith("-00001.parquet") for path in folder.rglob("*.parquet"))
