"""Files that Spark lists: their paths and file systems, and the layout of their folders."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from parquet_bloom.spark.session.hadoop import resolve_storage
from parquet_bloom.spark.session.session_settings import CannotPush, file_uri, normalize_path
from parquet_bloom.spark.spark_partitions import find_layout

SCHEMA = StructType([StructField("id", LongType()), StructField("p", StringType())])


class _NoJvm:
    """A session without a JVM."""


def test_paths_without_a_jvm() -> None:
    session: Any = _NoJvm()
    for uris, options, paths in (
        ([], None, []),
        (["file:///a%20b", "file:/c"], None, ["/a b", "/c"]),
        (["file:///a%20b"], {"region": "x"}, ["/a b"]),
        (["s3a://b/k%20x%25"], None, ["s3a://b/k x%"]),
        (["s3n://b/k"], {"region": "x"}, ["s3://b/k"]),
        (["wasbs://c@a.blob.core.windows.net/k"], None, ["abfss://c@a.dfs.core.windows.net/k"]),
        (["gs://b/k%3F%23", "gs://b/ü"], {}, ["gs://b/k?#", "gs://b/ü"]),
    ):
        result, filesystem = resolve_storage(session, uris, options)
        assert result == paths
        assert (filesystem is None) == (not options or uris[0].startswith("file"))
    for uris, options, problem in (
        (["file:///a", "s3a://b/k"], None, "several kinds"),
        (["hdfs://n/a", "webhdfs://n/a"], None, "several kinds"),
        (["hdfs://n/a"], None, "without a JVM"),
        (["hdfs://n/a"], {"region": "x"}, "for object stores, not for hdfs"),
        (["a/b"], None, "not known which file"),
    ):
        with pytest.raises(CannotPush, match=problem):
            resolve_storage(session, uris, options)


def test_normalized_paths_are_prefixes_of_listed_paths() -> None:
    for path, expected in (
        ("s3a://b", "s3a://b/"),
        ("s3a://b/", "s3a://b/"),
        ("s3a://b//x//y/", "s3a://b/x/y"),
        ("s3a://b/x/../y z%20", "s3a://b/y z%20"),
        ("hdfs:///x/y", "hdfs://nn:8020/x/y"),
        ("hdfs:/x", "hdfs://nn:8020/x"),
        ("hdfs://other/x", "hdfs://other/x"),
        ("file:/a/../b", "/b"),
    ):
        assert normalize_path(path, "hdfs://nn:8020") == expected
    for path, uri in (("/a{b", "file:///a\\{b"), ("s3a://b/a[b,c", "s3a://b/a\\[b\\,c"), ("hdfs://n/ü %20",) * 2):
        assert file_uri(path) == uri  # escaped for the reader


@pytest.mark.parametrize("root", ["s3a://b/t", "hdfs:///t/", "hdfs://nn/t//", "hdfs:/t"])
def test_partitions_are_found_on_any_file_system(root: str) -> None:
    authority = "s3a://b" if root.startswith("s3a") else "hdfs://nn"
    files = [f"{authority}/t/p=0{number}/f.parquet" for number in range(3)]
    layout = find_layout(files, [root], {}, SCHEMA, True)
    assert (layout.base, layout.columns) == (f"{authority}/t", ("p",))
    assert layout.base_path == f"{authority}/t"
    assert list(layout.values.values()) == [("00",), ("01",), ("02",)]
    only = find_layout(files[:1], [f"{root.rstrip('/')}/p=00"], {"basePath": root}, SCHEMA, True)
    assert (only.base, only.columns) == (layout.base, ("p",))


def test_a_bucket_is_a_folder() -> None:
    layout = find_layout(["s3a://b/p=1/f.parquet"], ["s3a://b"], {}, SCHEMA, True)
    assert (layout.base, layout.columns) == ("s3a://b/", ("p",))


def test_paths_outside_of_the_roots_are_refused() -> None:
    with pytest.raises(CannotPush, match="below none of the paths"):
        find_layout(["hdfs://nn/t/f.parquet"], ["relative/t"], {}, SCHEMA, True)
    with pytest.raises(CannotPush, match="given twice"):
        find_layout(["hdfs://nn/t/f.parquet"], ["hdfs:///t", "hdfs://nn/t/f.parquet"], {}, SCHEMA, True)
