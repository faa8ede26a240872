"""Options with which Spark's own Parquet writer, parquet-java, writes well-sized filters."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..core.bloom import sizing
from ..errors import ParquetBloomError
from ..file.filter_builder import Columns, FilterOptions, parse_columns

_PREFIX = "parquet.bloom.filter."
_DEFAULT_NDV = 2_000_000  # distinct values per row group without ndv: 128 MiB of rows of 64 bytes
_MIN_CANDIDATE_BYTES = 512  # parquet-java drops smaller ones itself
_MODEL_KEYS = 100_000  # enough that the model's bits per key do not depend on the number of keys


def write_options(columns: Columns, fpp: float = 0.01, ndv: int | Mapping[str, int] | None = None) -> dict[str, str]:
    """Return options with which Spark writes Bloom filters.

    Use them as ``df.write.options(**write_options(["id"])).parquet(path)``. With `ndv`, filters have the size that
    `parquet_bloom.embed` gives them. Without, parquet-java fills filters of many sizes at once and keeps the smallest
    that holds the values. All sizes are powers of two.

    Parameters
    ----------
    columns : a name, names, or {name: fpp} or {name: {"fpp": ..., "ndv": ...}}. Names are dotted paths as the files
        have them, in their case: `user.id`, `tags.list.element`, `map.key_value.key`. parquet-java silently ignores a
        column that does not exist, and cannot address a name that itself contains a dot.
    fpp : false-positive probability of columns that do not set one.
    ndv : distinct values in a row group (not in the table), as a number or as {name: number}; None lets parquet-java
        count them. If it is too small, filters let everything pass, without a warning.

    Returns
    -------
    dict
        Options for `DataFrameWriter.options`; names and values are strings.

    Raises
    ------
    ParquetBloomError
        A setting is out of range, a filter cannot hold the expected distinct values, or Spark's options cannot
        represent a column's name.

    Notes
    -----
    Size: for n distinct values at fpp 0.01, 10.5 bits per value, rounded up to a power of two: 2 MiB for 1,000,000 in
    each row group. Dictionaries are disabled for these columns, since parquet-java writes no filter for a column chunk
    that is entirely dictionary-encoded: columns with few or long repeated values grow accordingly. To keep
    dictionaries, write without these options and embed afterwards.

    Memory of executors: parquet-java keeps the filters of all row groups until the file is closed. With ndv each takes
    its size; without, up to twice `parquet.bloom.filter.max.bytes`, which is one setting for all columns: 4 MiB at fpp
    0.01 and 8 MiB at 0.0001, enough for 2,000,000 distinct values per row group. 10 columns and 8 row groups take
    640 MiB at 0.01. Set ndv if there are many columns or large files, or if row groups hold more distinct values.

    Types: BOOLEAN columns get a filter without any bit set, which readers have to ignore, as this package does. INT96
    timestamps get one that Spark never probes, but `read_parquet` does. Zeros are hashed with their sign, so that Spark
    may miss -0.0 when it looks for 0.0; `embed` writes both.

    Examples
    --------
    >>> from parquet_bloom import spark as bloom  # doctest: +SKIP
    >>> df.write.options(**bloom.write_options(["id"], ndv=100_000)).parquet("lake")  # doctest: +SKIP
    """
    requested = _apply_ndv(parse_columns(columns, FilterOptions(fpp)), ndv)
    _check_names(requested)
    sizes = {name: _num_bytes(name, options) for name, options in requested.items()}
    max_bytes = max(sizes.values())
    result = {f"{_PREFIX}max.bytes": str(max_bytes)}
    # One setting for all columns; those with ndv ignore it.
    result[f"{_PREFIX}adaptive.enabled"] = _format_bool(
        any(column_options.ndv is None for column_options in requested.values())
    )
    for name, column_options in requested.items():
        result[f"{_PREFIX}enabled#{name}"] = "true"
        result[f"{_PREFIX}fpp#{name}"] = repr(_formula_fpp(column_options.fpp))
        if column_options.ndv is None:
            # Each half the size of the previous one. parquet-java has this setting only per column.
            candidates = (max_bytes // _MIN_CANDIDATE_BYTES).bit_length()
            result[f"{_PREFIX}candidates.number#{name}"] = str(max(1, candidates))
        else:
            result[f"{_PREFIX}expected.ndv#{name}"] = str(_formula_ndv(sizes[name], column_options))
        result[f"parquet.enable.dictionary#{name}"] = "false"
    return result


def _apply_ndv(requested: dict[str, FilterOptions], ndv: int | Mapping[str, int] | None) -> dict[str, FilterOptions]:
    ndv_by_name = ndv if isinstance(ndv, Mapping) else dict.fromkeys(requested, ndv)
    for name in ndv_by_name:
        if name not in requested:
            raise ParquetBloomError(f"ndv is given for {name!r}, which is not one of the columns that get filters")
    result = {}
    for name, options in requested.items():
        if not options.power_of_two:
            raise ParquetBloomError("parquet-java's filters have sizes that are powers of two", column=name)
        column_ndv = options.ndv if options.ndv is not None else ndv_by_name.get(name)
        try:
            result[name] = FilterOptions(options.fpp, column_ndv)
        except ParquetBloomError as error:
            raise ParquetBloomError(error.problem, column=name) from None
    return result


def _check_names(names: Mapping[str, FilterOptions]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        if not name or name != name.rstrip():
            raise ParquetBloomError(
                "Spark's options cannot represent a name that is empty or ends in a blank", column=name
            )
        other = seen.setdefault(name.lower(), name)
        if other != name:
            problem = f"Spark's options cannot distinguish it from {other!r}: write without filters, and embed them"
            raise ParquetBloomError(problem, column=name)


def _num_bytes(name: str, options: FilterOptions) -> int:
    """Return the size of a column's filter, or of the largest that it may have."""
    size = options.num_bytes(_DEFAULT_NDV)
    if options.ndv is not None and sizing.fpp_for(options.ndv, size) > options.fpp:
        problem = f"the largest filter, of 128 MiB, cannot hold {options.ndv:,} distinct values at fpp {options.fpp:g}"
        raise ParquetBloomError(f"{problem}: write smaller row groups (parquet.block.size)", column=name)
    return size


def _formula_fpp(fpp: float) -> float:
    """Return the fpp to ask of parquet-java, whose formula makes filters too small, to reach the requested fpp.

    The formula, m = -8 n / ln(1 - p^(1/8)) bits for n values, solved for p at the bits per value of the exact model.
    """
    bits = sizing.size_for(_MODEL_KEYS, fpp, power_of_two=False) * 8 / _MODEL_KEYS
    formula_fpp = (1 - math.exp(-8 / bits)) ** 8
    digits = 10.0 ** (2 - math.floor(math.log10(formula_fpp)))
    return math.floor(formula_fpp * digits) / digits


def _formula_ndv(num_bytes: int, options: FilterOptions) -> int:
    """Return the number of values for which the formula gives that size, after rounding up to a power of two."""
    ndv = max(options.ndv or 0, 1)
    per_byte = -math.log1p(-(_formula_fpp(options.fpp) ** 0.125))  # values per byte, by the formula
    # Near a power of two the formula and the model may round to different sizes; halfway between two they cannot.
    low, high = num_bytes / 2 * per_byte, num_bytes * per_byte
    return ndv if low * 1.01 < ndv < high * 0.99 or num_bytes == sizing.MIN_BYTES else math.ceil(0.75 * high)


def _format_bool(value: bool) -> str:
    return "true" if value else "false"
