"""The `command` decorator and the options shared by all commands: paths, formats, colors."""

from __future__ import annotations

import datetime as dt
import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import click
import pyarrow as pa

from ...core.bloom.variants import DETECT, NAMED
from ...hashing.coerce import coerce
from ...hashing.column_type import from_arrow
from ...redaction import remember
from ...storage import resolve_filesystem
from ..output.output import Output
from ..output.row_files import SUFFIXES
from ..output.row_formats import FORMATS
from .name_completion import complete_columns

_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _parse_pairs(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for number, pair in enumerate(given, 1):
        key, equals, value = pair.partition("=")
        if not key or not equals:
            # The pair may be a secret without its key, so the message must not repeat it.
            raise click.BadParameter(f"number {number} is not of the form KEY=VALUE", context, parameter)
        pairs[key] = value
    remember(pairs)  # hides secret values in all later output
    return pairs


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


_STORAGE: _Decorator = click.option(
    "--storage-option",
    "storage_options",
    metavar="KEY=VALUE",
    multiple=True,
    callback=_parse_pairs,
    help="A setting of the object store of URLs, by its name in obstore, such as aws_region=eu-west-1. Repeatable.",
)

_COMMON: tuple[_Decorator, ...] = (
    click.option(
        "--format",
        "format",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        help="How to print the rows; json is one document with totals and errors, ndjson one row per line.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Short for --format json."),
    click.option(
        "--color",
        type=click.Choice(("auto", "always", "never")),
        default="auto",
        show_default=True,
        help="auto: on terminals, unless NO_COLOR is set.",
    ),
    _STORAGE,
    click.option("-v", "--verbose", is_flag=True, help="Print more on stderr: each file, and the time of each step."),
)

_COMMON_NAMES = ("format", "as_json", "color", "storage_options", "verbose")

PATHS_HELP = (
    "A PATH is a file, a folder (with all files below it), a quoted pattern such as 'lake/*/*.parquet', "
    "a URL of any of these on an object store (s3://, gs://, az://, abfss://) or of a file on a web server (https://), "
    "or - for a list on standard input, one path per line (or NUL-terminated, as by find -print0)."
)


_OVERRIDABLE = ("format", "color")  # an alias of the shell may give them, and a call others


class OnceCommand(click.Command):
    """A command that refuses an option of one value that is given twice: the first would count for nothing."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            seen: set[str | None] = set()
            for one in self.make_parser(ctx).parse_args(list(args))[2]:
                if not isinstance(one, click.Option) or one.multiple or one.is_flag or one.name in _OVERRIDABLE:
                    continue
                if one.name in seen:
                    name = next(name for name in one.opts if name.startswith("--"))
                    raise click.UsageError(f"{name} is given twice, and has one value", ctx)
                seen.add(one.name)
        return super().parse_args(ctx, args)


def command(
    name: str,
    *,
    example: str,
    exit_codes: str,
    paths: bool = True,
    optional_paths: bool = False,
    storage: bool = True,
    about: str = "",
    cls: type[click.Command] = OnceCommand,
    **settings: Any,
) -> Callable[[Callable[..., int]], click.Command]:
    """Turn a function that takes an `output`, PATHs and its options, and returns the exit code, into a command.

    Parameters
    ----------
    name : name of the command, preceded by that of its group.
    example : example lines for the end of its help.
    exit_codes : description of its exit codes, for the end of its help.
    paths : whether it takes PATHs.
    optional_paths : whether an option can replace the PATHs; the function has to check that one of them is given.
    storage : whether it opens files that may be on an object store.
    about : description of other arguments, for the end of its help.
    cls, settings : class of the command, and settings of its context.
    """
    lines = "\n".join(f"  {part}" for line in example.splitlines() for part in wrap_command(line))
    about = "".join(f"{text}\n\n" for text in (PATHS_HELP if paths else "", about) if text)
    epilog = f"{about}Exit codes: {exit_codes}\n\n\b\nExample:\n{lines}"

    def decorate(function: Callable[..., int]) -> click.Command:
        @functools.wraps(function)
        def run(
            format: str,
            as_json: bool,
            color: str,
            verbose: bool,
            storage_options: dict[str, str] | None = None,
            **arguments: Any,
        ) -> int:
            filesystem = resolve_filesystem(None, storage_options)
            output = Output(name, "json" if as_json else format, color, verbose, filesystem, storage_options)
            click.get_current_context().find_root().obj = output
            return function(output, **arguments)

        wrapped: Callable[..., Any] = run
        for option in reversed(_COMMON if storage else [one for one in _COMMON if one is not _STORAGE]):
            wrapped = option(wrapped)
        if paths:
            # The type is for shell completion only; the command itself checks and reports paths.
            path = click.Path(readable=False, allow_dash=True)
            wrapped = click.argument("paths", metavar="PATH...", nargs=-1, required=not optional_paths, type=path)(
                wrapped
            )
        result = click.command(name.rpartition(" ")[2], cls=cls, epilog=epilog, context_settings=settings)(wrapped)
        result.params.sort(key=lambda parameter: parameter.name in _COMMON_NAMES)  # common options come last
        return result

    return decorate


_WORDS = re.compile(r"""(?:[^\s"']|"[^"]*"|'[^']*')+""")
_EXAMPLE_WIDTH = 76


def wrap_command(line: str) -> list[str]:
    """Break a line of shell before options and pipes, where it is too long for the help of 80 columns."""
    parts: list[str] = []
    for word in _WORDS.findall(line):
        if parts and not word.startswith(("-", "|", "http")):
            parts[-1] += f" {word}"
        else:
            parts.append(word)
    lines = parts[:1]
    for part in parts[1:]:
        if len(lines[-1]) + len(part) < _EXAMPLE_WIDTH - len(" \\"):
            lines[-1] += f" {part}"
        else:
            lines[-1] += " \\"
            lines.append(f"    {part}")
    return lines


def make_missing_path() -> click.MissingParameter:
    """Return the error for a command without PATHs, and without an option that replaces them."""
    context = click.get_current_context()
    return click.MissingParameter(ctx=context, param=next(p for p in context.command.params if p.name == "paths"))


def column_option(help: str, required: bool = False) -> _Decorator:
    """Make a decorator that adds the repeatable option `--column NAME`."""
    return click.option(
        "--column",
        "columns",
        metavar="NAME",
        multiple=True,
        required=required,
        shell_complete=complete_columns,
        help=help,
    )


def variant_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--variant NAME`, an argument of `open`, to a command."""
    text = (
        "Read the filters as those of a draft of the format: HASH+BLOCK+HEADER, such as murmur3+mask+raw "
        f"(the documentation has a page on drafts); or {DETECT}, to try all drafts that a filter's header allows "
        "on values of its column."
    )
    return click.option("--variant", metavar="NAME", type=click.Choice((*NAMED, DETECT)), help=text)(function)


def jobs_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--jobs N`, an argument of `run_over_files`, to a command."""
    text = "Number of files processed at the same time; results keep the order of files."
    return click.option("--jobs", metavar="N", type=click.IntRange(min=1), default=1, show_default=True, help=text)(
        function
    )


def skip_broken_option(function: Callable[..., int]) -> Callable[..., int]:
    """Add `--skip-broken` to a command that changes or indexes files, never to one from which rows would be missing."""

    @functools.wraps(function)
    def run(output: Output, skip_broken: bool, **arguments: Any) -> int:
        output.skips_broken = skip_broken
        return function(output, **arguments)

    text = (
        "Skip files that are not Parquet files, or not whole ones, as while they are written. Each is named on stderr, "
        "and in json under skipped; the exit code is not 2 for them."
    )
    return click.option("--skip-broken", is_flag=True, help=text)(run)


def _check_timezone(context: click.Context, parameter: click.Parameter, zone: str) -> str:
    """Reject an unknown time zone, which would otherwise leave predicates undecided, and all data be read."""
    instants = from_arrow(pa.timestamp("us", "UTC"))
    if coerce([dt.datetime(2000, 1, 1)], instants, zone).unknown is not None:
        raise click.BadParameter(f"{zone!r} is not a known time zone", context, parameter)
    return zone


timezone_option = click.option(
    "--timezone",
    metavar="ZONE",
    default="UTC",
    show_default=True,
    callback=_check_timezone,
    help="Time zone of timestamps without one, such as Europe/Berlin or +01:00.",
)


def target_options(what: str) -> _Decorator:
    """Make a decorator that adds `-o`, `--in-place` and `--dry-run`; `require_target` checks them.

    Parameters
    ----------
    what : description of the rows of a dry run.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        function = click.option("--dry-run", is_flag=True, help=f"Write nothing; print {what}, one per row.")(function)
        text = "Replace the files themselves, each atomically."
        function = click.option("--in-place", is_flag=True, help=text)(function)
        return click.option(
            "-o",
            "--output",
            "target",
            metavar="PATH",
            help="Write here: a file for a single input file; a folder (created if missing) for several, or if it ends "
            "in /. Files keep their relative paths below it.",
        )(function)

    return decorate


def require_target(target: str | None, in_place: bool, dry_run: bool) -> None:
    """Reject a command without a target, or with two."""
    if target == "-":
        problem = "-o names a file or a folder, not standard output (./- is a file of that name)"
        raise click.UsageError(problem, click.get_current_context())
    if target is not None and in_place:
        raise click.UsageError("-o and --in-place exclude each other", click.get_current_context())
    if target is None and not in_place and not dry_run:
        raise click.UsageError("no target given: add -o PATH, --in-place or --dry-run", click.get_current_context())


output_option = click.option(
    "-o",
    "--output",
    "target",
    metavar="FILE",
    help=f"Write the rows into a file, atomically; its name ends in {', '.join(SUFFIXES)}.",
)

_OPTIONS = (
    column_option(
        "Print this column only, a top-level one or a dotted leaf. Repeatable; columns are printed in the order given, "
        "before those of --columns."
    ),
    click.option("--columns", "listed", metavar="A,B", help="Print these columns only, as a comma-separated list."),
    output_option,
)


def rows_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --column, --columns and --output to a command."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def parse_columns(columns: Sequence[str], listed: str | None) -> list[str] | None:
    """Return the columns of --column and --columns; None for all."""
    names = [*columns, *(map(str.strip, listed.split(",")) if listed is not None else ())]
    for name in names:
        if not name:
            raise click.UsageError("a column has no name", click.get_current_context())
    return list(dict.fromkeys(names)) or None
