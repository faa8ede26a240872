"""Commands and their options, which are declared as attributes of a class: a command gets an instance of it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import click

from ..redaction import remember
from ..storage import resolve_filesystem
from .lazy_group import HELP_OPTIONS
from .output.output import Output
from .output.row_formats import FORMATS

O = TypeVar("O", bound="CommandOptions")  # noqa: E741

POSITIVE = click.IntRange(min=1)


class TitledOption(click.Option):
    """An option in a group of the help.

    Attributes
    ----------
    title : of the group.
    rarely : whether only `--help-all` shows it.
    """

    title = ""
    rarely = False


class _Declared:
    """An option, or an argument, whose `help` is at the end of that of the command."""

    def __init__(
        self,
        kind: type[click.Parameter],
        names: tuple[str, ...],
        help: str,
        settings: Mapping[str, Any],
        rarely: bool = False,
    ) -> None:
        self._kind = kind
        self._names = names
        self._settings = settings
        self._rarely = rarely
        self.help = help

    def make(self, attribute: str, title: str) -> click.Parameter:
        names = self._names
        if self._kind is TitledOption and not names:
            names = (f"--{attribute.replace('_', '-')}",)
        made = self._kind([*names, attribute], **self._settings)
        if isinstance(made, TitledOption):
            made.title, made.rarely = title, self._rarely
        return made


def option(metavar: str | None, help: str, *names: str, rarely: bool = False, **settings: Any) -> Any:
    """Declare an option, by default of the attribute's name; `settings` are those of `click.Option`.

    The first sentence of its help is all that `--help` shows of it; with `rarely`, only `--help-all` shows it.
    """
    shown = {"show_default": "default" in settings, "show_envvar": "envvar" in settings}
    return _Declared(TitledOption, names, "", {"metavar": metavar, "help": help} | shown | settings, rarely)


def flag(help: str, *names: str, rarely: bool = False) -> Any:
    """Declare an option without a value; `rarely` as in `option`."""
    return _Declared(TitledOption, names, "", {"help": help, "is_flag": True}, rarely)


def argument(metavar: str, help: str = "", **settings: Any) -> Any:
    """Declare an argument; `settings` are those of `click.Argument`."""
    return _Declared(click.Argument, (), help, {"metavar": metavar} | settings)


def group(options: type[O]) -> O:
    """Declare a group of options that several commands have."""
    return options  # type: ignore[return-value]  # `CommandOptions` makes an instance of it


class CommandOptions:
    """The values of the options that are declared as attributes of a class derived from this one.

    Attributes
    ----------
    about : a text for the end of the command's help.
    title : of the group that its options are in; empty for that of the class whose group they are.
    rarely : whether only `--help-all` shows them.
    """

    about = ""
    title = ""
    rarely = False

    def __init__(self, values: Mapping[str, Any]) -> None:
        for name, declared in _list_declared(type(self)).items():
            setattr(self, name, values[name] if isinstance(declared, _Declared) else declared(values))


def _list_declared(options: type[CommandOptions]) -> dict[str, _Declared | type[CommandOptions]]:
    """Return the declarations of a class, those of its base classes first."""
    return {
        name: value
        for base in reversed(options.__mro__)
        for name, value in vars(base).items()
        if isinstance(value, _Declared) or (isinstance(value, type) and issubclass(value, CommandOptions))
    }


def _make_parameters(
    options: type[CommandOptions], texts: list[str], title: str, rarely: bool = False
) -> Iterator[click.Parameter]:
    """Yield the parameters of a class and its groups; add what the end of the help says of them to `texts`."""
    title, rarely = options.title or title, options.rarely or rarely
    for name, declared in _list_declared(options).items():
        if isinstance(declared, _Declared):
            texts.append(declared.help)
            made = declared.make(name, title)
            if isinstance(made, TitledOption):
                made.rarely |= rarely
            yield made
        else:
            yield from _make_parameters(declared, texts, title, rarely)
    texts.append(options.about)


def usage_error(problem: str) -> click.UsageError:
    """Return the error for arguments of the running command that do not fit together."""
    return click.UsageError(problem, click.get_current_context())


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


class _Common(CommandOptions):
    title = "Output"

    format = option(
        None,
        "How to print the rows. json is one document with totals and errors, ndjson one row per line.",
        type=click.Choice(FORMATS),
        default="table",
    )
    as_json = flag("Short for --format json.", "--json")
    color = option(
        None,
        "auto: on terminals, unless NO_COLOR is set.",
        type=click.Choice(("auto", "always", "never")),
        default="auto",
        rarely=True,
    )
    storage_options = option(
        "KEY=VALUE",
        "A setting of the object store of URLs, by its name in obstore, such as aws_region=eu-west-1. Repeatable.",
        "--storage-option",
        multiple=True,
        callback=_parse_pairs,
        rarely=True,
    )
    totals = flag("Print the totals alone, on stdout. In JSON it is the document without its rows.")
    quiet = flag(
        "Print errors and what was asked for alone. This is the rows of find, get and locate, the files of index "
        "lookup, and any format but table.",
        "-q",
        "--quiet",
    )
    verbose = flag("Print each file, and the time of each step, on stderr.", "-v", "--verbose", rarely=True)


def _show_all(context: click.Context, parameter: click.Parameter, is_given: bool) -> None:
    if is_given and not context.resilient_parsing:
        context.meta[_WHOLE] = True
        click.echo(context.get_help(), color=context.color)
        context.exit()


_HELP_ALL = click.Option(
    ["--help-all"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_all,
    help="Show all options, what PATHs are, and the exit codes.",
)


def _select_examples(text: str) -> str:
    """Return the first lines of the examples: as many commands as --help shows, each of one or more lines."""
    lines = text.splitlines()
    begins = [number for number, line in enumerate(lines) if re.match(r"  \S", line)]
    return "\n".join(lines[: begins[_EXAMPLES]] if len(begins) > _EXAMPLES else lines)


def _shorten(text: str) -> str:
    """Return the first sentence of an option's help, and what click says of its values at the end."""
    first, dot, rest = text.partition(". ")
    values = re.search(r" (\[[^][]*\])$", rest)
    return first + dot.rstrip() + (f"  {values[1]}" if values else "")


_OVERRIDABLE = ("format", "color")  # an alias of the shell may give them, and a call others


_COLUMN = 22  # characters of --help for the names of options; longer ones have a line of their own
_EXAMPLES = 2  # that --help shows
_WHOLE = "parquet_bloom.whole"  # key of `Context.meta`: whether the help is that of --help-all


class OnceCommand(click.Command):
    """A command whose options are in groups, and which refuses an option of one value that is given twice.

    The first one would count for nothing. `--help` shows the options that most calls need, `--help-all` all of them.
    """

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*super().get_params(ctx), _HELP_ALL]

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        whole, help = _WHOLE in ctx.meta, self.help
        if not whole:
            self.help = (help or "").partition("\n\n")[0]
        super().format_help_text(ctx, formatter)
        self.help = help

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        whole = _WHOLE in ctx.meta
        groups: dict[str, list[tuple[str, str]]] = {}
        hidden = 0
        for parameter in self.params:
            if isinstance(parameter, TitledOption):
                if whole or not parameter.rarely or parameter.required:
                    record = parameter.get_help_record(ctx)
                    if record is not None:
                        names, text = record
                        groups.setdefault(parameter.title, []).append((names, text if whole else _shorten(text)))
                else:
                    hidden += 1
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl(records, col_max=30 if whole else _COLUMN)
        with formatter.section("Help"):
            about = f"Show all: {hidden} more options, PATHs, exit codes." if hidden else "Show all, with exit codes."
            formatter.write_dl([("-h, --help", "Show this."), ("--help-all", about)])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        epilog = self.epilog
        if _WHOLE not in ctx.meta:
            self.epilog = _select_examples((epilog or "").rpartition("\n\n")[2])
        super().format_epilog(ctx, formatter)
        self.epilog = epilog

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
    options: type[O],
    *,
    storage: bool = True,
    totals: bool = True,
    cls: type[click.Command] = OnceCommand,
    **settings: Any,
) -> Callable[[Callable[[Output, O], int]], click.Command]:
    """Turn a function of an `Output` and of options, which returns the exit code, into a command.

    Its docstring is the help, of which "Exit codes:" and "Example:" come after the options.

    Parameters
    ----------
    name : name of the command, preceded by that of its group.
    storage : whether it opens files that may be on an object store.
    totals : whether it has totals besides its rows.
    cls, settings : class of the command, and settings of its context.
    """
    texts: list[str] = []
    params = [*_make_parameters(options, texts, "Options"), *_make_parameters(_Common, texts, "")]
    lacking = {name for name, there in (("storage_options", storage), ("totals", totals)) if not there}
    params = [parameter for parameter in params if parameter.name not in lacking]

    def decorate(function: Callable[[Output, O], int]) -> click.Command:
        text, _, end = inspect.cleandoc(function.__doc__ or "").partition("\n\nExit codes: ")
        codes, _, example = end.partition("\n\nExample:\n")
        lines = "\n".join(f"  {part}" for line in example.splitlines() for part in wrap_command(line.strip()))
        epilog = "\n\n".join([*filter(None, texts), f"Exit codes: {codes}", f"\b\nExample:\n{lines}"])

        def run(**values: Any) -> int:
            storage_options = values.get("storage_options")
            filesystem = resolve_filesystem(None, storage_options)
            format = "json" if values["as_json"] else values["format"]
            chosen = {each: values.get(each, False) for each in ("verbose", "quiet", "totals")}
            _require_clear(chosen, format)
            output = Output(
                name, format, values["color"], **chosen, filesystem=filesystem, storage_options=storage_options
            )
            output.skips_broken = values.get("skip_broken", False)
            click.get_current_context().find_root().obj = output
            return function(output, options(values))

        short_name = name.rpartition(" ")[2]
        # Click keeps the names of the first context that asks, which need not be one below the tool's.
        context = {"help_option_names": HELP_OPTIONS} | settings
        return cls(short_name, callback=run, params=params, help=text, epilog=epilog, context_settings=context)

    return decorate


def _require_clear(chosen: Mapping[str, bool], format: str) -> None:
    """Raise click.UsageError for options of the output that contradict each other."""
    given = [f"--{name}" for name, is_given in chosen.items() if is_given]
    if len(given) > 1:
        raise usage_error(f"{' and '.join(given)} exclude each other")
    if chosen["totals"] and format not in ("table", "json"):
        raise usage_error(f"--totals is for --format table and json: {format} has rows alone")


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
