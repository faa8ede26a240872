"""`parquet-bloom completion`: the script by which a shell completes commands, options, and names of columns."""

from __future__ import annotations

import os

import click
from click.shell_completion import get_completion_class

from ..output.output import GOOD, write_text

SHELLS = ("bash", "zsh", "fish")

EPILOG = """\b
bash, in ~/.bashrc:                  eval "$(parquet-bloom completion bash)"
zsh, in ~/.zshrc, behind compinit:   eval "$(parquet-bloom completion zsh)"
fish, once:
  parquet-bloom completion fish > ~/.config/fish/completions/parquet-bloom.fish

--column is completed with the columns of the first file that the PATHs before it lead to, if it is a local one.

Exit codes: 0 printed, 2 error: no such shell.

\b
Example:
  parquet-bloom completion bash
"""


@click.command("completion", epilog=EPILOG)
@click.argument("shell", type=click.Choice(SHELLS), required=False)
def completion(shell: str | None) -> int:
    """Print the script that completes commands, options and names of columns in a shell: by default in $SHELL."""
    context = click.get_current_context()
    name = shell or os.path.basename(os.environ.get("SHELL", ""))
    made = get_completion_class(name) if name in SHELLS else None
    if made is None:
        raise click.UsageError(f"say which shell: {', '.join(SHELLS)}", context)
    root = context.find_root()
    program = str(root.info_name)
    variable = f"_{program}_COMPLETE".replace("-", "_").upper()  # as click looks for it
    script = made(root.command, {}, program, variable)
    # Not `source()`: for bash it would run the one of this machine to ask for its version.
    write_text(script.source_template % script.source_vars() + "\n")
    return GOOD
