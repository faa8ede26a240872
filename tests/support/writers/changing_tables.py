"""Small Delta and Iceberg tables, what other writers do to them, and what is in them by their own libraries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

PARTITIONS = ["a b", "x/y", "100%", "é=ü", None]
ROWS = 100  # of each append; as many in each partition


class Operation(NamedTuple):
    """Something that another writer does to a table; `changes` takes the rows from before to those after."""

    run: Callable[[Any], Any]
    changes: Callable[[Counter[Any]], Counter[Any]]


def rows(start: int, count: int = ROWS, note: str = "v") -> pa.Table:
    numbers = range(start, start + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "s": [f"{note}{number}" for number in numbers],
            "p": pa.array([PARTITIONS[number % len(PARTITIONS)] for number in numbers], pa.string()),
        }
    )


def contents(table: pa.Table) -> Counter[Any]:
    """Return how often each row occurs."""
    return Counter((row["id"], row["s"], row["p"]) for row in table.select(["id", "s", "p"]).to_pylist())


def added(more: pa.Table) -> Callable[[Counter[Any]], Counter[Any]]:
    return lambda before: before + contents(more)


def kept(keeps: Callable[[Any], bool]) -> Callable[[Counter[Any]], Counter[Any]]:
    return lambda before: Counter({row: times for row, times in before.items() if keeps(row)})


def renamed(number: int) -> Callable[[Counter[Any]], Counter[Any]]:
    """Return what an update or merge makes of the row of an id."""
    return lambda before: Counter(
        {(row[0], "new" if row[0] == number else row[1], row[2]): n for row, n in before.items()}
    )


def same(before: Counter[Any]) -> Counter[Any]:
    return before


# --------------------------------------------------------------------------------------------------------- Delta


def make_delta(root: Path, appends: int = 3, *, partitioned: bool = True, **options: Any) -> str:
    from deltalake import write_deltalake

    for number in range(appends):
        by = ["p"] if partitioned else None
        write_deltalake(
            str(root), rows(number * ROWS), mode="append", partition_by=by, **(options if not number else {})
        )
    return str(root)


def read_delta(root: str, version: int | None = None) -> Counter[Any]:
    from deltalake import DeltaTable

    return contents(pa.table(DeltaTable(root, version=version).scan()))


def _overwrite(table: Any, predicate: str | None = None, numbers: int = 10) -> None:
    from deltalake import write_deltalake

    write_deltalake(table, rows(1, numbers), mode="overwrite", predicate=predicate)


def _append(table: Any) -> None:
    from deltalake import write_deltalake

    write_deltalake(table, rows(9_000, 10), mode="append")


def _merge(table: Any) -> None:
    source = pa.table({"id": pa.array([8], pa.int64()), "s": ["new"], "p": [PARTITIONS[8 % 5]]})
    merger = table.merge(source, "source.id = target.id", source_alias="source", target_alias="target")
    merger.when_matched_update_all().execute()


def _add_column(table: Any) -> None:
    from deltalake import Field
    from deltalake.schema import PrimitiveType

    table.alter.add_columns(Field("extra", PrimitiveType("long")))


def _vacuum(table: Any) -> None:
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)


DELTA_OPERATIONS = {
    "append": Operation(_append, added(rows(9_000, 10))),
    "delete": Operation(lambda table: table.delete("id = 5"), kept(lambda row: row[0] != 5)),
    "delete a partition": Operation(lambda table: table.delete("p = 'x/y'"), kept(lambda row: row[2] != "x/y")),
    "delete all": Operation(lambda table: table.delete(), kept(lambda row: False)),
    "update": Operation(lambda table: table.update(updates={"s": "'new'"}, predicate="id = 6"), renamed(6)),
    "merge": Operation(_merge, renamed(8)),
    "compact": Operation(lambda table: table.optimize.compact(), same),
    "z-order": Operation(lambda table: table.optimize.z_order(["id"]), same),
    "overwrite": Operation(_overwrite, lambda before: contents(rows(1, 10))),
    "overwrite some": Operation(lambda table: _overwrite(table, "id = 1", 1), lambda before: before),
    "add a column": Operation(_add_column, same),
    "vacuum": Operation(_vacuum, same),
    "restore": Operation(lambda table: table.restore(0), kept(lambda row: row[0] < ROWS)),
}


# ------------------------------------------------------------------------------------------------------- Iceberg


def open_catalog(folder: Path) -> Any:
    from pyiceberg.catalog.sql import SqlCatalog

    uri, warehouse = f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse"
    return SqlCatalog("catalog", uri=uri, warehouse=warehouse)


def make_catalog(folder: Path) -> Any:
    (folder / "warehouse").mkdir(parents=True, exist_ok=True)
    catalog = open_catalog(folder)
    catalog.create_namespace_if_not_exists("db")
    return catalog


def make_iceberg(folder: Path, appends: int = 3, version: int = 2, *, partitioned: bool = False) -> Any:
    """Return a new table `db.events` of pyiceberg."""
    from pyiceberg.transforms import IdentityTransform

    table = make_catalog(folder).create_table("db.events", rows(0).schema, properties={"format-version": str(version)})
    if partitioned:
        with table.update_spec() as update:
            update.add_field("p", IdentityTransform(), "p")
    for number in range(appends):
        table.append(rows(number * ROWS))
    return table


def reload(table: Any) -> Any:
    return table.catalog.load_table(table.name())


def read_iceberg(table: Any, snapshot_id: int | None = None) -> Counter[Any]:
    return contents(reload(table).scan(snapshot_id=snapshot_id).to_arrow())


def _expire(table: Any) -> None:
    table.maintenance.expire_snapshots().by_ids([table.metadata.snapshots[0].snapshot_id]).commit()


def _add_iceberg_column(table: Any) -> None:
    from pyiceberg.types import LongType

    with table.update_schema() as update:
        update.add_column("extra", LongType())


def _set_property(table: Any) -> None:
    with table.transaction() as change:
        change.set_properties({"other": "1"})


ICEBERG_OPERATIONS = {
    "append": Operation(lambda table: table.append(rows(9_000, 10)), added(rows(9_000, 10))),
    "delete": Operation(lambda table: table.delete("id == 5"), kept(lambda row: row[0] != 5)),
    "delete a partition": Operation(lambda table: table.delete("p == 'x/y'"), kept(lambda row: row[2] != "x/y")),
    "delete all": Operation(lambda table: table.delete("id >= 0"), kept(lambda row: False)),
    "overwrite": Operation(lambda table: table.overwrite(rows(1, 10)), lambda before: contents(rows(1, 10))),
    "upsert": Operation(
        lambda table: table.upsert(
            pa.table({"id": pa.array([5], pa.int64()), "s": ["new"], "p": pa.array([PARTITIONS[0]])}), join_cols=["id"]
        ),
        renamed(5),
    ),
    "expire": Operation(_expire, same),
    "add a column": Operation(_add_iceberg_column, same),
    "set a property": Operation(_set_property, same),
}


def change_iceberg(settings: dict[str, str], name: str, operation: str) -> bool:
    """Carry out an operation on a table of a catalog; for processes of their own."""
    from pyiceberg.catalog import load_catalog

    ICEBERG_OPERATIONS[operation].run(load_catalog("catalog", **settings).load_table(name))
    return True
