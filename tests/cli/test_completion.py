"""Completion in real shells."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.shell_completion import ShellComplete

import parquet_bloom
from parquet_bloom import cli

PROJECT = Path(__file__).resolve().parents[2]

# Each defines what a shell does when the last of the words is to be completed, and prints what it offers.
BASH = """
eval "$(parquet-bloom completion bash)"
compopt() { :; }
while read -ra COMP_WORDS; do
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    [[ ${COMP_WORDS[-1]} == _ ]] && COMP_WORDS[-1]=
    COMPREPLY=()
    _parquet_bloom_completion parquet-bloom < /dev/null
    echo "${COMPREPLY[@]}"
done
"""
FISH = 'parquet-bloom completion fish | source; complete --do-complete "$argv"'
ZSH = """
autoload -Uz compinit; compinit -u -D; eval "$(parquet-bloom completion zsh)"
words=("$@"); CURRENT=$#
compadd() { print -l -- "${completions[@]}"; }; _describe() { print -l -- "${completions_with_descriptions[@]%%:*}"; }
_parquet_bloom_completion
"""


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a lake in it and the tool on the PATH."""
    script = tmp_path / "bin" / "parquet-bloom"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m parquet_bloom "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lake" / "day=1").mkdir(parents=True)
    table = pa.table({"user": [{"id": 1, "name": "x"}], "trace": ["y"], "größe": [1], "$(touch pwned)": [1]})
    pq.write_table(table, tmp_path / "lake" / "day=1" / "a.parquet")
    return tmp_path


OFFERED = {
    "parquet-bloom s": "show size sweep spark-archive",
    "parquet-bloom embed lake --in": "--in-place",
    "parquet-bloom show --format _": "table json ndjson csv",
    "parquet-bloom embed lake --fpp 0.1 --column id --column _": "größe trace user.id user.name",
    "parquet-bloom index c": "create compact check",
    "parquet-bloom zones _": "build show",
    "parquet-bloom zones build lake --column user.": "user.id user.name",
    "parquet-bloom index create ids.index --lake lake --column user.": "user.id user.name",
}


@pytest.mark.ci
def test_bash_completes_commands_options_values_and_columns(tool):
    given = "".join(f"{line}\n" for line in OFFERED)  # _ marks a word that is still empty
    done = subprocess.run(["bash", "-c", BASH], input=given, capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    offered = dict(zip(OFFERED, done.stdout.split("\n"), strict=False))
    assert {line: {*words.split()} for line, words in offered.items()} == {
        line: {*words.split()} for line, words in OFFERED.items()
    }
    assert not (tool / "pwned").exists()


def test_words_are_completed_by_commands_options_and_columns(tool):
    (tool / "broken.parquet").write_bytes(b"PAR1")
    parquet_bloom.LakeIndex.create("ids.index", ["user.id", "trace", "user.name"]).close()
    completer = ShellComplete(cli.tool, {}, "parquet-bloom", "_PARQUET_BLOOM_COMPLETE")
    for words, begun, offered in (
        ("drop lake/day=1/a.parquet --column", "user.", ["user.id", "user.name"]),
        ("drop nowhere s3://bucket/key broken.parquet lake --column", "t", ["trace"]),
        ("show nowhere --column", "", []),
        ("advise --column", "", []),
        ("verify lake --da", "--da", ["--data"]),
        ("", "v", ["verify"]),
        ("", "in", ["index"]),
        ("index", "app", ["append"]),
        ("zones", "b", ["build"]),
        ("zones build lake --rows", "--rows", ["--rows-per-zone"]),
        ("index compact", "--keep", ["--keep-seconds"]),
        ("index lookup ids.index --column", "user", ["user.id", "user.name"]),
        ("index lookup nowhere --column", "", []),
        ("index lookup s3://bucket/key --column", "", []),
        ("index create ids.index --column", "", []),
    ):
        assert [item.value for item in completer.get_completions(words.split(), begun)] == offered, words


@pytest.mark.parametrize(("shell", "script"), [("fish", FISH), ("zsh", ZSH)])
def test_other_shells_complete_too(shell, script, tool):
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    words = ["parquet-bloom drop lake --column user."] if shell == "fish" else "parquet-bloom drop lake --column user."
    arguments = words if isinstance(words, list) else [shell, *words.split(" ")]
    done = subprocess.run([shell, "-c", script, *arguments], capture_output=True, text=True, timeout=60)
    assert {line.split("\t")[0] for line in done.stdout.split("\n")} >= {"user.id", "user.name"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell(shell, run):
    done = run("completion", shell)
    assert (done.code, done.err) == (0, "")
    assert f"_PARQUET_BLOOM_COMPLETE={shell}_complete" in done.out
    if shutil.which(shell):
        assert subprocess.run([shell, "-n"], input=done.out, text=True, capture_output=True).returncode == 0


def test_the_shell_is_known_by_the_environment(run, monkeypatch):
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    assert run("completion").out == run("completion", "fish").out
    monkeypatch.setenv("SHELL", "/bin/dash")
    done = run("completion")
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: say which shell: bash, zsh, fish (see parquet-bloom completion --help)\n"
    assert run("completion", "dash").code == 2
