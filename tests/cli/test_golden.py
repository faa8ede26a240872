"""The exact output of each command. ``PARQUET_BLOOM_UPDATE_GOLDEN=1 pytest tests/cli`` updates the golden files."""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from parquet_bloom import cli, zones
from parquet_bloom.cli.commands import index_command, zones_command
from parquet_bloom.file.metadata_cache import SHARED_CACHE
from parquet_bloom.lake.lake_index import LakeIndex

HERE = Path(__file__).parent
FORMATS = ("table", "json", "ndjson", "csv")

COMMANDS = {
    "show": "show lake broken.parquet",
    "show-some": "show lake --column id --row-group 1",
    "show-draft": "show draft.parquet lake/by=pyarrow --variant detect",
    "show-draft-unnamed": "show draft.parquet",
    "show-orc": "show orc",
    "show-mixed": "show lake/by=pyarrow orc --column id --row-group 1",
    "advise": "advise lake",
    "advise-orc": "advise orc --sample 8",
    "advise-mixed": "advise lake orc --column id --sample 8",
    "advise-sample": "advise lake broken.parquet --sample 8 --fpp 0.001",
    "embed-dry-run": "embed lake --column id --column tag=0.001 --dry-run",
    "embed-output": "embed lake --column tag --fpp 0.1 --exact-size -o out",
    "embed-in-place": "embed lake/by=pyarrow --column id --in-place --replace",
    "embed-orc": "embed orc --column id --dry-run",
    "drop-orc": "drop orc --in-place",
    "drop-dry-run": "drop lake broken.parquet --dry-run",
    "drop-in-place": "drop lake --column id --in-place",
    "erase-dry-run": "erase lake broken.parquet --key id=4250 --key id=4251 --dry-run",
    "erase-in-place": "erase lake/by=pyarrow --where \"id = 4250 OR tag = 'tag 1'\" --in-place --yes",
    "erase-output": "erase 'lake/by=[ps]*' --keys ids.txt --key-column id -o out",
    "verify": "verify lake broken.parquet",
    "verify-data": "verify lake --data",
    "verify-draft": "verify draft.parquet --data --variant murmur3+mask+raw",
    "verify-other-draft": "verify draft.parquet --data --variant xxh64+mask+raw",
    "verify-orc": "verify orc",
    "verify-orc-data": "verify orc lake/by=pyarrow --data",
    "find-orc": "find lake orc --where \"id IN (4250, 14250) AND tag = 'tag 2'\" --columns tag,id,by --limit 5",
    "prune-orc": 'prune orc --where "id = 4250 AND tiny = 50"',
    "find": "find lake --where \"id IN (4250, 100) AND tag <> 'tag 9'\" --columns tag,id,by --limit 9",
    "find-nothing": 'find lake --where "id = 4251"',
    "prune": "prune lake --where \"id = 4250 AND tag IN ('tag 0', 'tag 1')\"",
    "prune-nothing": 'prune lake --where "id = 4251 OR id = 7"',
    "find-index": 'find lake --index lake.index --where "id = 4250" --columns tag,id,by --limit 2',
    "get": "get 'lake/by=[ps]*' --index lake.index --key id=4250 --key id=4251 --key id=100 --columns tag,id,by",
    "get-several": "get 'lake/by=s*' --index lake.index --columns tag,id,by --key 'id=100,tag=tag 1' --key id=50,tag=x",
    "get-nothing": "get lake --index lake.index --key id=4251",
    "locate": "locate 'lake/by=[ps]*' --key id=4250 --key id=4251 --key id=100",
    "locate-several": "locate 'lake/by=s*' --key 'id=100,tag=tag 1' --key 'id=4250,tag=tag 2' --key id=50,tag=x",
    "locate-nothing": "locate lake --key id=4251",
    "prune-index": "prune lake --index lake.index --where \"by <> 'spark' AND id = 4251\"",
    "prune-index-row-groups": "prune lake --index groups.index --where \"tag IN ('tag 0', 'tag 9') AND id = 4250\"",
    "prune-index-zones": 'prune lake --index zones.index --where "id = 4250"',
    "prune-index-damaged": 'prune lake --index damaged.index --where "id = 4251"',
    "prune-zones": "prune lake --zones id.zones --zones tag.zones --where \"id = 4250 OR tag = 'tag 9'\"",
    "find-zones": 'find lake --zones id.zones --where "id = 4250" --columns tag,id,by --limit 2',
    "size": "size --ndv 1e6 --fpp 0.01",
    "sweep": "sweep lake",
    "sweep-dry-run": "sweep lake --dry-run",
    "index-create": (
        "index create new.index --column id --column tag --lake lake --granularity row_group --expected-values 1e6"
    ),
    "index-create-zones": "index create new.index --column id --lake lake --granularity zone --zone-rows 100",
    "index-advise": "index advise lake/by=spark --column id --zone-rows 20",
    "index-advise-some": "index advise lake --column tag --granularity row_group --granularity file --sample 2",
    "index-append": "index append ids.index lake broken.parquet",
    "index-remove": "index remove ids.index lake/by=spark/",
    "index-lookup": "index lookup ids.index --column id 4250 -7 100",
    "index-lookup-nothing": "index lookup ids.index --column tag --text 'tag 7' nothing",
    "index-lookup-zones": "index lookup zones.index --column id 4250 100",
    "index-compact": "index compact ids.index",
    "index-stats": "index stats ids.index",
    "index-check": "index check ids.index --sample 2",
    "zones-build": "zones build lake broken.parquet --column id --rows-per-zone 100 -o ids.zones.arrow",
    "zones-show": "zones show ids.zones.arrow",
}


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two copies of the lake, long enough ago for files to be known by their times; tests only read them.

    `indexed/` has an index of the files of three writers, one of row groups, one of zones, and one that is damaged;
    `zoned/` has zones of two columns, one file of which has changed since.
    """
    folder = tmp_path_factory.mktemp("settled")
    for name in ("indexed", "zoned"):
        shutil.copytree(HERE / "lake", folder / name / "lake")
    time.sleep(2.1)
    with contextlib.chdir(folder / "indexed"):
        files = [f"lake/by={writer}" for writer in ("pyarrow", "spark", "datafusion")]
        for name, *units in (("lake", "file"), ("groups", "row_group"), ("damaged", "file"), ("zones", "zone", 20)):
            settings: Any = dict(zip(("granularity", "zone_rows"), units, strict=False))
            with LakeIndex.create(f"{name}.index", ["id", "tag"], **settings) as index:
                index.append(files)
        newest = max(Path("damaged.index").glob("manifest-*"))
        newest.write_bytes(newest.read_bytes()[:-1])
    with contextlib.chdir(folder / "zoned"):
        for column in ("id", "tag"):
            zones.build("lake", column, f"{column}.zones", rows_per_zone=16, container="parquet")
        shutil.copy("lake/by=spark/part-0.parquet", "lake/by=pyarrow/plain.parquet")
    return folder


def untimed(text: str) -> str:
    """Return rows as if they had taken no time: their last column."""
    if text.partition("\n")[0].endswith("seconds"):
        text = re.sub(r"(?<=[ ,])\d[\d.e-]*$", lambda time: "0.0" if "," in text else "0.000", text, flags=re.MULTILINE)
    return re.sub(r'(?<="seconds": )[\d.e-]+', "0.0", text)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", COMMANDS)
def test_printed(name, format, run, lake, golden, settled, monkeypatch):
    command = f"{COMMANDS[name]} --format {format}"
    if "draft.parquet" in command:
        shutil.copy(HERE / "draft.parquet", lake)
    if "--index" in command or "zones.index" in command or "--zones" in command:
        lake = settled / ("zoned" if "--zones" in command else "indexed")
        monkeypatch.chdir(lake)
        SHARED_CACHE.clear()  # of the footers that the test before has read
    if "sweep" in command:
        make_leftovers()
    if "ids.txt" in command:
        Path("ids.txt").write_text("100\n4250\n7\n")
    if "ids.index" in command:
        run("index", "create", "ids.index", "--column", "id", "--column", "tag", "--lake", "lake")
        run("index", "append", "ids.index", *(["lake/by=spark"] if "append" in command else []))
    if "zones show" in command:
        run("zones", "build", "lake", "--column", "id", "--rows-per-zone", "100", "-o", "ids.zones.arrow")
        Path("lake/by=spark/part-0.parquet").write_bytes(Path("lake/by=duckdb/part-0.parquet").read_bytes())
    result = run(*shlex.split(command))
    if format == "json":
        assert result.document["command"] == verb_of(command)
    printed = re.sub(r"\d\.\d{9,}(e-\d+)?", lambda number: f"{float(number.group()):.9g}", untimed(result.out))
    printed = printed.replace(str(lake), "/here")  # an index names files from the root
    printed = re.sub(r'(?<="files_bytes": )\d+', "<bytes>", printed)  # they bear its name, and times
    if "zones build" in command:  # it bears names and times, too
        printed = re.sub(r"\d+(?=}?$)", "<bytes>", printed, count=0 if format == "csv" else 1, flags=re.MULTILINE)
    # Releases of pyarrow read ORC files in other steps.
    printed = re.sub(r'("data_(?:requests|bytes_read)": )[1-9]\d*', r"\1N", printed)
    printed = re.sub(r'"decoded": \[{.*?}\]', '"decoded": [N]', printed)  # as far as threads have read ahead
    output = re.sub(r"; \d+ requests?, [\d.]+ \w+ of data", "; N requests, N bytes of data", result.err)
    if "--index" in command:  # which names its files by their whole paths, and is as long as these are
        printed = re.sub(r'("bytes_read": )\d+', r"\1N", printed)
        output = re.sub(r"(requests), [\d.]+ \w+", r"\1, N bytes", output)
    if "erase" in command:  # what releases of pyarrow encode has other sizes
        printed = re.sub(r'(?<="started": ")[^"]*', "<time>", printed)
        printed, output = (re.sub(r"\b\d[\d,]{2,}\b(?! row)", "N", text) for text in (printed, output))
    golden(f"{name}.{format}", f"$ parquet-bloom {command}\n{printed}--- stderr\n{output}--- exit {result.code}\n")


def make_leftovers() -> None:
    """Temporary files of killed writers: an incomplete new file, an old one, and another writer's."""
    folder = Path("lake/by=pyarrow")
    plain = folder / "plain.parquet"
    (folder / f".{plain.name}.0123456789abcdef.parquet_bloom.tmp").write_bytes(b"PAR1")
    shutil.copy(plain, folder / f".{plain.name}.1123456789abcdef.parquet_bloom.old")
    shutil.copy("lake/by=spark/part-0.parquet", folder / f".{plain.name}.2123456789abcdef.parquet_bloom.old")


def verb_of(command: str) -> str:
    """Return the command without its arguments."""
    first, second, *_ = command.split()
    return f"{first} {second}" if first in ("index", "zones") else first


def test_every_command_that_prints_rows_is_here():
    """Others print installed packages, or no rows, or are for tables: they have separate tests."""
    covered = {verb_of(command) for command in COMMANDS.values()}
    there = {*cli.COMMANDS} - {"index", "zones"} | {f"index {name}" for name in index_command.COMMANDS}
    there |= {f"zones {name}" for name in zones_command.COMMANDS}
    assert covered | {"spark-archive", "completion", "index serve", "delete", "upsert"} == there
