"""Fuzz one target by coverage, without end unless libFuzzer's options say so.

    python tests/fuzz/campaign.py TARGET [-max_total_time=60] [-runs=1000] [FOLDER]
    python tests/fuzz/campaign.py TARGET -random=SECONDS [-seed=TEXT]           without atheris
    python tests/fuzz/campaign.py                                               lists the targets

It needs the extra `fuzz` (atheris). Python modules of the package are always measured; compiled ones where they were
built for it and the sanitizers are loaded (tools/fuzz.sh does both). First the kept inputs are tried. What libFuzzer
collects in FOLDER are decisions of Hypothesis, from which the target's input is drawn. A finding prints the input,
and Hypothesis's database keeps it, so that pytest tries it first.

With -random the target gets random bytes, without Hypothesis, which takes longer than the targets whose inputs are
decisions. It prints how many it has tried: where the process has died, the input is one of the next.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

import fuzzing


def main() -> None:
    if len(sys.argv) < 2:
        print(*fuzzing.targets(), sep="\n")
        return
    name, *options = sys.argv[1:]
    if options and options[0].startswith("-random="):
        seed = options[1].removeprefix("-seed=") if options[1:] else "0"
        try_random(name, float(options[0].removeprefix("-random=")), seed)
        return
    import atheris

    with atheris.instrument_imports(include=["parquet_bloom"], enable_loader_override=False):
        target = fuzzing.targets()[name]
    for path in fuzzing.kept_inputs(name):
        target.hypothesis.inner_test(data=path.read_bytes())

    def once(buffer: bytes) -> None:
        target.hypothesis.fuzz_one_input(buffer)

    if options and not options[-1].startswith("-"):  # of few bytes Hypothesis draws nothing
        for number in range(100):
            buffer = random.Random(number).randbytes(4096)
            (Path(options[-1]) / f"random-{number}").write_bytes(target.hypothesis.fuzz_one_input(buffer) or buffer)
    atheris.Setup([sys.argv[0], "-len_control=0", "-max_len=4096", *options], once)
    atheris.Fuzz()


def try_random(name: str, seconds: float, seed: str) -> None:
    """Give a target random inputs for a time, the same ones for the same seed; a finding ends with its input."""
    target = fuzzing.targets()[name]
    for make in filter(None, (target.good, target.recipes)):
        make()  # not in the time of the first input
    end, tried = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        for number in range(tried, tried + 1000):
            data = random.Random(f"{seed} {number}").randbytes(64)
            try:
                target.hypothesis.inner_test(data=data)
            except BaseException as error:
                error.add_note(f"input {data.hex()}")
                raise
        tried += 1000
        print(f"\r{tried:,}", end="", flush=True)
    print(f" inputs in {seconds:g} seconds")


if __name__ == "__main__":
    main()
