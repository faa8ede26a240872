"""What each command prints, to the letter. ``PARQUET_BLOOM_UPDATE_GOLDEN=1 pytest tests/cli`` writes the files anew."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest

from parquet_bloom import cli

FORMATS = ("table", "json", "ndjson", "csv")

COMMANDS = {
    "show": "show lake broken.parquet",
    "show-some": "show lake --column id --row-group 1",
    "advise": "advise lake",
    "advise-sample": "advise lake broken.parquet --sample 8 --fpp 0.001",
    "embed-dry-run": "embed lake --column id --column tag=0.001 --dry-run",
    "embed-output": "embed lake --column tag --fpp 0.1 --exact-size -o out",
    "embed-in-place": "embed lake/by=pyarrow --column id --in-place --replace",
    "drop-dry-run": "drop lake broken.parquet --dry-run",
    "drop-in-place": "drop lake --column id --in-place",
    "verify": "verify lake broken.parquet",
    "verify-data": "verify lake --data",
    "find": "find lake --where \"id IN (4250, 100) AND tag <> 'tag 9'\" --columns tag,id,by --limit 9",
    "find-nothing": 'find lake --where "id = 4251"',
    "prune": "prune lake --where \"id = 4250 AND tag IN ('tag 0', 'tag 1')\"",
    "prune-nothing": 'prune lake --where "id = 4251 OR id = 7"',
    "size": "size --ndv 1e6 --fpp 0.01",
}

# Of the JSON documents: what a row holds, and what stands beside the rows.
ROWS: dict[str, tuple[str, dict[str, type | tuple[type | None, ...]]]] = {
    "show": (
        "filters",
        {
            "file": str,
            "row_group": int,
            "column": str,
            "type": str,
            "offset": int,
            "length": (int, None),
            "num_bytes": (int, None),
            "algorithm": (str, None),
            "hash": (str, None),
            "compression": (str, None),
            "num_blocks": (int, None),
            "fill": (float, None),
            "fpp": (float, None),
            "ndv_estimate": (float, None),
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
    "prune": (
        "row_groups",
        {
            "file": str,
            "row_group": (int, None),
            "read": bool,
            "num_rows": (int, None),
            "row_ranges": (list, None),
            "by": list,
            "reason": (str, None),
            "doubts": list,
        },
    ),
}
PRUNED = {
    "files",
    "selected_files",
    "unopened_files",
    "row_groups",
    "selected_row_groups",
    "skipped_by",
    "requests",
    "bytes_read",
}
FACTS = {
    "advise": {"fpp", "embed_command", "sample_command"},
    "embed": {"dry_run"},
    "drop": {"dry_run"},
    "find": {"where"},
    "prune": {"where"},
    "size": {"ndv", "fpp"},
}
TOTALS = {
    "show": {"files", "filters", "broken", "num_bytes"},
    "advise": {"files", "row_groups", "rows", "num_bytes", "sampled_files"},
    "embed": {"files", "changed", "filters", "kept", "bytes_added", "dead_bytes"},
    "drop": {"files", "changed", "filters", "kept", "bytes_freed", "dead_bytes"},
    "verify": {"files", "filters", "bad"},
    "find": {"rows", *PRUNED},
    "prune": PRUNED,
}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", COMMANDS)
def test_printed(name, format, run, lake, golden, monkeypatch):
    monkeypatch.setattr("time.perf_counter", lambda: 0.0)  # every run takes as long
    command = f"{COMMANDS[name]} --format {format}"
    result = run(*shlex.split(command))
    if format == "json":
        check_document(COMMANDS[name], json.loads(result.out))
    printed = re.sub(r"\d\.\d{9,}(e-\d+)?", lambda number: f"{float(number.group()):.9g}", result.out)
    golden(f"{name}.{format}", f"$ parquet-bloom {command}\n{printed}--- stderr\n{result.err}--- exit {result.code}\n")


def check_document(command: str, document: dict[str, Any]) -> None:
    """The JSON document has what its schema says, and nothing else."""
    verb = command.split()[0]
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
        assert set(error) == {"file", "row_group", "column", "problem"}


def test_every_command_that_prints_rows_is_here():
    """`spark-archive` prints what is installed, `completion` no rows: they have tests of their own."""
    covered = {command.split()[0] for command in COMMANDS.values()}
    assert covered | {"spark-archive", "completion"} == {*cli.COMMANDS}
    assert covered == {name.removesuffix("-dry-run") for name in ROWS}


def test_the_lake_is_by_four_writers(lake):
    assert {path.name for path in (lake / "lake").iterdir()} == {"by=pyarrow", "by=spark", "by=duckdb", "by=datafusion"}
