"""A program that answers lines with lines."""

from __future__ import annotations

import subprocess


class LineProcess:
    """The program, running until it is closed."""

    def __init__(self, command: list[str]):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", bufsize=1
        )

    def ask(self, line: str) -> str:
        """The answer to a line, without its end; raises EOFError if the program has ended."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise EOFError(f"it ended with {self.process.wait(30)}")
        return answer.rstrip("\n")

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()
