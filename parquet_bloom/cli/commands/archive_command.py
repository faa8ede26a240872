"""`parquet-bloom spark-archive`: pack the package and its dependencies into an archive for Spark's executors."""

from __future__ import annotations

import json
import shlex

from ...errors import ParquetBloomError
from ...util.messages import count
from ..command import CommandOptions, command, option
from ..output.output import Output
from ..output.row_formats import Column

COLUMNS = (
    Column("name", "distribution"),
    Column("version", "version"),
    Column("files", "files", right=True),
    Column("bytes", "bytes", right=True),
    Column("missing", "missing files", right=True, usual=lambda row: row["missing"] == 0),
)


class ArchiveOptions(CommandOptions):
    target: str = option(
        "PATH",
        "Write the archive here: a path or URL that ends in .tar.gz, .tgz or .tar.",
        "-o",
        "--output",
        required=True,
    )
    without: tuple[str, ...] = option(
        "NAME",
        "Leave out a distribution that executors have, and its dependencies that nothing else needs. Repeatable.",
        multiple=True,
    )
    extras: tuple[str, ...] = option(
        "NAME",
        "Also pack the dependencies of this extra of the package, such as s3. Repeatable.",
        "--extra",
        multiple=True,
    )


@command("spark-archive", ArchiveOptions)
def spark_archive(output: Output, given: ArchiveOptions) -> int:
    """Pack this package and its dependencies for Spark's executors, and show the settings that use the archive.

    Executors unpack it into their working folder, which PYTHONPATH refers to. They need the Python version and platform
    that packed it, and the same C library or a newer one; a file in the archive names these. pyspark is not packed.
    Packed distributions take precedence over those that executors have installed.

    Exit codes: 0 the archive is written; 2 error: nothing is written, and an existing archive stays.

    Example:
      parquet-bloom spark-archive -o env.tar.gz
      parquet-bloom spark-archive -o env.tar.gz --without pyarrow --without numpy
    """
    try:
        from ...spark.executor_archive import MANIFEST, write_archive
    except ImportError as error:
        raise ParquetBloomError(f"nothing can be packed here: {error}") from error

    with output.step("pack"), output.progress(0) as bar:
        packed = {"extras": given.extras, "without": given.without}
        report = write_archive(given.target, filesystem=output.filesystem, progress=bar.update, **packed)
    with output.rows("distributions", COLUMNS) as rows:
        made_for = report.made_for
        rows.facts |= {"output": report.path, "num_bytes": report.num_bytes, "unpacked_bytes": report.unpacked_bytes}
        rows.facts |= {"made_for": made_for, "settings": report.settings}
        for one in report.distributions:
            row = {"name": one.name, "version": one.version, "files": len(one.files), "bytes": one.num_bytes}
            rows.add(row | {"missing": one.missing})
    output.text(_format_usage(report.settings))
    output.summary(
        f"{report.path}: {count(report.num_bytes, 'byte')}, unpacked {report.unpacked_bytes:,}; for Python "
        f"{made_for['python']} on {made_for['platform']}, {made_for['libc'] or 'any C library'} ({MANIFEST})"
    )
    return output.exit_code()


def _format_usage(settings: dict[str, str]) -> str:
    archives, *others = settings.items()
    flags = [f"--archives {shlex.quote(archives[1])}"]
    flags += [f"--conf {shlex.quote(f'{key}={value}')}" for key, value in others]
    calls = [f"    .config({json.dumps(key)}, {json.dumps(value)})" for key, value in settings.items()]
    return "\n".join(
        [
            "",
            "spark-submit " + " \\\n    ".join([*flags, "..."]),
            "",
            "spark = (",
            "    SparkSession.builder",
            *calls,
            "    .getOrCreate()",
            ")  # on YARN, spark.yarn.dist.archives instead of spark.archives",
            "",
        ]
    )
