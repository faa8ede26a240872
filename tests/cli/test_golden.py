"""The exact output of each command. ``PARQUET_BLOOM_UPDATE_GOLDEN=1 pytest tests/cli`` updates the golden files."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from parquet_bloom import cli, zones
from parquet_bloom.cli.commands import index_command, zones_command
from parquet_bloom.lake.lake_index import LakeIndex

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
    "index-create-zones": "index create new.index id --lake lake --granularity zone --zone-rows 100",
    "index-advise": "index advise lake/by=spark id --zone-rows 20",
    "index-advise-some": "index advise lake tag --granularity row_group --granularity file --sample 2",
    "index-append": "index append ids.index lake broken.parquet",
    "index-remove": "index remove ids.index lake/by=spark/",
    "index-lookup": "index lookup ids.index --column id 4250 -7 100",
    "index-lookup-nothing": "index lookup ids.index tag --text 'tag 7' nothing",
    "index-lookup-zones": "index lookup zones.index id 4250 100",
    "index-compact": "index compact ids.index",
    "index-stats": "index stats ids.index",
    "index-check": "index check ids.index --sample 2",
    "zones-build": "zones build lake broken.parquet --column id --rows-per-zone 100 -o ids.zones.arrow",
    "zones-show": "zones show ids.zones.arrow",
}

# Schemas of the JSON documents: fields of a row, and fields next to the rows.
ROWS: dict[str, tuple[str, dict[str, type | tuple[type | None, ...]]]] = {
    "show": (
        "filters",
        {
            "file": str,
            "row_group": int,
            "stripe": (int, None),
            "column": str,
            "type": str,
            "stream": (str, None),
            "offset": (int, None),
            "length": (int, None),
            "num_bytes": (int, None),
            "algorithm": (str, None),
            "hash": (str, None),
            "compression": (str, None),
            "variant": (str, None),
            "num_blocks": (int, None),
            "num_hash_functions": (int, None),
            "fill": (float, None),
            "fpp": (float, None),
            "ndv_estimate": (float, None),
            "doubt": (str, None),
            "problem": (str, None),
        },
    ),
    "advise": (
        "columns",
        {
            "verdict": str,
            "column": str,
            "type": str,
            "row_groups": int,
            "filtered": int,
            "num_values": int,
            "num_bytes": int,
            "distinct": (float, None),
            "distinct_at_most": float,
            "dictionary": float,
            "same_min": (float, None),
            "same_max": (float, None),
            "in_range": float,
            "holding": (float, None),
            "filter_share": (float, None),
            "skipped_present": (float, None),
            "skipped_absent": (float, None),
            "sizes": dict,
            "shares": dict,
            "filter_fpp": (float, None),
            "together": int,
            "row_group_fpp": float,
            "engines": list,
            "reason": str,
        },
    ),
    "embed-dry-run": (
        "filters",
        {
            "file": str,
            "output": str,
            "row_group": int,
            "column": str,
            "ndv": (int, None),
            "num_bytes": int,
            "fpp": float,
        },
    ),
    "embed": (
        "files",
        {
            "file": str,
            "output": str,
            "filters": int,
            "kept": int,
            "bytes_added": int,
            "dead_bytes": int,
            "new_size": int,
            "changed": bool,
            "seconds": float,
        },
    ),
    "drop-dry-run": (
        "filters",
        {"file": str, "output": str, "row_group": int, "column": str, "num_bytes": (int, None), "freed": bool},
    ),
    "drop": (
        "files",
        {
            "file": str,
            "output": str,
            "filters": int,
            "kept": int,
            "bytes_freed": int,
            "dead_bytes": int,
            "new_size": int,
            "changed": bool,
            "seconds": float,
        },
    ),
    "size": (
        "sizes",
        {
            "asked": bool,
            "ndv": int,
            "fpp": float,
            "num_bytes": int,
            "real_fpp": float,
            "exact_bytes": int,
            "bits_per_value": (float, None),
        },
    ),
    "sweep": ("leftovers", {"file": str, "num_bytes": int, "deleted": bool, "reason": (str, None)}),
    "sweep-dry-run": ("leftovers", {"file": str, "num_bytes": int, "deleted": bool, "reason": (str, None)}),
    "verify": (
        "filters",
        {
            "file": str,
            "row_group": int,
            "column": str,
            "ok": bool,
            "num_values": (int, None),
            "num_missing": (int, None),
            "note": (str, None),
            "problem": (str, None),
        },
    ),
    "find": ("rows", {"tag": str, "id": int, "by": str}),
    "get": ("rows", {"tag": str, "id": int, "by": str}),
    "locate": ("rows", {"key": (int, dict), "path": str, "row_group": int, "row": int}),
    "prune": (
        "row_groups",
        {
            "file": str,
            "row_group": (int, None),
            "stripe": (int, None),
            "read": bool,
            "num_rows": (int, None),
            "row_ranges": (list, None),
            "by": list,
            "reason": (str, None),
            "doubts": list,
        },
    ),
    "index create": (
        "indexes",
        {
            "index": str,
            "layout": str,
            "granularity": str,
            "zone_rows": (int, None),
            "settings": dict,
            "columns": list,
            "lake": list,
        },
    ),
    "index advise": (
        "granularities",
        {
            "recommended": bool,
            "granularity": str,
            "zone_rows": (int, None),
            "units": int,
            "values": int,
            "bytes_a_value": float,
            "num_bytes": int,
            "candidates": float,
            "bytes_read": int,
            "pages_read": (float, None),
            "bytes_read_without_pages": int,
        },
    ),
    "index append": (
        "appends",
        {"added": int, "replaced": int, "unchanged": int, "failed": int, "values": int, "merged": int},
    ),
    "index remove": ("removals", {"removed": int, "files": int}),
    "index lookup": ("candidates", {"value": str, "row_groups": (list, None), "rows": (list, None), "file": str}),
    "index compact": (
        "compactions",
        {
            "segments_before": int,
            "segments_after": int,
            "bytes_before": int,
            "bytes_after": int,
            "dropped": int,
            "deleted": int,
        },
    ),
    "index stats": (
        "columns",
        {"column": str, "values": int, "num_bytes": int, "bytes_a_value": (float, None), "expected_false": float},
    ),
    "index check": ("problems", {"problem": str}),
    "zones build": (
        "indexes",
        {
            "index": str,
            "column": str,
            "files": int,
            "failed": int,
            "row_groups": int,
            "zones": int,
            "rows": int,
            "filter_bytes": int,
            "num_bytes": int,
        },
    ),
    "zones show": (
        "zones",
        {
            "fragment": (int, None),
            "row_groups": (int, None),
            "zones": int,
            "rows": int,
            "null_zones": int,
            "num_bytes": int,
            "fill": (float, None),
            "state": (str, None),
            "file": (str, None),
        },
    ),
}
PRUNED = {
    "files",
    "selected_files",
    "unopened_files",
    "unopened_by",
    "index_doubts",
    "zone_doubts",
    "row_groups",
    "selected_row_groups",
    "skipped_by",
    "requests",
    "bytes_read",
    "data_requests",
    "data_bytes_read",
    "decoded",
}
FACTS = {
    "show": {"distrusted"},
    "advise": {"fpp", "embed_command", "sample_command", "orc_options"},
    "embed": {"dry_run"},
    "drop": {"dry_run"},
    "verify": {"data"},
    "find": {"where"},
    "get": {"key"},
    "locate": {"key"},
    "prune": {"where"},
    "size": {"ndv", "fpp"},
    "sweep": {"dry_run"},
    "index append": {"uncovered"},
    "index lookup": {"column", "doubts"},
    "index advise": {"column", "page_index", "reason", "create_command"},
    "index stats": {"layout", "granularity", "zone_rows", "settings", "version", "snapshot"},
    "zones show": {"column", "type", "items", "probability", "uncovered"},
}
TOTALS = {
    "show": {"files", "filters", "broken", "doubtful", "num_bytes"},
    "advise": {"files", "row_groups", "rows", "num_bytes", "sampled_files"},
    "embed": {"files", "changed", "filters", "kept", "bytes_added", "dead_bytes"},
    "drop": {"files", "changed", "filters", "kept", "bytes_freed", "dead_bytes"},
    "verify": {"files", "filters", "bad", "unfiltered"},
    "sweep": {"files", "deleted", "kept", "bytes_deleted"},
    "find": {"rows", *PRUNED},
    "get": {"keys", "rows"},
    "locate": {"keys", "rows"},
    "prune": PRUNED,
    "index lookup": {"values", "candidates", "files", "unindexed", "requests", "bytes_read"},
    "index advise": {"files", "rows", "sampled_files"},
    "index stats": {"segments", "files", "units", "unindexed", "changed", "gone", "files_bytes"},
    "index check": {"problems", "files", "values"},
    "zones show": {"zones", "rows", "null_zones", "num_bytes", "stale"},
}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", COMMANDS)
def test_printed(name, format, run, lake, golden, monkeypatch):
    if "draft.parquet" in COMMANDS[name]:
        shutil.copy(Path(__file__).parent / "draft.parquet", lake)
    if "--index" in COMMANDS[name] or "zones.index" in COMMANDS[name]:
        make_indexes(monkeypatch)
    if "--zones" in COMMANDS[name]:
        make_zones(monkeypatch)
    if "sweep" in COMMANDS[name]:
        make_leftovers()
    monkeypatch.setattr("time.perf_counter", lambda: 0.0)  # every run takes as long
    command = f"{COMMANDS[name]} --format {format}"
    if "ids.index" in command:
        run("index", "create", "ids.index", "id", "tag", "--lake", "lake")
        run("index", "append", "ids.index", *(["lake/by=spark"] if "append" in command else []))
    if "zones show" in command:
        run("zones", "build", "lake", "--column", "id", "--rows-per-zone", "100", "-o", "ids.zones.arrow")
        Path("lake/by=spark/part-0.parquet").write_bytes(Path("lake/by=duckdb/part-0.parquet").read_bytes())
    result = run(*shlex.split(command))
    if format == "json":
        check_document(COMMANDS[name], json.loads(result.out))
    printed = re.sub(r"\d\.\d{9,}(e-\d+)?", lambda number: f"{float(number.group()):.9g}", result.out)
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
    golden(f"{name}.{format}", f"$ parquet-bloom {command}\n{printed}--- stderr\n{output}--- exit {result.code}\n")


def make_indexes(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index of the files of three writers, one of row groups, and one that is damaged."""
    monkeypatch.setattr("parquet_bloom.file.identity.SETTLED_NS", -1)  # nothing will change them
    files = [f"lake/by={writer}" for writer in ("pyarrow", "spark", "datafusion")]
    for name, *units in (("lake", "file"), ("groups", "row_group"), ("damaged", "file"), ("zones", "zone", 20)):
        settings: Any = dict(zip(("granularity", "zone_rows"), units, strict=False))
        with LakeIndex.create(f"{name}.index", ["id", "tag"], **settings) as index:
            index.append(files)
    newest = max(Path("damaged.index").glob("manifest-*"))
    newest.write_bytes(newest.read_bytes()[:-1])


def make_zones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Zones of two columns; one file has changed since."""
    monkeypatch.setattr("parquet_bloom.file.identity.SETTLED_NS", -1)
    for column in ("id", "tag"):
        zones.build("lake", column, f"{column}.zones", rows_per_zone=16, container="parquet")
    shutil.copy("lake/by=spark/part-0.parquet", "lake/by=pyarrow/plain.parquet")


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


def check_document(command: str, document: dict[str, Any]) -> None:
    """The JSON document has the keys of its schema, and no others."""
    verb = verb_of(command)
    name, fields = ROWS[f"{verb}-dry-run" if "--dry-run" in command else verb]
    totals = {"totals"} if verb in TOTALS else set()
    assert set(document) == {"schema_version", "command", name, "errors"} | totals | FACTS.get(verb, set())
    assert (document["schema_version"], document["command"]) == (1, verb)
    assert set(document.get("totals", ())) == TOTALS.get(verb, set())
    for row in document[name]:
        assert list(row) == list(fields)
        for key, value in row.items():
            expected = fields[key]
            allowed = expected if isinstance(expected, tuple) else (expected,)
            assert (None if value is None else type(value)) in allowed, (key, value)
    for error in document["errors"]:
        assert set(error) == {"file", "row_group", "column", "kind", "problem"}


def test_every_command_that_prints_rows_is_here():
    """`spark-archive` prints installed packages, `completion` prints no rows: they have separate tests."""
    covered = {verb_of(command) for command in COMMANDS.values()}
    there = {*cli.COMMANDS} - {"index", "zones"} | {f"index {name}" for name in index_command.COMMANDS}
    there |= {f"zones {name}" for name in zones_command.COMMANDS}
    assert covered | {"spark-archive", "completion", "index serve"} == there
    assert covered == {name.removesuffix("-dry-run") for name in ROWS}


def test_the_lake_is_by_four_writers(lake):
    assert {path.name for path in (lake / "lake").iterdir()} == {"by=pyarrow", "by=spark", "by=duckdb", "by=datafusion"}
