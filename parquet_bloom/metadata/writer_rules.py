"""Writers of Parquet files that are known to be wrong, and what of theirs is not believed.

Each rule names its source; `docs/reference/compatibility.md` has the table. `created_by` tells the writer. It is parsed
as parquet-java does, and of a version that cannot be parsed every rule of that writer holds.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Flag, auto
from functools import lru_cache, reduce
from operator import or_
from typing import TYPE_CHECKING, Protocol

from ..util.lazy import late_module

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = late_module("pyarrow")

_MAX_WRITERS = 256  # cached values of `created_by` and stored schemas: a lake has few different ones


class Doubt(Flag):
    """What is not believed of a column.

    BOUNDS : smallest and largest values, of row groups and pages.
    FEW_NULLS : a count of nulls may be too low, so that 0 does not mean that there are none.
    MANY_NULLS : a count of nulls may be too high, so that it does not mean that all values are null.
    PAGE_INDEX : bounds and counts of nulls of pages.
    FILTERS : Bloom filters.
    SINGLE_PAGES : pages of DELTA_BYTE_ARRAY, if they are read without those before them.
    CHUNK_SIZES : the sizes of column chunks.
    COMPRESSION_FLAGS : that a page of version 2 is not compressed.
    """

    NOTHING = 0
    BOUNDS = auto()
    FEW_NULLS = auto()
    MANY_NULLS = auto()
    PAGE_INDEX = auto()
    FILTERS = auto()
    SINGLE_PAGES = auto()
    CHUNK_SIZES = auto()
    COMPRESSION_FLAGS = auto()

    STATISTICS = BOUNDS | FEW_NULLS | MANY_NULLS
    EVIDENCE = STATISTICS | PAGE_INDEX | FILTERS


class WriterColumn(Protocol):
    """The part of a leaf of the schema that rules are about; see `footer.SchemaLeaf`."""

    @property
    def path(self) -> tuple[str, ...]: ...
    @property
    def physical(self) -> str: ...
    @property
    def converted(self) -> int | None: ...
    @property
    def logical(self) -> Mapping[int, object] | None: ...


@dataclass(frozen=True)
class Rule:
    """What is not believed of one writer's columns.

    Attributes
    ----------
    writer : its name in `created_by`; "" for files that do not name their writer and its version.
    fixed : the first version that is believed; None if none is known.
    columns : the kind of columns, a name in `KINDS`.
    doubts : what is not believed of them.
    fault : what the writer does, for people.
    source : where that is described.
    """

    writer: str
    fixed: tuple[int, ...] | None
    columns: str
    doubts: Doubt
    fault: str
    source: str

    @property
    def versions(self) -> str:
        """The versions that are not believed, for people."""
        return "every version" if self.fixed is None else f"before {'.'.join(map(str, self.fixed))}"


_ALL = Doubt.STATISTICS
_DELTA = "values of a page may begin as the last one of the page before"
_ALL_OF_ARROW2 = "it may leave out pages, and counts nulls of dictionaries"
_ARROW = "ARROW-12513, arrow#15042, arrow#34106"
_ARROW_RS = "arrow-rs#10860, arrow-rs#11073"
_NULLS = Doubt.FEW_NULLS | Doubt.MANY_NULLS
_AFTER_DICTIONARIES = "values after the dictionary's are not in them"
_OF_DICTIONARIES = "of dictionary arrays it counts only the first batch, and before 6.0.0 no nulls"
_COMPRESSES = "it compresses pages of version 2 that it marks as not compressed"
_UNSIGNED_DECIMALS = "it compares decimals as if they had no sign"

RULES = (
    Rule("parquet-mr", (1, 8, 0), "bytes", _ALL, "its buffers change after it has noted them", "PARQUET-251"),
    Rule("parquet-mr", (1, 10, 0), "unsigned", Doubt.BOUNDS, "it compares bytes as if they had a sign", "PARQUET-1025"),
    Rule("parquet-mr", (1, 8, 0), "bytes", Doubt.SINGLE_PAGES, _DELTA, "PARQUET-246"),
    Rule("parquet-mr", (1, 2, 9), "all", Doubt.CHUNK_SIZES, "it leaves out a dictionary's header", "PARQUET-816"),
    Rule("", None, "bytes", Doubt.SINGLE_PAGES, f"{_DELTA}, as parquet-mr's before 1.8.0", "PARQUET-246, PARQUET-297"),
    Rule("", None, "legacy bytes", _ALL, "it may be parquet-mr before 1.8.0", "PARQUET-251, PARQUET-297"),
    Rule("parquet-cpp", (1, 3, 0), "unsigned", Doubt.BOUNDS, "it compares bytes as if they had a sign", "PARQUET-1025"),
    Rule("parquet-cpp", (2, 0, 0), "all", Doubt.COMPRESSION_FLAGS, _COMPRESSES, "ARROW-10353"),
    Rule("parquet-cpp", None, "decimal bytes", Doubt.BOUNDS, _UNSIGNED_DECIMALS, "PARQUET-1655"),
    Rule("parquet-cpp-arrow", (4, 0, 0), "decimal bytes", Doubt.BOUNDS, _UNSIGNED_DECIMALS, "PARQUET-1655"),
    Rule("parquet-cpp", None, "dictionaries", _ALL, _OF_DICTIONARIES, _ARROW),
    Rule("parquet-cpp-arrow", (12, 0, 0), "dictionaries", _ALL, _OF_DICTIONARIES, _ARROW),
    Rule("Parquet.Net", None, "timestamps", Doubt.BOUNDS, "it notes other times than it stores", "parquet-dotnet#769"),
    Rule("parquet-rs", (5, 2, 0), "byte arrays", Doubt.BOUNDS, "it takes short texts for small ones", "arrow-rs#641"),
    Rule("parquet-rs", (14, 0, 0), "decimal bytes", Doubt.BOUNDS, _UNSIGNED_DECIMALS, "arrow-rs#1532"),
    Rule("parquet-rs", (14, 0, 0), "unsigned numbers", Doubt.BOUNDS, "it compares them with a sign", "arrow-rs#1532"),
    Rule("parquet-rs", None, "decimal byte arrays", Doubt.BOUNDS, _UNSIGNED_DECIMALS, _ARROW_RS),
    Rule("datafusion", None, "decimal byte arrays", Doubt.BOUNDS, _UNSIGNED_DECIMALS, _ARROW_RS),
    Rule("Arrow2", None, "all", _ALL, _ALL_OF_ARROW2, "polars#7842, arrow2#1414"),
    Rule("Polars", (2, 1, 0), "decimal bytes", Doubt.BOUNDS, _UNSIGNED_DECIMALS, "polars#29347"),
    Rule("Polars", (2, 1, 0), "all", Doubt.MANY_NULLS, "it counts nulls again for each page", "polars#29321"),
    Rule("Polars", (1, 0, 0), "unsigned numbers", Doubt.BOUNDS, "it compares them with a sign", "polars#16683"),
    Rule("ClickHouse", (25, 8), "decimals", Doubt.BOUNDS, _UNSIGNED_DECIMALS, "ClickHouse#83754"),
    Rule("ClickHouse", (26, 5), "byte arrays", Doubt.PAGE_INDEX, "of long texts it notes none", "ClickHouse#103039"),
    Rule("hyparquet", None, "decimals", Doubt.BOUNDS, "it leaves out the scale", "hyparquet-writer#38"),
    Rule("parquet-go", None, "all", _NULLS, "its counts are off", "fraugster/parquet-go#69"),
    Rule("Trino", (460,), "all", Doubt.FILTERS, _AFTER_DICTIONARIES, "trino#22701"),
    Rule("parquet-mr-trino", (460,), "all", Doubt.FILTERS, _AFTER_DICTIONARIES, "trino#22701"),
)  # fmt: skip
"""Rules of known writers."""

SHORTEST_CUT = 16
"""Bytes that bounds of texts are cut to, at least: parquet-go's default for pages, and 16 letters in Iceberg."""

ROUNDING_WRITERS = frozenset({
    "parquet-mr", "parquet-mr-trino", "Trino", "parquet-cpp", "parquet-cpp-arrow", "parquet-rs", "datafusion", "DuckDB",
    "Polars", "ClickHouse", "impala",
})  # fmt: skip
"""Writers whose upper bounds are values, or rounded up where they are cut, as far as is known."""

_NAN_IS_GREATEST = (1, 10, 0)  # since this version of parquet-mr, which compares floats as Java's Double.compare does

_BYTES = ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_DECIMAL, _TIMESTAMP, _INTEGER = 5, 8, 10  # members of LogicalType
_CONVERTED_DECIMAL, _CONVERTED_TIMESTAMPS, _CONVERTED_UNSIGNED = 5, (9, 10), (11, 12, 13, 14)


def _is_decimal(column: WriterColumn) -> bool:
    return _DECIMAL in (column.logical or ()) or column.converted == _CONVERTED_DECIMAL


def _is_timestamp(column: WriterColumn) -> bool:
    return _TIMESTAMP in (column.logical or ()) or column.converted in _CONVERTED_TIMESTAMPS


def _is_unsigned(column: WriterColumn) -> bool:
    parameters = (column.logical or {}).get(_INTEGER)
    is_unsigned = isinstance(parameters, dict) and parameters.get(2) is not True
    return is_unsigned or column.converted in _CONVERTED_UNSIGNED


KINDS: dict[str, Callable[[WriterColumn], bool]] = {
    "all": lambda column: True,
    "bytes": lambda column: column.physical in _BYTES,
    "legacy bytes": lambda column: column.physical in _BYTES,  # of chunks without min_value and max_value
    "byte arrays": lambda column: column.physical == "BYTE_ARRAY",
    "dictionaries": lambda column: column.physical == "BYTE_ARRAY",  # but for those that the Arrow schema tells apart
    "decimals": _is_decimal,
    "decimal bytes": lambda column: column.physical in _BYTES and _is_decimal(column),
    "decimal byte arrays": lambda column: column.physical == "BYTE_ARRAY" and _is_decimal(column),
    "unsigned": lambda column: column.physical in _BYTES or _is_unsigned(column),
    "unsigned numbers": _is_unsigned,
    "timestamps": _is_timestamp,
}
"""Kinds of columns that rules are about."""

LEGACY = "legacy bytes"
"""The kind of columns that are doubted only in column chunks without min_value and max_value."""


@dataclass(frozen=True)
class Writer:
    """The writer of a file by its `created_by`.

    Attributes
    ----------
    name : of the application; "" if it is not given in the form that parquet-java parses, and not known either.
    version : its version; None if it cannot be parsed.
    is_final : whether that is a release, which is newer than what comes before it.
    cdh : version of Cloudera's distribution, which has mended some versions of its own.
    """

    name: str
    version: tuple[int, ...] | None = None
    is_final: bool = True
    cdh: tuple[int, ...] = ()

    def is_before(self, fixed: tuple[int, ...]) -> bool:
        """Return whether the version is lower than another one, or not known."""
        if self.version is None:
            return True
        width = max(len(fixed), len(self.version))
        own, other = (part + (0,) * (width - len(part)) for part in (self.version, fixed))
        return own < other or (own == other and not self.is_final)


_CREATED_BY = re.compile(r"(.*?)\s+version\s*(?:([^(]*?)\s*(?:\(\s*build\s*([^)]*?)\s*\))?)?", re.DOTALL)
"""The form that parquet-java's `VersionParser` takes."""

_VERSION = re.compile(r"v?(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?(?:\.\d{1,9})?((?!\d).*)", re.DOTALL)
_CDH = re.compile(r"-cdh(\d{1,9})\.(\d{1,9})\.(\d{1,9})")
_PARQUET_MR = "parquet-mr"
_FIXED_IN_CDH = (1, 5, 0), (5, 5, 0)  # Cloudera's parquet-mr 1.5.0 has the mended statistics since CDH 5.5.0

_OWN_FORMS = {
    "polars": "Polars",
    "arrow2": "Arrow2",
    "clickhouse": "ClickHouse",
    "hyparquet": "hyparquet",
    "parquet-cpp": "parquet-cpp",  # Arrow ignores its case
}
"""Writers that also name themselves in other forms, by the first word in lower case."""


def parse_created_by(created_by: str | None) -> Writer:
    """Return the writer that a footer names."""
    text = (created_by or "").strip()
    match = _CREATED_BY.fullmatch(text)
    words = text.split(None, 2)
    name = _OWN_FORMS.get(words[0].lower(), "") if words else ""
    if match:
        name, version = name or match[1], match[2] or ""
    else:
        name = name or (text if text == _PARQUET_MR else "")
        version = words[1] if len(words) > 1 else ""
    parts = _VERSION.fullmatch(version)
    if parts is None:
        return Writer(name)
    number = tuple(int(part or 0) for part in parts.groups()[:3])
    rest = parts[4]
    cdh = _CDH.match(rest)
    is_final = not rest or rest.startswith("+")
    return Writer(name, number, is_final, tuple(map(int, cdh.groups())) if cdh else ())


@dataclass(frozen=True)
class WriterRules:
    """The rules that hold for a file.

    Attributes
    ----------
    created_by : what the file says of its writer, if there are rules about it.
    rules : those about some columns; empty if everything is believed.
    shortest_cut : length in bytes from which on upper bounds of texts may be cut without being rounded up, where the
        file does not say that they are exact.
    bounds_show_nans : whether a bound of floats is NaN where one of the values is, in what the writer encoded itself.
    """

    created_by: str
    rules: tuple[Rule, ...]
    shortest_cut: int
    bounds_show_nans: bool = False

    def find(self, column: WriterColumn, stored_schema: bytes | None) -> tuple[Rule, ...]:
        """Return the rules that hold for a column.

        Parameters
        ----------
        stored_schema : the Arrow schema in the file's metadata, as it is stored there; None for none.
        """
        return tuple(rule for rule in self.rules if _applies(rule, column, stored_schema))


def _applies(rule: Rule, column: WriterColumn, stored_schema: bytes | None) -> bool:
    if not KINDS[rule.columns](column):
        return False
    if rule.columns != "dictionaries" or stored_schema is None:
        return True
    plain = _find_plain_columns(stored_schema)
    return not column.path or column.path[0] not in plain


@lru_cache(maxsize=_MAX_WRITERS)
def _find_plain_columns(stored_schema: bytes) -> frozenset[str]:
    """Return the top-level columns without any dictionary in them, by the Arrow schema; none if it cannot be read."""
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(stored_schema, validate=True)))
    except (binascii.Error, pa.ArrowException, OSError):
        return frozenset()
    names = [schema.field(i).name for i in range(len(schema))]
    return frozenset(
        name for i, name in enumerate(names) if names.count(name) == 1 and not _has_dictionary(schema.field(i).type)
    )


def _has_dictionary(arrow_type: object) -> bool:
    return str(arrow_type).find("dictionary<") >= 0


_make_rules = lru_cache(maxsize=_MAX_WRITERS)(WriterRules)  # one object for all writers without rules


@lru_cache(maxsize=_MAX_WRITERS)
def find_rules(created_by: str | None) -> WriterRules:
    """Return the rules about the writer that a footer names."""
    writer = parse_created_by(created_by)
    rules = tuple(rule for rule in RULES if rule.writer == writer.name and _is_faulty(rule, writer))
    cut = SHORTEST_CUT if writer.name in ROUNDING_WRITERS else 1
    shows_nans = writer.name == _PARQUET_MR and not writer.is_before(_NAN_IS_GREATEST)
    return _make_rules((created_by or "") if rules else "", rules, cut, shows_nans)


def _is_faulty(rule: Rule, writer: Writer) -> bool:
    if rule.fixed is None:
        return True
    if rule.source == "PARQUET-251" and writer.version == _FIXED_IN_CDH[0] and writer.cdh >= _FIXED_IN_CDH[1]:
        return False
    return writer.is_before(rule.fixed)


def combine_doubts(rules: tuple[Rule, ...]) -> Doubt:
    """Return all that some rules do not believe."""
    return reduce(or_, (rule.doubts for rule in rules), Doubt.NOTHING)


def describe(rules: tuple[Rule, ...], created_by: str) -> str | None:
    """Return what of a column is not used as evidence, and why; None if all is."""
    telling = [rule for rule in rules if rule.doubts & Doubt.EVIDENCE and rule.columns != LEGACY]
    if not telling:
        return None
    what = _describe_doubts(combine_doubts(tuple(telling)))
    faults = "; ".join(dict.fromkeys(f"{rule.fault} ({rule.source})" for rule in telling))
    return f"{what} not used, as '{created_by}' is known to get them wrong: {faults}"


def _describe_doubts(doubts: Doubt) -> str:
    parts = [
        text
        for doubt, text in (
            (Doubt.BOUNDS, "minimum and maximum"),
            (_NULLS, "null counts"),
            (Doubt.PAGE_INDEX, "the page index"),
            (Doubt.FILTERS, "filters"),
        )
        if doubts & doubt
    ]
    return f"{', '.join(parts)} {'is' if parts == ['the page index'] else 'are'}"
