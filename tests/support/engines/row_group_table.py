"""Row groups that engines read of the same files, by predicate; `tools/bench/row_groups.py` prints them.

Page indexes are not asked: they rule out pages of row groups that are read.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

import parquet_bloom
from support.engines import sql_engines
from support.engines.clickhouse import ClickHouse
from support.engines.row_group_lakes import GROUPS, ROWS, TOTAL, Lake, id_of, make_rows, uid_of

OURS = "parquet_bloom"


class Scanned(NamedTuple):
    """The rows that a condition finds, and the row groups that are read for it."""

    rows: int
    row_groups: int


# ---------------------------------------------------------------------------------------------------- predicates


class Predicate(NamedTuple):
    """A condition in our SQL, which `spell` turns into that of others, and the rows that it means to pyarrow."""

    title: str
    where: str
    meaning: pc.Expression


def _field(name: str) -> pc.Expression:
    return pc.field(*name.split("."))


def _like(name: str, pattern: str) -> pc.Expression:
    return pc.match_like(_field(name), pattern)


def _between(name: str, low: Any, high: Any) -> pc.Expression:
    """`low < name < high`."""
    return (_field(name) > _literal(low)) & (_field(name) < _literal(high))


def _literal(value: Any) -> pc.Expression:
    return pc.scalar(value)


def predicates() -> list[Predicate]:
    row = 3 * ROWS + 7
    key, uid = id_of(row), uid_of(row)
    hundred = [id_of(5 * ROWS + 9), *range(101, 299, 2)]
    thousands = [key, *range(10_001, 20_000, 2)]
    id_, k, n, part, once, flag = (_field(name) for name in ("id", "k", "n", "part", "once", "flag"))
    stamp, is_checkout = _field("stamp"), _field("path") == "/m3/checkout"
    noon = dt.datetime(2024, 6, 4, 12)
    conditions = [
        ("unique number =", f"id = {key}", id_ == key),
        ("unique number, absent", "id = 7", id_ == 7),
        ("unique text =", f"uid = '{uid}'", _field("uid") == uid),
        ("unique number, IN 100", f"id IN ({', '.join(map(str, hundred))})", id_.isin(hundred)),
        ("unique number, IN 5,000", f"id IN ({', '.join(map(str, thousands))})", id_.isin(thousands)),
        ("unique number, IN with NULL", f"id IN ({key}, NULL)", id_ == key),
        ("unique number, null-safe =", f"id <=> {key}", id_ == key),
        ("unique number AND unique text", f"id = {key} AND uid = '{uid}'", id_ == key),
        ("unique number OR another", f"id = {key} OR id = 7", id_ == key),
        ("unique number OR unique text", f"id = {key} OR uid = 'u5'", (id_ == key) | (_field("uid") == "u5")),
        ("unique number OR range", f"id = {key} OR k > 155", (id_ == key) | (k > 155)),
        ("unique number OR few values", f"id = {key} OR n = 15", (id_ == key) | (n == 15)),
        ("=", "n = 13", n == 13),
        ("= absent, within range", "n = 500", n == 500),
        ("= absent, outside", "n = 5000", n == 5000),
        ("text =", "path = '/m3/checkout'", is_checkout),
        ("text = absent, within range", "path = '/m'", _field("path") == "/m"),
        ("text >", "path > '/zz/z'", _field("path") > "/zz/z"),
        ("IN", "n IN (13, 15, 500)", n.isin([13, 15, 500])),
        ("text IN", "path IN ('/m3/checkout', '/')", is_checkout),
        ("IN with NULL", "n IN (13, NULL)", n == 13),
        ("<>", "n <> 0", n != 0),
        ("<> the only value", "one <> 'only'", _field("one") != "only"),
        ("<> the only value or null", "once <> 'only'", once != "only"),
        ("NOT IN the only value", "once NOT IN ('only', 'x')", (once != "only") & (once != "x")),
        ("NOT IN", "n NOT IN (0, 1000, 13, 23)", ~n.isin([0, 1000, 13, 23])),
        ("clustered >", "k > 130", k > 130),
        ("clustered BETWEEN", "k BETWEEN 30 AND 50", _between("k", 29, 51)),
        ("> AND <", "n > 25 AND n < 1000", _between("n", 25, 1000)),
        ("BETWEEN", "n BETWEEN 26 AND 27", _between("n", 25, 28)),
        ("IS NULL", "part IS NULL", part.is_null()),
        ("IS NOT NULL", "part IS NOT NULL", part.is_valid()),
        ("null-safe =", "part <=> 'b'", part.is_valid() & (part == "b")),
        ("null-safe = NULL", "once <=> NULL", once.is_null()),
        ("LIKE prefix", "path LIKE '/m3%'", _like("path", "/m3%")),
        ("LIKE prefix, clustered", "pre LIKE 'p3%'", _like("pre", "p3%")),
        ("LIKE infix", "path LIKE '%m3/check%'", _like("path", "%m3/check%")),
        ("LIKE suffix", "path LIKE '%0/Index'", _like("path", "%0/Index")),
        ("LIKE in the middle", "path LIKE '/m3%out'", _like("path", "/m3%out")),
        ("NOT LIKE prefix", "pre NOT LIKE 'p%'", ~_like("pre", "p%")),
        ("NOT LIKE infix", "once NOT LIKE '%nl%'", ~_like("once", "%nl%")),
        ("starts_with", "starts_with(path, '/m3')", _like("path", "/m3%")),
        ("regexp_matches", "regexp_matches(path, '^/m[34]/')", _like("path", "/m3/%") | _like("path", "/m4/%")),
        ("lower() =", "lower(path) = '/mixed1/index'", pc.utf8_lower(_field("path")) == "/mixed1/index"),
        ("upper() =", "upper(path) = '/M3/CHECKOUT'", pc.utf8_upper(_field("path")) == "/M3/CHECKOUT"),
        ("CAST to text =", "CAST(n AS VARCHAR) = '13'", n == 13),
        ("CAST clustered to text =", "CAST(k AS VARCHAR) = '65'", k == 65),
        ("CAST to wider =", "CAST(n AS BIGINT) = 13", n == 13),
        (
            "CAST to date =",
            "CAST(stamp AS DATE) = DATE '2024-06-04'",
            _field("stamp").cast(pa.date32()) == noon.date(),
        ),
        ("few n + 1 =", "n + 1 = 14", n == 13),
        ("clustered k + 1 =", "k + 1 = 66", k == 65),
        ("coalesce =", "coalesce(part, 'none') = 'none'", part.is_null()),
        ("boolean", "flag", flag),
        ("NOT boolean", "NOT flag", ~flag),
        ("boolean IS TRUE", "flag IS TRUE", flag),
        ("boolean IS NOT TRUE", "flag IS NOT TRUE", flag.is_null() | ~flag),
        ("date =", "day = DATE '2024-06-04'", _field("day") == noon.date()),
        (
            "date > AND <",
            "day > DATE '2024-06-06' AND day < DATE '2024-12-31'",
            _between("day", dt.date(2024, 6, 6), dt.date(2024, 12, 31)),
        ),
        (
            "timestamp =",
            "ts = TIMESTAMPTZ '2024-06-04 12:00:00Z'",
            _field("ts") == _literal(noon.replace(tzinfo=dt.UTC)),
        ),
        (
            "clustered timestamp >=",
            "stamp >= TIMESTAMP_NTZ '2024-06-07 12:00:00'",
            stamp >= noon.replace(day=7),
        ),
        ("decimal =", "dec = 13.00", _field("dec") == _literal(Decimal("13.00"))),
        ("decimal > AND <", "dec > 15.00 AND dec < 999.00", _between("dec", Decimal("15.00"), Decimal("999.00"))),
        ("float =", "f = 103.5", _field("f") == 103.5),
        ("float > greatest", "f > 1000.0", _field("f") > 1000.0),
        ("float > AND <", "f > 105.0 AND f < 999.0", _between("f", 105.0, 999.0)),
        ("float <> the only value", "same <> 1.5", _field("same") != 1.5),
        ("float > AND <, with NaN", "ratio > 4.5 AND ratio < 5.5", _between("ratio", 4.5, 5.5)),
        ("float >, with NaN", "ratio > 100.0", pc.is_nan(_field("ratio"))),
        ("array_contains", "array_contains(tags, 't3')", _field("t3")),
        ("array_contains absent", "array_contains(tags, 't')", _literal(False)),
        ("struct leaf =", "st.a = 13", _field("st.a") == 13),
        ("struct leaf LIKE", "st.b LIKE 's3%'", _like("st.b", "s3%")),
        ("AND of columns", "path = '/m3/checkout' AND n = 14", _literal(False)),
        ("AND with a range", "k > 100 AND n = 15", (k > 100) & (n == 15)),
        ("OR with a range", "path = '/m3/checkout' OR k = 5", is_checkout | (k == 5)),
        ("OR of columns", "path = '/m3/checkout' OR n = 15", is_checkout | (n == 15)),
        ("NOT (OR)", "NOT (k < 130 OR n = 0)", ~((k < 130) | (n == 0))),
        ("NOT (AND)", "NOT (k < 130 AND one = 'only')", ~(k < 130)),
        ("NOT (BETWEEN)", "NOT (k BETWEEN 20 AND 500)", k < 20),
        ("NOT (LIKE OR)", "NOT (pre LIKE 'p0%' OR pre LIKE '%-%')", _literal(False)),
    ]
    return [Predicate(*condition) for condition in conditions]


@cache
def expect() -> dict[str, Scanned]:
    """Return the rows of a file that each predicate finds by pyarrow, and the row groups that they are in."""
    table = make_rows()
    tags = [tags is not None and "t3" in tags for tags in table["tags"].to_pylist()]
    table = table.append_column("t3", pa.array(tags)).append_column("row", pa.array(range(TOTAL)))
    found = {}
    for title, _, meaning in predicates():
        rows = table.filter(meaning)["row"].to_pylist()
        found[title] = Scanned(len(rows), len({row // ROWS for row in rows}))
    return found


_STAMP = r"TIMESTAMP(?:TZ|_NTZ) '([^'Z]*)Z?'"
_DECIMAL = r"(?<!\.)\b(\d+\.\d\d)\b"
_SPELLINGS: dict[str, list[tuple[str, str]]] = {
    "duckdb": [("<=>", "IS NOT DISTINCT FROM"), ("TIMESTAMP_NTZ", "TIMESTAMP"), ("array_contains", "list_contains")],
    "datafusion": [
        ("<=>", "IS NOT DISTINCT FROM"),
        ("TIMESTAMP_NTZ", "TIMESTAMP"),
        (r"TIMESTAMPTZ ('[^']*')", r"""arrow_cast(\1, 'Timestamp(Microsecond, Some("UTC"))')"""),
        ("array_contains", "array_has"),
        ("regexp_matches", "regexp_like"),
        (r"\bst\.(\w)", r"st['\1']"),
        (_DECIMAL, r"CAST('\1' AS DECIMAL(9, 2))"),
    ],
    "clickhouse": [
        (_STAMP, r"toDateTime64('\1', 6, 'UTC')"),
        (r"CAST\(stamp AS DATE\)", "toDate(stamp)"),
        ("VARCHAR", "Nullable(String)"),
        ("BIGINT", "Nullable(Int64)"),
        ("starts_with", "startsWith"),
        ("regexp_matches", "match"),
        ("array_contains", "has"),
        ("flag IS NOT TRUE", "NOT flag <=> true"),
        ("flag IS TRUE", "flag <=> true"),
        (_DECIMAL, r"toDecimal32('\1', 2)"),
    ],
    "spark": [
        ("TIMESTAMPTZ", "TIMESTAMP"),
        ("starts_with", "startswith"),
        ("regexp_matches", "regexp_like"),
        ("VARCHAR", "STRING"),
    ],
}


def spell(engine: str, where: str) -> str:
    """Return a condition in the SQL of an engine, of types that let it prune."""
    for pattern, replacement in _SPELLINGS.get(engine, []):
        where = re.sub(pattern, replacement, where)
    return where


# ------------------------------------------------------------------------------------------------------- engines


def scan_by_us(lake: Lake, where: str) -> Scanned:
    rows = parquet_bloom.read_table(lake.folder, where).num_rows
    report = parquet_bloom.prune(lake.folder, where)
    return Scanned(rows, sum(len(selected) for selected in report.selected.values()))


def scan_by_duckdb(engine: sql_engines.DuckDB, lake: Lake, where: str) -> Scanned:
    path = f"{lake.folder}/*.parquet"
    query = f"EXPLAIN (ANALYZE, FORMAT json) SELECT * FROM read_parquet('{path}') WHERE {where}"
    ((_, text),) = engine.connection.execute(query).fetchall()
    return Scanned(engine.count(path, where), json.loads(text)["query"]["total_row_groups_scanned"])


def scan_by_datafusion(engine: sql_engines.DataFusion, lake: Lake, where: str) -> Scanned:
    rows = engine.count(lake.folder, where)
    query = f"EXPLAIN ANALYZE SELECT * FROM {engine.table(lake.folder)} WHERE {where}"
    plan = engine.context.sql(query).to_pydict()["plan"][0]
    left = re.findall(r"row_groups_pruned_bloom_filter=\d+ total → (\d+) matched", plan)
    return Scanned(rows, sum(map(int, left)))


def scan_by_clickhouse(server: ClickHouse, lake: Lake, where: str) -> Scanned:
    """The event ParquetReadRowGroups counts those, too, that a dictionary rules out."""
    # Without PREWHERE: with it, rows that its first condition has denied are not counted.
    off = ("input_format_parquet_page_filter_push_down", "optimize_move_to_prewhere", "query_plan_optimize_prewhere")
    settings = ", ".join(f"{name} = 0" for name in off)
    ((rows,),) = server(
        f"SELECT count() FROM file('{lake.folder}/*.parquet', Parquet) WHERE {where} SETTINGS {settings}"
    )
    return Scanned(int(rows), -(-server.rows_read // ROWS))


def scan_by_spark(session: Any, lake: Lake, where: str) -> Scanned:
    execution = _open_by_spark(session, lake.folder).where(where)._jdf.queryExecution()
    rows = execution.toRdd().count()
    scans = [leaf for leaf in _leaves(execution.executedPlan()) if leaf.nodeName().startswith("Scan parquet")]
    return Scanned(rows, sum(scan.metrics().apply("numOutputRows").value() for scan in scans) // ROWS)


@lru_cache(8)
def _open_by_spark(session: Any, folder: Path) -> Any:
    """Return the frame of a lake; its schema takes Spark a job."""
    return session.read.option("parquet.filter.columnindex.enabled", "false").parquet(str(folder))


def _leaves(plan: Any) -> list[Any]:
    found = plan.collectLeaves()
    return [found.apply(number) for number in range(found.size())]


# -------------------------------------------------------------------------------------------------------- the table

SCANS: dict[str, Callable[[Any, Lake, str], Scanned]] = {
    "Spark": scan_by_spark,
    "DuckDB": scan_by_duckdb,
    "DataFusion": scan_by_datafusion,
    "ClickHouse": scan_by_clickhouse,
}


class Line(NamedTuple):
    """What engines do for a predicate over a lake.

    Attributes
    ----------
    total : row groups of the lake.
    expected : the rows that pyarrow finds, and the row groups that these are in.
    scanned : by each engine, ours among them.
    """

    lake: str
    predicate: str
    total: int
    expected: Scanned
    scanned: dict[str, Scanned]

    @property
    def best(self) -> int:
        """The fewest row groups that another engine reads which finds the right rows; all if none does."""
        others = [one for name, one in self.scanned.items() if name != OURS and one.rows == self.expected.rows]
        return min((one.row_groups for one in others), default=self.total)


def measure(lakes: list[Lake], engines: dict[str, Any], title: str | None = None) -> Iterator[Line]:
    """Ask engines, and us, for predicates over lakes.

    Parameters
    ----------
    engines : what `SCANS` takes, by the engine's name.
    title : of the predicate; None for all.
    """
    questions = [one for one in predicates() if title in (None, one.title)]
    for lake in lakes:
        for one in questions:
            if lake.title == "ClickHouse" and re.search(r"\bstamp\b", one.where):
                continue  # its timestamps all have a zone
            scanned = {OURS: scan_by_us(lake, one.where)}
            for name, engine in engines.items():
                scanned[name] = SCANS[name](engine, lake, spell(name.lower(), one.where))
            rows, row_groups = expect()[one.title]
            expected = Scanned(rows * lake.files, row_groups * lake.files)
            yield Line(lake.title, one.title, GROUPS * lake.files, expected, scanned)
