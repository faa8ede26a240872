"""Options that several commands have: PATHs, columns, targets, time zones."""

from __future__ import annotations

import datetime as dt
import io
import re
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

from ...core.bloom.variants import DETECT, NAMED
from ...hashing.coerce import coerce
from ...hashing.column_type import from_arrow
from ...util.lazy import late_module
from ..command import POSITIVE, CommandOptions, argument, flag, option, usage_error
from ..output.row_files import SUFFIXES, parse_format
from .name_completion import complete_columns

if TYPE_CHECKING:
    import csv
else:
    csv = late_module("csv")

PATHS_HELP = (
    "A PATH is a file, a folder (with all files below it), a quoted pattern such as 'lake/*/*.parquet', "
    "a URL of any of these on an object store (s3://, gs://, az://, abfss://) or of a file on a web server (https://), "
    "or - for a list on standard input, one path per line (or NUL-terminated, as by find -print0). "
    "A PATH that is there and has no files, or a pattern that matches none, is an error of its own: exit code 3."
)

# The type is for shell completion only; the command itself checks and reports paths.
PATH = click.Path(readable=False, allow_dash=True)
PATHS = argument("PATH...", PATHS_HELP, nargs=-1, required=True, type=PATH)
OPTIONAL_PATHS = argument("PATH...", PATHS_HELP, nargs=-1, type=PATH)


def make_missing_path() -> click.MissingParameter:
    """Return the error for a command without PATHs, and without an option that replaces them."""
    context = click.get_current_context()
    return click.MissingParameter(ctx=context, param=next(p for p in context.command.params if p.name == "paths"))


_NUMBER = re.compile(r"(\d[\d_]*)(?:\.(\d+))?(?:e\+?(\d{1,2}))?", re.ASCII | re.IGNORECASE)


def parse_whole_number(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """Parse an integer, which may be written 1e6 or 1_000_000."""
    match = None if text is None else _NUMBER.fullmatch(text)
    if match is not None:
        integer, fraction, power = match[1].replace("_", ""), (match[2] or "").rstrip("0"), int(match[3] or 0)
        if len(fraction) <= power:
            return int(integer + fraction.ljust(power, "0"))
    if text is None:
        return None
    raise click.BadParameter(f"{text!r} is not an integer such as 1000000, 1_000_000 or 1e6", context, parameter)


def columns_option(help: str, **settings: Any) -> Any:
    """Declare the repeatable option `--column NAME`."""
    return option("NAME", help, "--column", multiple=True, shell_complete=complete_columns, **settings)


VARIANT = option(
    "NAME",
    "Read the filters as those of a draft of the format: HASH+BLOCK+HEADER, such as murmur3+mask+raw "
    f"(the documentation has a page on drafts); or {DETECT}, to try all drafts that a filter's header allows "
    "on values of its column.",
    type=click.Choice((*NAMED, DETECT)),
    rarely=True,
)

FILE_JOBS = option(
    "N",
    "Number of files processed at the same time. Results keep the order of files.",
    type=POSITIVE,
    default=1,
    rarely=True,
)

THREAD_JOBS = option("N", "Threads that read and hash. Default: the number of processors.", type=POSITIVE, rarely=True)

# For commands that change or index files, never for one from which rows would be missing.
SKIP_BROKEN = flag(
    "Skip files that are not Parquet files, or not whole ones, as while they are written. Each is named on stderr, "
    "and in json under skipped; the exit code is not 2 for them.",
    rarely=True,
)


def _check_timezone(context: click.Context, parameter: click.Parameter, zone: str) -> str:
    """Reject an unknown time zone, which would otherwise leave predicates undecided, and all data be read."""
    instants = from_arrow(pa.timestamp("us", "UTC"))
    if coerce([dt.datetime(2000, 1, 1)], instants, zone).unknown is not None:
        raise click.BadParameter(f"{zone!r} is not a known time zone", context, parameter)
    return zone


TIMEZONE = option(
    "ZONE",
    "Time zone of timestamps without one, such as Europe/Berlin or +01:00.",
    default="UTC",
    callback=_check_timezone,
    rarely=True,
)


class RewriteTarget(CommandOptions):
    """Where files are written that a command rewrites, or that they are not."""

    title = "Where to write"

    target: str | None = option(
        "PATH",
        "Write into this file, or folder. It is a file for a single input file, and a folder (created if missing) for "
        "several, or if it ends in /. Files keep their relative paths below it.",
        "-o",
        "--output",
    )
    in_place: bool = flag("Replace the files themselves, each atomically.")
    dry_run: bool = flag("Write nothing, print what would be written. It is a row for each filter.")

    def require_one(self, otherwise: str = "") -> None:
        """Reject a command without a target, or with two; `otherwise` is what the error says besides."""
        if self.target == "-":
            raise usage_error("-o names a file or a folder, not standard output (./- is a file of that name)")
        if self.target is not None and self.in_place:
            raise usage_error("-o and --in-place exclude each other")
        if self.target is None and not self.in_place and not self.dry_run:
            raise usage_error(f"no target given: add -o PATH, --in-place or --dry-run{otherwise}")


class RowsTarget(CommandOptions):
    """The file that rows are written into."""

    title = "Output"

    target: str | None = option(
        "FILE",
        f"Write the rows into a file, atomically. Its name ends in {', '.join(SUFFIXES)}.",
        "-o",
        "--output",
    )

    @property
    def kind(self) -> str | None:
        """The format of the file, by its extension; None for standard output."""
        return None if self.target is None else parse_format(self.target)


class RowColumns(CommandOptions):
    """The columns of the rows that a command prints."""

    title = "Output"

    listed: str | None = option(
        "A,B",
        "Print these columns only, in this order. They are top-level ones or dotted leaves, separated by commas; quote "
        "a name that has a comma, as in CSV.",
        "--columns",
    )

    def parse(self) -> list[str] | None:
        """Return the columns of --columns; None for all."""
        if self.listed is None:
            return None
        names = parse_list(self.listed, "--columns")
        if not all(names):
            raise usage_error("a column has no name")
        return list(dict.fromkeys(names))


def parse_list(text: str, what: str) -> list[str]:
    """Return the fields of a line of CSV; raise click.UsageError, which names the option, if it is none."""
    try:
        lines = [*csv.reader(io.StringIO(text, newline=""), strict=True, skipinitialspace=True)]
    except csv.Error as error:
        raise usage_error(f"{what} is no list of names separated by commas: {error}") from None
    if len(lines) != 1:
        raise usage_error(f"{what} is no list of names separated by commas, on one line")
    return [field.strip() for field in lines[0]]
