"""Options for Spark's own Parquet writer, parquet-java, with which it writes good filters in the first place."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..core.bloom import sizing
from ..errors import ParquetBloomError
from ..file.write.options import Columns, FilterOptions, parse_columns

_PREFIX = "parquet.bloom.filter."
_UNCOUNTED_NDV = 2_000_000  # distinct values a row group, where nobody says how many: 128 MiB of rows of 64 bytes
_SMALLEST_CANDIDATE = 512  # bytes; parquet-java drops smaller ones by itself
_MANY = 100_000  # keys, enough for the model's bits a key not to depend on their number


def write_options(columns: Columns, fpp: float = 0.01, ndv: int | Mapping[str, int] | None = None) -> dict[str, str]:
    """Options that let Spark write Bloom filters: ``df.write.options(**write_options(["id"])).parquet(path)``.

    With `ndv` filters have the size that `parquet_bloom.embed` gives them. Without, parquet-java fills filters of many
    sizes at once and keeps the smallest that holds the values. All sizes are powers of two.

    Parameters
    ----------
    columns : a name, names, or {name: fpp} or {name: {"fpp": ..., "ndv": ...}}. Names are dotted paths as the files
        have them, in their case: `user.id`, `tags.list.element`, `map.key_value.key`. parquet-java passes over one that
        is not there without a word, and cannot be told of a name that itself holds a dot.
    fpp : false-positive probability that is to be reached by columns without their own.
    ndv : distinct values in a row group (not in the table), as a number or as {name: number}; None lets them be
        counted. One that is too small makes filters that let everything pass, and nothing tells of it.

    Returns
    -------
    dict
        Options for `DataFrameWriter.options`; names and values are texts.

    Raises
    ------
    ParquetBloomError
        A setting is out of range, more distinct values are expected than a filter may hold, or a column's name cannot
        be given to Spark.

    Notes
    -----
    Size: for n distinct values at fpp 0.01, 10.5 bits a value, rounded up to a power of two: 2 MiB for 1,000,000 in
    each row group. The columns get no dictionary, as a column chunk that is all dictionary would get no filter: those
    of few or long repeated values grow by what it saved. To keep it, write without these options and embed afterwards.

    Memory of executors: parquet-java keeps the filters of all row groups until the file is closed. With ndv each takes
    its size; without, up to twice `parquet.bloom.filter.max.bytes`, which is one setting for all columns: 4 MiB at fpp
    0.01 and 8 MiB at 0.0001, so that they hold 2,000,000 distinct values a row group. 10 columns and 8 row groups take
    640 MiB at 0.01. Give ndv where columns are many, files large, or row groups hold more distinct values.

    Types: BOOLEAN columns get a filter without any bit, which readers have to ignore, as this package does. INT96
    timestamps get one that Spark never asks, but `read_parquet` does. Zeros are hashed with their sign, so that Spark
    may miss -0.0 when asked for 0.0; `embed` writes both.
    """
    asked = _with_ndv(parse_columns(columns, FilterOptions(fpp)), ndv)
    _check_names(asked)
    sizes = {name: _num_bytes(name, options) for name, options in asked.items()}
    max_bytes = max(sizes.values())
    options = {f"{_PREFIX}max.bytes": str(max_bytes)}
    # One setting for all columns; those with ndv take no notice of it.
    options[f"{_PREFIX}adaptive.enabled"] = _text(any(wanted.ndv is None for wanted in asked.values()))
    for name, wanted in asked.items():
        options[f"{_PREFIX}enabled#{name}"] = "true"
        options[f"{_PREFIX}fpp#{name}"] = repr(_formula_fpp(wanted.fpp))
        if wanted.ndv is None:
            # Each half the size of the one before. Without a column's name parquet-java does not know this setting.
            candidates = (max_bytes // _SMALLEST_CANDIDATE).bit_length()
            options[f"{_PREFIX}candidates.number#{name}"] = str(max(1, candidates))
        else:
            options[f"{_PREFIX}expected.ndv#{name}"] = str(_formula_ndv(sizes[name], wanted))
        options[f"parquet.enable.dictionary#{name}"] = "false"
    return options


def _with_ndv(asked: dict[str, FilterOptions], ndv: int | Mapping[str, int] | None) -> dict[str, FilterOptions]:
    given = ndv if isinstance(ndv, Mapping) else dict.fromkeys(asked, ndv)
    for name in given:
        if name not in asked:
            raise ParquetBloomError(f"ndv is given for {name!r}, which is none of the columns that get filters")
    found = {}
    for name, options in asked.items():
        if not options.power_of_two:
            raise ParquetBloomError("parquet-java's filters have sizes that are powers of two", column=name)
        number = options.ndv if options.ndv is not None else given.get(name)
        try:
            found[name] = FilterOptions(options.fpp, number)
        except ParquetBloomError as error:
            raise ParquetBloomError(error.problem, column=name) from None
    return found


def _check_names(names: Mapping[str, FilterOptions]) -> None:
    spelled: dict[str, str] = {}
    for name in names:
        if not name or name != name.rstrip():
            raise ParquetBloomError("Spark cannot be told of a name that is empty or ends in a blank", column=name)
        other = spelled.setdefault(name.lower(), name)
        if other != name:
            problem = f"Spark's options do not tell it from {other!r}: write without filters, and embed them"
            raise ParquetBloomError(problem, column=name)


def _num_bytes(name: str, options: FilterOptions) -> int:
    """The size of its filter, or of the largest that it may have."""
    size = options.num_bytes(_UNCOUNTED_NDV)
    if options.ndv is not None and sizing.fpp_for(options.ndv, size) > options.fpp:
        problem = f"the largest filter, of 128 MiB, cannot hold {options.ndv:,} distinct values at fpp {options.fpp:g}"
        raise ParquetBloomError(f"{problem}: let row groups be smaller (parquet.block.size)", column=name)
    return size


def _formula_fpp(fpp: float) -> float:
    """What to ask parquet-java for, whose formula makes filters too small, so that their fpp is the one wanted.

    The formula, m = -8 n / ln(1 - p^(1/8)) bits for n values, solved for p at the bits a value of the exact model.
    """
    bits = sizing.size_for(_MANY, fpp, power_of_two=False) * 8 / _MANY
    asked = (1 - math.exp(-8 / bits)) ** 8
    digits = 10.0 ** (2 - math.floor(math.log10(asked)))
    return math.floor(asked * digits) / digits


def _formula_ndv(num_bytes: int, options: FilterOptions) -> int:
    """The number of values from which the formula comes to that size, rounded up to a power of two."""
    ndv = max(options.ndv or 0, 1)
    per_byte = -math.log1p(-(_formula_fpp(options.fpp) ** 0.125))  # values that a byte holds, as the formula has it
    # Next to a power of two the formula and the model may come out on different sides; in the middle they cannot.
    low, high = num_bytes / 2 * per_byte, num_bytes * per_byte
    return ndv if low * 1.01 < ndv < high * 0.99 or num_bytes == sizing.MIN_BYTES else math.ceil(0.75 * high)


def _text(value: bool) -> str:
    return "true" if value else "false"
