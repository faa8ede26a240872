"""ORC files by Spark: every codec, both kinds of filters, every type, nulls, two time zones.

``python tests/support/writers/orc_spark_files.py FOLDER`` writes them all; tests write those that they need. Beside
each folder of ORC files has the same table as Parquet (`NAME.twin.parquet`), so that values are known without an
ORC reader.
"""

from __future__ import annotations

import itertools
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CODECS = ["none", "zlib", "snappy", "lzo", "lz4", "zstd"]
VERSIONS = ["original", "utf8"]
ZONES = ["UTC", "America/Los_Angeles"]

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


def rows(spark: Any, count: int, columns: dict[str, str] = COLUMNS) -> Any:
    """The table in one task, so that its rows keep their order."""
    made_columns = [
        f"if(id % 11 = 3, null, {text}) AS `{name}`" if name in NULLABLE else f"{text} AS `{name}`"
        for name, text in columns.items()
    ]
    sized = ["concat('s', id % 5000) AS c", "if(id % 11 = 3, null, concat('v', id % 5000)) AS v"]
    return spark.range(0, count, 1, 1).selectExpr(*made_columns, *sized)


def options(codec: str, version: str, stride: int = 1000, fpp: float = 0.01) -> dict[str, str]:
    return {
        "compression": codec,
        "orc.bloom.filter.columns": ",".join(FILTERED),
        "orc.bloom.filter.fpp": str(fpp),
        "orc.bloom.filter.write.version": version,
        "orc.row.index.stride": str(stride),
        "orc.stripe.row.count": str(2 * stride),
    }


def write(spark: Any, folder: Path, codec: str, version: str, zone: str, *, count: int = 4500) -> Path:
    """Write one folder of one ORC file, and its twin; the path of the file."""
    target = folder / f"{codec}-{version}-{zone.replace('/', '_')}"
    with jvm_zone(spark, zone):
        frame = rows(spark, count)
        frame.write.mode("overwrite").parquet(f"{target}.twin.parquet")
        types = ", ".join(
            f"`{field.name}` {SIZED.get(field.name, field.dataType.simpleString())}" for field in frame.schema
        )
        shutil.rmtree(target, ignore_errors=True)
        given = ", ".join(f"'{key}'='{value}'" for key, value in options(codec, version).items())
        spark.sql("DROP TABLE IF EXISTS orc_written")
        spark.sql(f"CREATE TABLE orc_written ({types}) USING orc OPTIONS ({given}) LOCATION '{target}'")
        try:
            frame.write.insertInto("orc_written")
        finally:
            spark.sql("DROP TABLE IF EXISTS orc_written")  # leaves the files, which are elsewhere
    (file,) = target.glob("*.orc")
    return file


def write_all(spark: Any, folder: Path) -> list[Path]:
    """Every codec under both versions in both zones."""
    return [write(spark, folder, *what) for what in itertools.product(CODECS, VERSIONS, ZONES)]


def java_file(
    spark: Any,
    path: Path,
    schema: str,
    rows: Sequence[tuple[Any, ...]],
    *,
    version: str = "utf8",
    proleptic: bool = False,
    stride: int = 1000,
    codec: str = "zlib",
    fpp: float = 0.01,
) -> Path:
    """A file by ORC's own Java writer, for types that Spark does not write: CHAR, VARCHAR, zoned timestamps.

    Parameters
    ----------
    schema : ORC's text of a flat struct, such as ``struct<c:char(5),t:timestamp with local time zone>``.
    rows : text, integers, floats, days as integers, timestamps as microseconds since 1970 in UTC; None is null.
    proleptic : which calendar the writer says its days are of.
    """
    from py4j.java_gateway import get_field, set_field

    jvm = spark._jvm
    orc = jvm.org.apache.orc
    described = orc.TypeDescription.fromString(schema)
    names = list(described.getFieldNames())
    conf = jvm.org.apache.hadoop.conf.Configuration()
    options = orc.OrcFile.writerOptions(conf).setSchema(described).overwrite(True).rowIndexStride(stride)
    options = options.bloomFilterColumns(",".join(names)).bloomFilterFpp(fpp)
    options = options.bloomFilterVersion(getattr(orc.OrcFile.BloomFilterVersion, version.upper()))
    options = options.compress(getattr(orc.CompressionKind, codec.upper())).setProlepticGregorian(proleptic)
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
        if kind == "date" and proleptic:
            column.changeCalendar(True, False)
    set_field(batch, "size", len(rows))
    writer.addRowBatch(batch)
    writer.close()
    return path


def main(folder: str) -> None:
    from pyspark.sql import SparkSession

    directory = Path(folder).absolute()
    directory.mkdir(parents=True, exist_ok=True)
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.legacy.charVarcharAsString": "false",
        "spark.sql.charAsVarchar": "false",
    }
    builder = SparkSession.builder.master("local[1]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        for file in write_all(spark, directory):
            print(file)
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
