"""Fuzz one target by coverage, without end unless libFuzzer's options say so.

    python tests/fuzz/campaign.py TARGET [-max_total_time=60] [-runs=1000] [FOLDER]
    python tests/fuzz/campaign.py                                               lists the targets

It needs the extra `fuzz` (atheris). Python modules of the package are always measured; compiled ones where they were
built for it and the sanitizers are loaded (tools/fuzz.sh does both). First the kept inputs are tried. What libFuzzer
collects in FOLDER are decisions of Hypothesis, from which the target's input is drawn. A finding prints the input,
and Hypothesis's database keeps it, so that pytest tries it first.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import fuzzing


def main() -> None:
    if len(sys.argv) < 2:
        print(*fuzzing.targets(), sep="\n")
        return
    import atheris

    name, *options = sys.argv[1:]
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


if __name__ == "__main__":
    main()
