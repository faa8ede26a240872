"""Row groups that engines read of the same files, by predicate, and whether they find the right rows.

python tools/bench/row_groups.py [--each]

Lakes of five writers have the same rows: with dictionaries, filters and statistics that differ from column to column,
with dictionaries given up in the middle of a column chunk, and with chunks that are null. Row groups are counted by the
engines themselves: DuckDB's profile, the metrics of DataFusion's plan, the rows that Spark's scan and ClickHouse have
read. Page indexes are not asked. The rows are held against pyarrow's own evaluation.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

from _common import header

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from support.engines import sql_engines
from support.engines.clickhouse import ClickHouse
from support.engines.row_group_lakes import GROUPS, ROWS, write_lakes
from support.engines.row_group_table import OURS, Line, measure

NEEDED = "with rows"  # row groups that have a matching row


def print_table(heading: str, names: list[str], lines: dict[str, list[Line]]) -> None:
    """Print a line for each group of lines: the row groups of all of them."""
    columns = [NEEDED, OURS, "best other", *names]
    print(f"{heading:37}" + "".join(f"{column:>14}" for column in columns))
    for title, some in lines.items():
        counts = [
            sum(line.expected.row_groups for line in some),
            sum(line.scanned[OURS].row_groups for line in some),
            sum(line.best for line in some),
            *(sum(line.scanned[name].row_groups for line in some) for name in names),
        ]
        print(f"{title:37}" + "".join(f"{count:14,}" for count in counts))
    print()


def group_by(lines: Iterable[Line], key: Callable[[Line], str]) -> dict[str, list[Line]]:
    groups: dict[str, list[Line]] = {}
    for line in lines:
        groups.setdefault(key(line), []).append(line)
    return groups


def print_findings(lines: list[Line], names: list[str]) -> None:
    """Print where another engine reads less than we do, and where one finds other rows than pyarrow."""
    worse = [line for line in lines if line.scanned[OURS].row_groups > line.best]
    for line in worse:
        print(f"more than {line.best}: {line.scanned[OURS].row_groups} of {line.lake}, {line.predicate}")
    print(f"never more than the best other engine: {'missed' if worse else 'reached'}")
    for name in (OURS, *names):
        wrong = [line for line in lines if line.scanned[name].rows != line.expected.rows]
        print(f"{name}: {len(lines) - len(wrong):,} of {len(lines):,} answers have pyarrow's rows")
        for line in wrong:
            print(f"  {line.scanned[name].rows:,} rows, not {line.expected.rows:,}: {line.lake}, {line.predicate}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", action="store_true", help="print the table of each lake, too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        home = Path(name)
        session = sql_engines.spark_session(str(home / "spark"))
        stack.callback(session.stop)
        spark, duckdb, datafusion = sql_engines.Spark(session), sql_engines.DuckDB(), sql_engines.DataFusion()
        clickhouse = stack.enter_context(ClickHouse(home / "clickhouse"))
        ((version,),) = clickhouse("SELECT version()")
        versions = [spark.version(), duckdb.version(), datafusion.version(), f"ClickHouse {version}"]
        writers = {
            "pyarrow": None,
            "spark": spark,
            "duckdb": duckdb,
            "datafusion": datafusion,
            "clickhouse": clickhouse,
        }
        lakes = write_lakes(home, writers)
        engines = {"Spark": session, "DuckDB": duckdb, "DataFusion": datafusion, "ClickHouse": clickhouse}
        header(
            "row groups read, by predicate",
            f"date     {datetime.date.today()}",
            f"peers    {', '.join(versions)}",
            *(f"lake     {lake.title}: {GROUPS * lake.files} row groups of {ROWS:,} rows" for lake in lakes),
        )
        lines = list(measure(lakes, engines))
    names = list(engines)
    print_table("predicate", names, group_by(lines, lambda line: line.predicate))
    print_table("lake", names, group_by(lines, lambda line: line.lake))
    if options.each:
        for lake, some in group_by(lines, lambda line: line.lake).items():
            print_table(lake, names, group_by(some, lambda line: line.predicate))
    print_findings(lines, names)


if __name__ == "__main__":
    main()
