"""`parquet-bloom sweep`: delete temporary files of killed writers."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict

import click

from ...errors import StorageError
from ...file.file_rewrite import sweep as sweep_folder
from ...storage import is_url
from ...util.messages import count
from ..command import CommandOptions, argument, command, flag
from ..output.output import BAD, Output
from ..output.row_formats import Column

COLUMNS = (
    Column("file", "file"),
    Column("num_bytes", "bytes", right=True, text=lambda value: f"{value:,}"),
    Column("deleted", "deleted"),
    Column("reason", "why not", folds=True, usual=lambda row: row["reason"] is None),
)


class SweepOptions(CommandOptions):
    folders: tuple[str, ...] = argument(
        "FOLDER...",
        "A FOLDER is a local folder, including all below it; object stores have no such files.",
        nargs=-1,
        required=True,
        type=click.Path(readable=False, file_okay=False),
    )
    dry_run: bool = flag("Delete nothing; show what would be.")


@command("sweep", SweepOptions, storage=False)
def sweep(output: Output, given: SweepOptions) -> int:
    """Delete temporary files of killed writers: hidden files, .NAME.<16 hex digits>.parquet_bloom.tmp or .old.

    Files of running writers are kept. An .old file, which exists while a file is exchanged for its new version, is kept
    unless its name says that it is the one which was exchanged, or it holds the same rows as the file next to it, as it
    may belong to another writer.

    Exit codes: 0 done, or there was nothing to delete; 1 a file is kept, see why; 2 error in a folder.

    Example:
      parquet-bloom sweep lake/ --dry-run
      parquet-bloom sweep lake/ ids.index
    """
    totals: Counter[str] = Counter(files=0, deleted=0, kept=0, bytes_deleted=0)
    with output.rows("leftovers", COLUMNS) as rows:
        rows.facts |= {"dry_run": given.dry_run, "totals": totals}
        for folder in given.folders:
            with output.collect_errors(), output.step("sweep"):
                if is_url(folder):
                    raise StorageError("killed writers leave no files in a store of objects", path=folder)
                for each in sweep_folder(folder, dry_run=given.dry_run):
                    row = asdict(each)
                    rows.add({"file": row.pop("path")} | row)
                    totals["files"] += 1
                    totals["deleted" if each.deleted else "kept"] += 1
                    totals["bytes_deleted"] += each.num_bytes if each.deleted else 0
    done = "would delete" if given.dry_run else "deleted"
    text = f"{done} {count(totals['deleted'], 'file')}, {totals['bytes_deleted']:,} bytes"
    output.summary(text + (f"; {count(totals['kept'], 'file')} kept" if totals["kept"] else ""))
    return output.exit_code(BAD if totals["kept"] else 0)
