"""The command line: `parquet-bloom COMMAND`, one module per command, of which only the one that runs is imported."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any

import click

from ..errors import NoFilesError, ParquetBloomError
from ..redaction import redacted
from .lazy_group import HELP_OPTIONS, LazyGroup, suggest
from .output.output import ERROR, CannotPrintError, Output, abandon, say
from .process import end_process, prepare_process

__all__ = ["main"]

PROGRAM = "parquet-bloom"

# One line of `--help` for each command, kept here so that `--help` does not have to import them.
COMMANDS = {
    "show": ("show_command", "Show the filters of Parquet and ORC files."),
    "advise": ("advise_command", "Recommend the columns that deserve filters, and say why."),
    "embed": ("embed_command", "Embed Bloom filters into Parquet files."),
    "delete": ("delete_command", "Delete rows of a Delta or Iceberg table."),
    "upsert": ("upsert_command", "Put rows into a Delta or Iceberg table by their keys."),
    "drop": ("drop_command", "Remove Bloom filters from Parquet files."),
    "erase": ("erase_command", "Erase rows from Parquet files."),
    "verify": ("verify_command", "Check the filters of Parquet and ORC files."),
    "find": ("find_command", "Find the rows that match a predicate."),
    "get": ("get_command", "Print the rows of keys, by an index."),
    "locate": ("locate_command", "Find the positions of the rows of keys."),
    "prune": ("prune_command", "Show the row groups a predicate has to read, and why."),
    "index": ("index_command", "Create and query an index from values to the files of a lake."),
    "zones": ("zones_command", "Build and show zone indexes, from values to rows."),
    "size": ("size_command", "Compute the size of a filter."),
    "sweep": ("sweep_command", "Delete temporary files of killed writers."),
    "spark-archive": ("archive_command", "Pack this package for Spark's executors."),
    "completion": ("completion_command", "Print the completion script of a shell."),
}

INTERRUPTED, PIPE_CLOSED, TERMINATED = 130, 141, 143  # the exit codes of shells for SIGINT, SIGPIPE and SIGTERM


class Tool(LazyGroup):
    """The root command: turns every error into one line on stderr and an exit code."""

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, standalone_mode: bool = True, **extra: Any
    ) -> Any:
        code = self._run(args, **extra | {"prog_name": PROGRAM})
        if standalone_mode:
            sys.exit(code)
        return code

    def _run(self, args: Sequence[str] | None = None, **extra: Any) -> int:
        try:
            return int(super().main(args, standalone_mode=False, **extra) or 0)
        except click.exceptions.NoArgsIsHelpError as error:
            say(redacted(error.format_message()))
        except click.ClickException as error:
            context = getattr(error, "ctx", None)
            hint = f" (see {context.command_path} --help)" if context else ""
            text = _describe_unknown(error) if isinstance(error, click.NoSuchOption) else error.format_message()
            text = text.rstrip(".")
            Output().error(text[:1].lower() + text[1:] + hint)
        except click.Abort:
            return INTERRUPTED
        except OSError as error:
            return _cannot_print(error)
        return ERROR

    def invoke(self, ctx: click.Context) -> Any:
        try:
            try:
                code = super().invoke(ctx)
            finally:
                _find_output(ctx).report_mistakes()
            _find_output(ctx).close()
            return code
        except KeyboardInterrupt:
            _find_output(ctx).note("interrupted")
            return INTERRUPTED
        except (ParquetBloomError, CannotPrintError) as error:
            output = _find_output(ctx)
            output.error(error)
            if isinstance(error, NoFilesError):
                output.failures.append(error)
                return output.exit_code()
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            # Before a command starts, the only output is its help.
            if isinstance(error, BrokenPipeError) or (isinstance(error, OSError) and ctx.obj is None):
                return _cannot_print(error)
            _find_output(ctx).bug(error)
        return ERROR


def _describe_unknown(error: click.NoSuchOption) -> str:
    """Return the message of an option that a command does not have; click finds too many others alike."""
    options = error.ctx.command.get_params(error.ctx) if error.ctx else []
    names = [name for option in options for name in (*option.opts, *option.secondary_opts) if name.startswith("--")]
    return f"no such option {error.option_name!r}{suggest(error.option_name, names)}"


def _cannot_print(error: OSError) -> int:
    """Return the exit code for a standard stream that was closed by its reader, or is full."""
    if isinstance(error, BrokenPipeError):
        abandon("stdout", "stderr")
        return PIPE_CLOSED
    abandon("stdout")
    Output().error(f"cannot write to standard output: {error.strerror or error}")
    return ERROR


def _find_output(ctx: click.Context) -> Output:
    """Return the output of the running command, or a default one if it has not started."""
    return ctx.obj if isinstance(ctx.obj, Output) else Output()


EPILOG = """\b
Example:
  parquet-bloom advise lake/
  parquet-bloom embed lake/ --column user.id --in-place
  parquet-bloom find lake/ --where "user.id = 42"
"""


@click.group(
    cls=Tool,
    epilog=EPILOG,
    commands=COMMANDS,
    context_settings={"help_option_names": HELP_OPTIONS},
)
@click.version_option(sys.modules[__name__.partition(".")[0]].__version__, message="%(prog)s %(version)s")
def tool() -> None:
    """Bloom filters for data lakes: embed them into existing Parquet files, read any writer's, skip row groups."""


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line with `args`, and return the exit code; without them that of the process, which then ends."""
    if args is None:
        prepare_process()
    before = _on_terminate(_terminated)
    try:
        code: int = tool.main(args, standalone_mode=False)
        if args is None:
            end_process()
        return code
    finally:
        if signal.getsignal(signal.SIGTERM) is _terminated:  # the service ignores further signals, to the very end
            _on_terminate(before)


def _terminated(number: int, frame: object) -> None:
    sys.exit(TERMINATED)  # raises SystemExit, so that every `finally` runs and no temporary file stays


def _on_terminate(handler: Any) -> Any:
    """Install a handler of SIGTERM if called from the main thread; return the previous handler."""
    if handler is not None and threading.current_thread() is threading.main_thread():
        return signal.signal(signal.SIGTERM, handler)
    return None
