"""ORC files by Spark and by ORC's own Java writer: both kinds of filters, every type, nulls, time zones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Names that say the type; every 11th row is null, and each value is that of one row as far as the type allows.
COLUMNS = {
    "id": "id",
    "flag": "id % 2 = 0",
    "i8": "cast(id % 256 - 128 as tinyint)",
    "i16": "cast(id * 13 % 65536 - 32768 as smallint)",
    "i32": "cast(id * 7919 - 1000000 as int)",
    "i64": "id * 1000003 - 9000000000",
    "f32": "cast(case id % 5 when 0 then -0.0f when 1 then cast('NaN' as float) else id / 8 end as float)",
    "f64": "case id % 7 when 0 then 0.0d when 1 then cast('NaN' as double) when 2 then -0.0d else id / 3 end",
    "s": "concat('ключ-', id)",
    "bin": "cast(concat('b', id) as binary)",
    "day": "date_add(DATE '1900-01-01', cast(id * 17 as int))",
    "old_day": "date_add(DATE '1500-01-01', cast(id * 17 as int))",
    "ts": "timestamp_micros(id * 86400123457 * 7 - 2000000000000000)",
    "old_ts": "timestamp_micros(id * 86400123457 * 7 - 17000000000000000)",
    "ntz": "cast(timestamp_micros(id * 86400123457 * 7) as timestamp_ntz)",
    "d9": "cast((id - 1000) * 7 / 4 as decimal(9, 2))",
    "d18": "cast((id - 1000) * 7000 as decimal(18, 3))",
    "d38": "cast(id as decimal(38, 10)) * 1000000007 / 8",
    "span": "make_dt_interval(0, 0, 0, id)",
    "months": "make_ym_interval(0, cast(id as int))",
    "st": "named_struct('a', id, 'b', concat('n', id), 'in', named_struct('x', cast(id as int)))",
    "li": "array(id, id + 1)",
    "ma": "map(concat('k', id), id)",
}
NULLABLE = [name for name in COLUMNS if name != "id"]
SIZED = {"c": "CHAR(6)", "v": "VARCHAR(6)"}
FILTERED = [*(name for name in COLUMNS if name not in ("li", "ma", "st")), "st.a", "st.b", "st.in.x", *SIZED]


@contextmanager
def jvm_zone(spark: Any, zone: str) -> Iterator[None]:
    """Spark writes and reads ORC timestamps by the zone of its JVM, whatever the session's is."""
    zones = spark._jvm.java.util.TimeZone
    before, session = zones.getDefault(), spark.conf.get("spark.sql.session.timeZone")
    zones.setDefault(zones.getTimeZone(zone))
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        yield
    finally:
        zones.setDefault(before)
        spark.conf.set("spark.sql.session.timeZone", session)


def write(spark: Any, target: Path, version: str, zone: str, *, count: int) -> Path:
    """Write one file of one task, so that its rows keep their order, in a folder; the path of the file."""
    columns = [
        f"if(id % 11 = 3, null, {text}) AS `{name}`" if name in NULLABLE else f"{text} AS `{name}`"
        for name, text in COLUMNS.items()
    ]
    columns += ["concat('s', id % 5000) AS c", "if(id % 11 = 3, null, concat('v', id % 5000)) AS v"]
    options = {
        "compression": "zlib",
        "orc.bloom.filter.columns": ",".join(FILTERED),
        "orc.bloom.filter.fpp": "0.01",
        "orc.bloom.filter.write.version": version,
        "orc.row.index.stride": "1000",
        "orc.stripe.row.count": "2000",
    }
    with jvm_zone(spark, zone):
        frame = spark.range(0, count, 1, 1).selectExpr(*columns)
        kinds = {field.name: SIZED.get(field.name, field.dataType.simpleString()) for field in frame.schema}
        types = ", ".join(f"`{name}` {kind}" for name, kind in kinds.items())
        given = ", ".join(f"'{key}'='{value}'" for key, value in options.items())
        spark.sql("DROP TABLE IF EXISTS orc_written")
        spark.sql(f"CREATE TABLE orc_written ({types}) USING orc OPTIONS ({given}) LOCATION '{target}'")
        try:
            frame.write.insertInto("orc_written")
        finally:
            spark.sql("DROP TABLE IF EXISTS orc_written")  # leaves the files, which are elsewhere
    (file,) = target.glob("*.orc")
    return file


def java_file(
    spark: Any,
    path: Path,
    schema: str,
    rows: Sequence[tuple[Any, ...]],
) -> Path:
    """A file by ORC's own Java writer, for types that Spark does not write: CHAR, VARCHAR, zoned timestamps.

    Parameters
    ----------
    schema : ORC's text of a flat struct, such as ``struct<c:char(5),t:timestamp with local time zone>``.
    rows : text, integers, floats, days as integers, timestamps as microseconds since 1970 in UTC; None is null.
    """
    from py4j.java_gateway import get_field, set_field

    jvm = spark._jvm
    orc = jvm.org.apache.orc
    described = orc.TypeDescription.fromString(schema)
    names = list(described.getFieldNames())
    conf = jvm.org.apache.hadoop.conf.Configuration()
    options = orc.OrcFile.writerOptions(conf).setSchema(described).overwrite(True).rowIndexStride(1000)
    options = options.bloomFilterColumns(",".join(names)).bloomFilterFpp(0.01)
    options = options.bloomFilterVersion(orc.OrcFile.BloomFilterVersion.UTF8)
    options = options.compress(orc.CompressionKind.ZLIB).setProlepticGregorian(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = orc.OrcFile.createWriter(jvm.org.apache.hadoop.fs.Path(f"file://{path}"), options)
    batch = described.createRowBatch(len(rows))
    kinds = [child.getCategory().getName() for child in described.getChildren()]
    for column, kind, values in zip(get_field(batch, "cols"), kinds, zip(*rows, strict=True), strict=True):
        nulls = get_field(column, "isNull")
        for position, value in enumerate(values):
            if value is None:
                set_field(column, "noNulls", False)
                nulls[position] = True
            elif kind in ("string", "char", "varchar"):
                column.setVal(position, value.encode())
            elif kind.startswith("timestamp"):
                stamp = jvm.java.sql.Timestamp(value // 1000)
                stamp.setNanos(value % 1_000_000 * 1000)
                column.set(position, stamp)
            else:
                get_field(column, "vector")[position] = value
    set_field(batch, "size", len(rows))
    writer.addRowBatch(batch)
    writer.close()
    return path
