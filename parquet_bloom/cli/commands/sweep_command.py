"""`parquet-bloom sweep`: delete temporary files of killed writers."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict

import click

from ...errors import StorageError
from ...file.write.sweep_files import sweep as sweep_folder
from ...storage import is_url
from ...util.messages import count
from ..options.shared_options import command
from ..output.output import BAD, Output
from ..output.row_formats import Column

COLUMNS = (
    Column("file", "file", folds=True),
    Column("num_bytes", "bytes", right=True, text=lambda value: f"{value:,}"),
    Column("deleted", "deleted"),
    Column("reason", "why not", folds=True, usual=lambda row: row["reason"] is None),
)


@command(
    "sweep",
    example="parquet-bloom sweep lake/ --dry-run\nparquet-bloom sweep lake/ ids.index",
    exit_codes="0 done, or there was nothing to delete; 1 a file is kept, see why; 2 error in a folder.",
    paths=False,
    storage=False,
    about="A FOLDER is a local folder, including all below it; object stores have no such files.",
)
@click.argument(
    "folders", metavar="FOLDER...", nargs=-1, required=True, type=click.Path(readable=False, file_okay=False)
)
@click.option("--dry-run", is_flag=True, help="Delete nothing; show what would be.")
def sweep(output: Output, folders: tuple[str, ...], dry_run: bool) -> int:
    """Delete temporary files of killed writers: hidden files, .NAME.<16 hex digits>.parquet_bloom.tmp or .old.

    Files of running writers are kept. An .old file, which exists while a file is exchanged for its new version, is kept
    unless it holds the same rows as the file next to it, as it may belong to another writer.
    """
    totals: Counter[str] = Counter(files=0, deleted=0, kept=0, bytes_deleted=0)
    with output.rows("leftovers", COLUMNS) as rows:
        rows.facts |= {"dry_run": dry_run, "totals": totals}
        for folder in folders:
            with output.collect_errors(), output.step("sweep"):
                if is_url(folder):
                    raise StorageError("killed writers leave no files in a store of objects", path=folder)
                for each in sweep_folder(folder, dry_run=dry_run):
                    row = asdict(each)
                    rows.add({"file": row.pop("path")} | row)
                    totals["files"] += 1
                    totals["deleted" if each.deleted else "kept"] += 1
                    totals["bytes_deleted"] += each.num_bytes if each.deleted else 0
    done = "would delete" if dry_run else "deleted"
    text = f"{done} {count(totals['deleted'], 'file')}, {totals['bytes_deleted']:,} bytes"
    output.summary(text + (f"; {count(totals['kept'], 'file')} kept" if totals["kept"] else ""))
    return output.exit_code(BAD if totals["kept"] else 0)
