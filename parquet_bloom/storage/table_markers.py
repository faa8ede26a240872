"""Markers of tables and sinks that track their files in metadata: the folder of the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..errors import ManagedTableError

LOGS = {
    "_delta_log": "the Delta table",
    "_spark_metadata": "the streaming sink",
    ".hoodie": "the Hudi table",
}
ICEBERG = "metadata"
ICEBERG_FILES = (".metadata.json", ".metadata.json.gz")

TABLE_WAY_OUT = "give the table itself (parquet_bloom.delta, parquet_bloom.iceberg) or the list of its live files"
"""How the error of a path that belongs to a table ends."""


def find_tables(files: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield (table folder, marker) for each path that has a marker of a table in it; parts are separated by `/`."""
    for file in files:
        parts = file.split("/")
        for depth, part in enumerate(parts[:-1]):
            is_iceberg = part == ICEBERG and depth == len(parts) - 2 and parts[-1].endswith(ICEBERG_FILES)
            if part in LOGS or is_iceberg:
                yield "/".join(parts[:depth]), part
                break


def describe_table(marker: str, folder: str) -> str:
    """Return the reason why a folder belongs to a table; the marker is one of `LOGS`, or `ICEBERG`."""
    if marker == ICEBERG:
        return format_reason("the Iceberg table", folder, "metadata/*.metadata.json")
    return format_reason(LOGS[marker], folder, marker + "/")


def format_reason(what: str, folder: str, marker: str) -> str:
    """Return a reason that names another kind of table or marker."""
    return f"belongs to {what} {folder} (it has {marker})"


def refuse_managed_table(reason: str | None, path: str) -> None:
    """Raise ManagedTableError if `reason` says that a path belongs to a table."""
    if reason:
        problem = f"{reason}: a listing would find removed files too; {TABLE_WAY_OUT}"
        raise ManagedTableError(problem, path=path)
