"""`parquet-bloom sweep`: what killed writers left behind, deleted."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict

import click

from ...errors import StorageError
from ...file.write.sweep import sweep as sweep_folder
from ...storage import is_url
from ..options.common import command
from ..output.output import BAD, Output
from ..output.table import Column, counted

COLUMNS = (
    Column("file", "file", folds=True),
    Column("num_bytes", "bytes", right=True, text=lambda value: f"{value:,}"),
    Column("deleted", "deleted"),
    Column("reason", "why not", folds=True, usual=lambda row: row["reason"] is None),
)


@command(
    "sweep",
    example="parquet-bloom sweep lake/ --dry-run\nparquet-bloom sweep lake/ ids.index",
    exit_codes="0 done, or there was nothing; 1 a file is kept, see why; 2 error, in whichever folder.",
    paths=False,
    about="A FOLDER is one of the local file system and stands for all below it; stores of objects keep no such files.",
)
@click.argument(
    "folders", metavar="FOLDER...", nargs=-1, required=True, type=click.Path(readable=False, file_okay=False)
)
@click.option("--dry-run", is_flag=True, help="Delete nothing; show what would be.")
def sweep(output: Output, folders: tuple[str, ...], dry_run: bool) -> int:
    """Delete what killed writers left behind: hidden files, .NAME.<16 hex digits>.parquet_bloom.tmp or .old.

    Files of writers that are still at work stay. An .old file, from the moment in which a file and its new version
    change places, is kept unless it holds the same rows as the file beside it: it may be another writer's.
    """
    totals: Counter[str] = Counter(files=0, deleted=0, kept=0, bytes_deleted=0)
    with output.rows("leftovers", COLUMNS) as rows:
        rows.facts |= {"dry_run": dry_run, "totals": totals}
        for folder in folders:
            with output.going_on(), output.step("sweep"):
                if is_url(folder):
                    raise StorageError("killed writers leave no files in a store of objects", path=folder)
                for each in sweep_folder(folder, dry_run=dry_run):
                    row = asdict(each)
                    rows.add({"file": row.pop("path")} | row)
                    totals["files"] += 1
                    totals["deleted" if each.deleted else "kept"] += 1
                    totals["bytes_deleted"] += each.num_bytes if each.deleted else 0
    done = "would delete" if dry_run else "deleted"
    text = f"{done} {counted(totals['deleted'], 'file')}, {totals['bytes_deleted']:,} bytes"
    output.summary(text + (f"; {counted(totals['kept'], 'file')} kept" if totals["kept"] else ""))
    return output.exit_code(BAD if totals["kept"] else 0)
