"""`parquet-bloom completion`: print the script that completes commands, options and column names in a shell."""

from __future__ import annotations

import os

import click
from click.shell_completion import get_completion_class

from ..lazy_group import HELP_OPTIONS
from ..output.output import GOOD, write_text

SHELLS = ("bash", "zsh", "fish")

EPILOG = """\b
bash, in ~/.bashrc:                  eval "$(parquet-bloom completion bash)"
zsh, in ~/.zshrc, after compinit:    eval "$(parquet-bloom completion zsh)"
fish, once:
  parquet-bloom completion fish \\
      > ~/.config/fish/completions/parquet-bloom.fish

--column is completed with the columns of the first file matched by the PATHs before it, if that is a local file.

Exit codes: 0 printed, 2 error: unknown shell.

\b
Example:
  parquet-bloom completion bash
"""


@click.command("completion", epilog=EPILOG, context_settings={"help_option_names": [*HELP_OPTIONS, "--help-all"]})
@click.argument("shell", type=click.Choice(SHELLS), required=False)
def completion(shell: str | None) -> int:
    """Print the script that completes commands, options and column names in a shell (default: $SHELL)."""
    context = click.get_current_context()
    name = shell or os.path.basename(os.environ.get("SHELL", ""))
    completer = get_completion_class(name) if name in SHELLS else None
    if completer is None:
        raise click.UsageError(f"say which shell: {', '.join(SHELLS)}", context)
    root = context.find_root()
    program = str(root.info_name)
    variable = f"_{program}_COMPLETE".replace("-", "_").upper()  # the name that click expects
    script = completer(root.command, {}, program, variable)
    # Not `source()`: for bash it would run the local bash to get its version.
    write_text(script.source_template % script.source_vars() + "\n")
    return GOOD
