"""What the commands have in common: paths, formats, colors."""

from __future__ import annotations

import datetime as dt
import functools
import re
from collections.abc import Callable
from typing import Any

import click
import pyarrow as pa

from ...core.bloom.variants import DETECT, NAMED
from ...hashing.coerce import coerce
from ...hashing.column_type import from_arrow
from ...redaction import remember
from ...storage import resolve_filesystem
from ..output.formats import FORMATS
from ..output.output import Output
from .column_completion import columns_beginning

_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _pairs(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for number, pair in enumerate(given, 1):
        key, equals, value = pair.partition("=")
        if not key or not equals:
            # It may be a secret whose key was forgotten, and is not repeated.
            raise click.BadParameter(f"number {number} is not of the form KEY=VALUE", context, parameter)
        pairs[key] = value
    remember(pairs)  # whatever is said from now on
    return pairs


_NUMBER = re.compile(r"(\d[\d_]*)(?:\.(\d+))?(?:e\+?(\d{1,2}))?", re.ASCII | re.IGNORECASE)


def whole_number(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """A whole number, which may be written 1e6 or 1_000_000."""
    found = None if text is None else _NUMBER.fullmatch(text)
    if found is not None:
        whole, part, power = found[1].replace("_", ""), (found[2] or "").rstrip("0"), int(found[3] or 0)
        if len(part) <= power:
            return int(whole + part.ljust(power, "0"))
    if text is None:
        return None
    raise click.BadParameter(f"{text!r} is no whole number, such as 1000000, 1_000_000 or 1e6", context, parameter)


_COMMON: tuple[_Decorator, ...] = (
    click.option(
        "--format",
        "format",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        help="How to print the rows; json is one document with totals and errors, ndjson a row a line.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Short for --format json."),
    click.option(
        "--color",
        type=click.Choice(("auto", "always", "never")),
        default="auto",
        show_default=True,
        help="auto: on terminals, unless NO_COLOR is set.",
    ),
    click.option(
        "--storage-option",
        "storage_options",
        metavar="KEY=VALUE",
        multiple=True,
        callback=_pairs,
        help="A setting of the store that URLs lead to, by obstore's name, such as aws_region=eu-west-1. Repeatable.",
    ),
    click.option("-v", "--verbose", is_flag=True, help="Say more on stderr: each file, and where time went."),
)

_COMMON_NAMES = ("format", "as_json", "color", "storage_options", "verbose")

PATHS_HELP = (
    "A PATH is a file, a folder (with all below it), a quoted pattern such as 'lake/*/*.parquet', "
    "a URL of any of them on an object store (s3://, gs://, az://, abfss://) or of a file on a web server (https://), "
    "or - for a list on standard input, a path a line (or ended by NUL, as find -print0 does)."
)


def command(
    name: str,
    *,
    example: str,
    exit_codes: str,
    paths: bool = True,
    index: bool = False,
    about: str = "",
    cls: type[click.Command] = click.Command,
    **settings: Any,
) -> Callable[[Callable[..., int]], click.Command]:
    """Make a command of a function that takes an `output`, its PATHs, and its own options, and returns the exit code.

    Parameters
    ----------
    name : of the command, behind that of the group it is in.
    example : lines for the end of its help.
    exit_codes : what they mean, for the same place.
    paths : whether it takes PATHs.
    index : whether `--index` can stand in their place; the function finds out whether it does.
    about : its other arguments, for the end of its help.
    cls, settings : the command's class, and settings of its context.
    """
    lines = "\n".join(f"  {line}" for line in example.splitlines())
    about = "".join(f"{text}\n\n" for text in (PATHS_HELP if paths else "", about) if text)
    epilog = f"{about}Exit codes: {exit_codes}\n\n\b\nExample:\n{lines}"

    def decorate(function: Callable[..., int]) -> click.Command:
        @functools.wraps(function)
        def run(
            format: str, as_json: bool, color: str, storage_options: dict[str, str], verbose: bool, **arguments: Any
        ) -> int:
            filesystem = resolve_filesystem(None, storage_options)
            output = Output(name, "json" if as_json else format, color, verbose, filesystem, storage_options)
            click.get_current_context().find_root().obj = output
            return function(output, **arguments)

        wrapped: Callable[..., Any] = run
        for option in reversed(_COMMON):
            wrapped = option(wrapped)
        if paths:
            # The type is for completion by the shell; what a path leads to is found out, and said, elsewhere.
            path = click.Path(readable=False, allow_dash=True)
            wrapped = click.argument("paths", metavar="PATH...", nargs=-1, required=not index, type=path)(wrapped)
        made = click.command(name.rpartition(" ")[2], cls=cls, epilog=epilog, context_settings=settings)(wrapped)
        made.params.sort(key=lambda parameter: parameter.name in _COMMON_NAMES)  # the command's own come first
        return made

    return decorate


def column_option(help: str, required: bool = False) -> _Decorator:
    """`--column NAME`, as often as wanted."""
    return click.option(
        "--column",
        "columns",
        metavar="NAME",
        multiple=True,
        required=required,
        shell_complete=columns_beginning,
        help=help,
    )


def variant_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--variant NAME`, for `open`."""
    text = (
        "Read the filters as those of a draft of the format: HASH+BLOCK+HEADER, such as murmur3+mask+raw "
        f"(see docs/drafts.md); or {DETECT}, to try on each filter what its header allows, with values of its column."
    )
    return click.option("--variant", metavar="NAME", type=click.Choice((*NAMED, DETECT)), help=text)(function)


def jobs_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--jobs N`, for `working`."""
    text = "Files that are worked on at once; results keep the files' order."
    return click.option("--jobs", metavar="N", type=click.IntRange(min=1), default=1, show_default=True, help=text)(
        function
    )


def _known_zone(context: click.Context, parameter: click.Parameter, zone: str) -> str:
    """Refuse a mistyped zone, which would only make predicates doubtful, and everything be read."""
    instants = from_arrow(pa.timestamp("us", "UTC"))
    if coerce(dt.datetime(2000, 1, 1), instants, zone).unknown is not None:
        raise click.BadParameter(f"{zone!r} is no time zone that is known here", context, parameter)
    return zone


timezone_option = click.option(
    "--timezone",
    metavar="ZONE",
    default="UTC",
    show_default=True,
    callback=_known_zone,
    help="Zone of timestamps that are written without one, such as Europe/Berlin or +01:00.",
)


def target_options(what: str) -> _Decorator:
    """`-o`, `--in-place` and `--dry-run`, for commands that write files; `require_target` checks them.

    Parameters
    ----------
    what : what a dry run shows.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        function = click.option("--dry-run", is_flag=True, help=f"Write nothing; show {what}, a row each.")(function)
        text = "Replace the files themselves, each atomically."
        function = click.option("--in-place", is_flag=True, help=text)(function)
        return click.option(
            "-o",
            "--output",
            "target",
            metavar="PATH",
            help="Write here: a file for one file; a folder (made if need be) for several, or if it ends in /. "
            "Below it, files keep their place.",
        )(function)

    return decorate


def require_target(target: str | None, in_place: bool, dry_run: bool) -> None:
    """Refuse a command that does not say, or says twice, where its files go."""
    if target is not None and in_place:
        raise click.UsageError("-o and --in-place exclude each other", click.get_current_context())
    if target is None and not in_place and not dry_run:
        raise click.UsageError("say where to: -o PATH, --in-place, or --dry-run", click.get_current_context())
