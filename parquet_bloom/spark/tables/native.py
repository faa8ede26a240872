"""Spark's own scan of some files of a table, with the partition values of the table's metadata."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from ...errors import first_line
from ...scan.model.fit import fit_table
from ...tables.snapshot import TableSnapshot
from ..arrow.convert import arrow_field
from ..plan.reread import listed_by_driver
from ..session.fallback import CannotPush
from ..session.fields import quote
from ..session.paths import file_uri, listed_path

# The rules of both formats, whatever the session's are for other files.
OPTIONS = {
    "recursiveFileLookup": "true",  # folders' names mean nothing
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "mergeSchema": "false",
}

# Bounds of floats leave out NaN, which Spark orders above all numbers, and dictionaries have one of the zeros, which it
# finds equal; but it asks both as if it did neither.
NO_BOUNDS = {
    "parquet.filter.stats.enabled": "false",
    "parquet.filter.columnindex.enabled": "false",
    "parquet.filter.dictionary.enabled": "false",
}

_METADATA = "_metadata"
_FILE, _PATH = "file of the table", "path of the file"


def scan_natively(
    spark: SparkSession, snapshot: TableSnapshot, paths: Sequence[str], schema: StructType, options: Mapping[str, str]
) -> DataFrame:
    """Return Spark's own scan of some files.

    Parameters
    ----------
    paths : the files; at least one.
    schema : the columns that are read.
    options : further options of Spark's reader.

    Raises
    ------
    CannotPush
        Spark does not open them, or not exactly them.
    """
    given = {*snapshot.partition_values.column_names}
    in_files = [field for field in schema.fields if field.name not in given]
    in_metadata = [field for field in schema.fields if field.name in given]
    if not in_files:
        raise CannotPush("no column of the files is read")
    taken = {name.lower() for name in schema.names}.intersection((_METADATA, _FILE, _PATH))
    if in_metadata and taken:
        raise CannotPush(f"a column is called {min(taken)}")
    reader = spark.read.schema(StructType(in_files)).options(**OPTIONS, **options)
    try:
        with listed_by_driver(spark, len(paths)):
            frame = reader.format("parquet").load(list(map(file_uri, paths)))
            uris = {listed_path(uri): uri for uri in frame.inputFiles()}
    except PySparkException as error:
        raise CannotPush(f"Spark does not open the files: {first_line(error)}") from error
    if uris.keys() != {*paths}:
        other = min(uris.keys() ^ {*paths})
        raise CannotPush(f"Spark does not list exactly the table's files: {other}")
    if not in_metadata:
        return frame.select(*map(quote, schema.names))
    values = _find_values(snapshot, [uris[path] for path in paths], paths, in_metadata)
    known = spark.createDataFrame(values, StructType([StructField(_FILE, StringType()), *in_metadata]))
    files = frame.select(
        *(F.col(quote(field.name)) for field in in_files), F.col(f"{_METADATA}.file_path").alias(_PATH)
    )
    joined = files.join(F.broadcast(known), F.col(quote(_PATH)) == F.col(quote(_FILE)), "left")

    def column(name: str) -> Column:
        if name not in given:
            return F.col(quote(name))
        problem = F.concat(F.col(quote(_PATH)), F.lit(": its partition values are not known"))
        unknown = F.col(quote(_FILE)).isNull()
        return F.when(unknown, F.raise_error(problem)).otherwise(F.col(quote(name))).alias(name)

    return joined.select(*map(column, schema.names))


def _find_values(
    snapshot: TableSnapshot, uris: Sequence[str], paths: Sequence[str], fields: Sequence[StructField]
) -> pa.Table:
    """Return the partition values of files as Spark takes them, with their URIs in the first column.

    Spark writes a URI of a local file in two ways, one in its lists of files and another in their metadata: both are
    there. A file whose URI is not there is an error of the query.
    """
    positions = {file.path: i for i, file in enumerate(snapshot.files)}
    spellings = [(uri, path) for given, path in zip(uris, paths, strict=True) for uri in {given, _shorten(given)}]
    schema = pa.schema([arrow_field(field) for field in fields])
    rows = pa.array([positions[path] for _, path in spellings], pa.int64())
    values = fit_table(snapshot.partition_values.take(rows), schema)
    return values.add_column(0, pa.field(_FILE, pa.string()), pa.array([uri for uri, _ in spellings], pa.string()))


def _shorten(uri: str) -> str:
    return re.sub("^file:/+", "file:/", uri)
