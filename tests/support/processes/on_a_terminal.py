"""Run a command on a pseudo-terminal and capture its output."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def on_terminal(*arguments: str, columns: int = 80, patience: float | None = None, **environment: str) -> str:
    """All that a command prints when all its streams are a terminal, with escape sequences."""
    code = "import sys; from parquet_bloom.util import progress; from parquet_bloom.cli import main\n"
    if patience is not None:
        code += f"import rich.console, rich.progress; progress.PATIENCE = {patience}\n"  # a bar at once, if at all
    code += "sys.exit(main())"
    unwanted = ("NO_COLOR", "COLUMNS", "LINES", "FORCE_COLOR")
    inherited = {name: value for name, value in os.environ.items() if name not in unwanted}
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=inherited | {"TERM": "xterm-256color"} | environment,
    )
    os.close(theirs)
    output = b""
    try:
        while piece := os.read(ours, 65536):
            output += piece
    except OSError:  # the other end is closed
        pass
    finally:
        process.wait(60)
        os.close(ours)
    return output.decode().replace("\r\n", "\n")
