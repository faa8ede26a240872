"""Public functions: a dataset of files, and a join with one.

They are apart from `scan.api` because `pyarrow.dataset` takes as long to import as many scans take.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from ...errors import ParquetBloomError
from ...file.cache.memory import SHARED_CACHE, MetadataCache
from ...predicate.literal import from_collection
from ...predicate.tree import In
from ..scan import Scan
from ..source import ScanSource
from .dataset import Dataset

if TYPE_CHECKING:
    from ..plan.index import Index
    from ..plan.zone import Zones


def dataset(
    source: Any,
    *,
    index: Index | None = None,
    zones: Zones | None = None,
    partitioning: Literal["hive"] | None = "hive",
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    cache: MetadataCache | None = SHARED_CACHE,
    schema: pa.Schema | None = None,
) -> Dataset:
    """Open the files of a lake as one dataset, which every engine can query and which reads only what a query needs.

    Parameters
    ----------
    source : a file, a folder, a pattern, or a list of them: local paths, or URLs of object stores (`s3://`, `gs://`,
        `az://`, `abfss://`) or web servers (`https://`); or a `LakeIndex`, for its live files. None for those of
        `index`. Parquet and ORC files may be mixed: the format is recognised by a file's last bytes.
    index, zones, partitioning, filesystem, storage_options, cache : as in `prune`.
    schema : of the rows; None for the unified schema of all files, whose footers are read now, and with an index for
        that of its first file. INT96 timestamps are shown in nanoseconds, as by pyarrow, and one that these cannot
        count (before 1677, after 2262) is an error; with a schema that has timestamps, but none in nanoseconds, they
        are shown in microseconds, without fractions of these.

    Returns
    -------
    Dataset
        A `pyarrow.dataset.Dataset`: pass it to DuckDB, polars or DataFusion, or call its `scan`. The files are listed
        anew for each query, so that files that were added, replaced or removed are seen; the schema stays.

    Raises
    ------
    ParquetBloomError
        There are no files, a file cannot be read, or the files' columns do not fit into one schema.
    """
    source = ScanSource.resolve(source, filesystem, storage_options, index, zones, partitioning, cache)
    return Dataset.open(source, schema)


def semi_join(dataset: Dataset, keys: Any, on: str) -> Scan:
    """Return a scan of the rows of a dataset whose key is one of some keys: one side of a join, pruned by the other.

    Parameters
    ----------
    dataset : the large side.
    keys : the keys of the small side: an Arrow array or column, a pandas or polars Series, or any collection; or a
        table or data frame with a column of the same name.
    on : the key's column in the dataset.

    Raises
    ------
    PredicateError
        The keys are not values that a predicate can have.
    ParquetBloomError
        The first argument is not a dataset, or the table has no such column.
    """
    if not hasattr(dataset, "scan"):
        raise ParquetBloomError(f"give a dataset, as parquet_bloom.dataset returns, got {type(dataset).__name__}")
    names = getattr(keys, "column_names", getattr(keys, "columns", None))
    if names is not None:
        if on not in list(names):
            raise ParquetBloomError(f"the table of keys has no column {on!r}")
        keys = keys[on]
    return dataset.scan(In(on, from_collection(keys)))
