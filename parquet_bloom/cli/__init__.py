"""The command line: `parquet-bloom COMMAND`, a module a command. Only the module that is asked for is imported."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any

import click

from ..errors import ParquetBloomError
from ..redaction import redacted
from .lazy_group import Commands
from .output.output import ERROR, CannotPrintError, Output, abandon, say

__all__ = ["main"]

PROGRAM = "parquet-bloom"

# What `--help` says of each command; it need not import them for that.
COMMANDS = {
    "show": "Show the filters of Parquet and ORC files.",
    "advise": "Say which columns deserve filters, and why.",
    "embed": "Embed Bloom filters into Parquet files.",
    "drop": "Take filters out of Parquet files again.",
    "verify": "Check the filters of Parquet and ORC files.",
    "find": "Find the rows that match a predicate.",
    "prune": "Say what a predicate has to read, and why not the rest.",
    "index": "Make and ask an index of a lake: from a value to its files.",
    "zones": "Make and show zone indexes: from a value to rows.",
    "size": "Say how large a filter has to be.",
    "sweep": "Delete what killed writers left behind.",
    "spark-archive": "Pack this package for Spark's executors.",
    "completion": "Print what completes commands in a shell.",
}

INTERRUPTED, PIPE_CLOSED, TERMINATED = 130, 141, 143  # as shells number the deaths by SIGINT, SIGPIPE and SIGTERM


class Tool(Commands):
    """Makes of whatever goes wrong one line and an exit code."""

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
            text = error.format_message().rstrip(".")
            Output().error(text[:1].lower() + text[1:] + hint)
        except click.Abort:
            return INTERRUPTED
        except OSError as error:
            return _cannot_print(error)
        return ERROR

    def invoke(self, ctx: click.Context) -> Any:
        try:
            code = super().invoke(ctx)
            _output_of(ctx).close()
            return code
        except KeyboardInterrupt:
            _output_of(ctx).note("interrupted")
            return INTERRUPTED
        except (ParquetBloomError, CannotPrintError) as error:
            _output_of(ctx).error(error)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            # Before a command has begun, all that is done with files is to print its help.
            if isinstance(error, BrokenPipeError) or (isinstance(error, OSError) and ctx.obj is None):
                return _cannot_print(error)
            _output_of(ctx).bug(error)
        return ERROR


def _cannot_print(error: OSError) -> int:
    """The exit code when stdout or stderr is closed by its reader, or full."""
    if isinstance(error, BrokenPipeError):
        abandon("stdout", "stderr")
        return PIPE_CLOSED
    abandon("stdout")
    Output().error(f"cannot write to standard output: {error.strerror or error}")
    return ERROR


def _output_of(ctx: click.Context) -> Output:
    """The command's, once it has begun."""
    return ctx.obj if isinstance(ctx.obj, Output) else Output()


@click.group(
    cls=Tool,
    package=f"{__package__}.commands",
    texts=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(sys.modules[__name__.partition(".")[0]].__version__, message="%(prog)s %(version)s")
def tool() -> None:
    """Bloom filters for data lakes: embed them into Parquet files that exist, read anyone's, skip what cannot match."""


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line with `args`, or with those of the process; returns the exit code."""
    before = _on_terminate(_terminated)
    try:
        code: int = tool.main(args, standalone_mode=False)
        return code
    finally:
        _on_terminate(before)


def _terminated(number: int, frame: object) -> None:
    sys.exit(TERMINATED)  # by way of every `finally`, so that no temporary file stays


def _on_terminate(handler: Any) -> Any:
    """Set what SIGTERM does, where that can be set; returns what it did before."""
    if handler is not None and threading.current_thread() is threading.main_thread():
        return signal.signal(signal.SIGTERM, handler)
    return None
