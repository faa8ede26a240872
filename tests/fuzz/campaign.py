"""Fuzz one target for a time or a number of inputs, and say what came of it.

    python tests/fuzz/campaign.py TARGET [--inputs N] [--seconds S] [--blind] [--every N] [--work FOLDER]
    python tests/fuzz/campaign.py TARGET --input FILE
    python tests/fuzz/campaign.py TARGET --keep BYTES [--work FOLDER]

Guided by coverage (the extra `fuzz`: atheris) unless `--blind`, which makes inputs by chance, of those too that were
kept before, and is faster by as much.
The Python modules of the package are always measured; the compiled ones where they were built for it and the sanitizers
are loaded (tools/fuzz.sh does both). Inputs that reach something new are kept in FOLDER/TARGET (build/fuzz by default)
from one campaign to the next, findings in FOLDER/TARGET.findings. `--every` compares one input of so many with a slow
twin where there is one: all by default. `--input` tries one file. `--keep` copies the smallest inputs that together
reach all that the folder's do, as far as they fit, into the repository's corpus.

The last line is JSON: target, how, seconds, inputs, features, findings, peak_mb. A finding makes it exit with 1.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import hashlib
import json
import mmap
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import harness
import taking

ROOT = harness.HERE.parents[1]
MOST_FINDINGS = 5  # then a campaign ends: they are likely to be the same
TIMEOUT = 25  # seconds for an input, by the clock
BLIND_BATCH = 10_000


def guided(options: argparse.Namespace, arguments: list[str]) -> None:
    """Run libFuzzer in this process, which it ends."""
    import atheris

    with atheris.instrument_imports(include=["parquet_bloom"], enable_loader_override=False):
        target = harness.load(options.target)
    again = shlex.join([sys.executable, __file__, options.target, "--child"])  # how libFuzzer starts others of itself
    atheris.Setup([again, *arguments], target)
    atheris.Fuzz()


def libfuzzer(options: argparse.Namespace, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, __file__, options.target, "--child", f"--every={options.every}", *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")


def last(pattern: str, text: str) -> int:
    matches = re.findall(pattern, text)
    return int(matches[-1]) if matches else 0


def run_guided(options: argparse.Namespace, target: harness.Target, folder: Path, findings: Path) -> dict[str, object]:
    for number, seed in enumerate(target.seeds()):
        (folder / f"seed-{number}").write_bytes(seed)
    inputs, features, peak, start, result = 0, 0, 0, time.monotonic(), 0
    while result < MOST_FINDINGS:
        arguments = [str(folder), str(target.folder), f"-artifact_prefix={findings}/", "-print_final_stats=1"]
        arguments += [
            f"-max_len={target.max_input}",
            f"-timeout={TIMEOUT}",
            "-rss_limit_mb=3000",
            "-malloc_limit_mb=1024",
        ]
        if options.inputs:
            arguments.append(f"-atheris_runs={options.inputs - inputs}")
        if options.seconds:
            arguments.append(f"-max_total_time={max(1, int(options.seconds - time.monotonic() + start))}")
        target.folder.mkdir(exist_ok=True)
        done = libfuzzer(options, *arguments)
        # By what ended it: the number of runs, the time, or a finding.
        patterns = (r"(?m)^Done (\d+) in", r"stat::number_of_executed_units:\s+(\d+)", r"(?m)^#(\d+)\t")
        inputs += next(filter(None, (last(pattern, done.stdout) for pattern in patterns)), 0)
        features = max(features, last(r" ft: (\d+)", done.stdout))
        peak = max(peak, last(r"stat::peak_rss_mb:\s+(\d+)", done.stdout), last(r"rss: (\d+)Mb", done.stdout))
        (findings.parent / f"{target.name}.{result}.log").write_text(done.stdout)
        over = (options.inputs and inputs >= options.inputs) or (
            options.seconds and time.monotonic() - start >= options.seconds
        )
        if done.returncode:
            result += 1
            print(done.stdout[-6000:], flush=True)
            if not re.search(r"#\d+", done.stdout):
                break  # it did not even begin
        if over or not done.returncode:
            break
    return {"inputs": inputs, "features": features, "findings": result, "peak_mb": peak}


def run_blind(options: argparse.Namespace, target: harness.Target, folder: Path, findings: Path) -> dict[str, object]:
    start, inputs, result = time.monotonic(), 0, 0
    # A sanitizer ends the process: this file then holds the current input, after its length.
    trace = findings / "blind-at-hand"
    trace.write_bytes(bytes(4 + target.max_input))
    with trace.open("r+b") as file:
        at_hand = mmap.mmap(file.fileno(), 0)
    gc.freeze()  # what is there now stays: to look through it again and again takes a tenth of the time
    gc.set_threshold(20_000, 20, 20)
    reached = [path.read_bytes() for path in sorted(folder.iterdir())]
    while result < MOST_FINDINGS:
        faulthandler.dump_traceback_later(TIMEOUT * 20, exit=True)
        for data in target.mutants(BLIND_BATCH, options.seed + inputs // BLIND_BATCH, reached):
            at_hand[: 4 + len(data)] = len(data).to_bytes(4, "little") + data
            try:
                target(data)
            except BaseException as error:
                result += 1
                location = findings / f"blind-{hashlib.sha1(data).hexdigest()[:12]}"
                location.write_bytes(data)
                print(f"{location.name}: {type(error).__name__}: {error}", flush=True)
                if result == MOST_FINDINGS or isinstance(error, KeyboardInterrupt):
                    break
        inputs += BLIND_BATCH
        if (options.inputs and inputs >= options.inputs) or (
            options.seconds and time.monotonic() - start >= options.seconds
        ):
            break
    faulthandler.cancel_dump_traceback_later()
    trace.unlink()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return {"inputs": inputs, "features": 0, "findings": result, "peak_mb": peak}


def keep(options: argparse.Namespace, target: harness.Target, folder: Path) -> None:
    """Copy the smallest inputs that together reach what all of the folder's do, up to so many bytes."""
    target.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as least:
        done = libfuzzer(options, "-set_cover_merge=1", least, str(folder), str(target.folder))
        if done.returncode:
            sys.exit(done.stdout[-3000:])
        remaining = options.keep - sum(path.stat().st_size for path in target.list_inputs())
        for path in sorted(Path(least).iterdir(), key=lambda path: path.stat().st_size):
            remaining -= path.stat().st_size
            if remaining < 0:
                break
            shutil.copy(path, target.folder / path.name[:12])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("target", choices=harness.names())
    parser.add_argument("--inputs", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--blind", action="store_true")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "fuzz")
    parser.add_argument("--input", type=Path)
    parser.add_argument("--keep", type=int)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options, rest = parser.parse_known_args()
    taking.compared_every = options.every
    if options.child:
        guided(options, rest)
    if rest:
        parser.error(f"unknown: {' '.join(rest)}")
    target = harness.load(options.target)
    folder, findings = options.work / target.name, options.work / f"{target.name}.findings"
    folder.mkdir(parents=True, exist_ok=True)
    findings.mkdir(exist_ok=True)
    if options.input:
        print("taken" if target(options.input.read_bytes()) else "refused")
        return 0
    if options.keep is not None:
        keep(options, target, folder)
        return 0
    if not options.inputs and not options.seconds:
        options.seconds = 60
    start = time.monotonic()
    if options.blind:
        summary = run_blind(options, target, folder, findings)
    else:
        summary = run_guided(options, target, folder, findings)
    how = {"target": target.name, "how": "blind" if options.blind else "guided"}
    sanitized = "asan" in os.environ.get("LD_PRELOAD", "")
    print(json.dumps({**how, "seconds": round(time.monotonic() - start), **summary, "sanitized": sanitized}))
    return 1 if summary["findings"] else 0


if __name__ == "__main__":
    sys.exit(main())
