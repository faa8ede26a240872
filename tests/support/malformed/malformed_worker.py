"""A separate process that runs operations on malformed files, with limited memory: one line of JSON per answer.

A file may crash it: the parent then knows which file it was, and starts another process.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import resource
import sys
import time
import traceback
from importlib import import_module
from pathlib import Path

from parquet_bloom.file import identity
from parquet_bloom.file.pages.page_lookup import PAGE_COSTS

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # it is run as a program, too


FORMATS = {
    "parquet": ("malformed_fields", "malformed_asking"),
    "orc": ("malformed_orc", "malformed_orc_asking"),
}
HANG_SECONDS = 120  # for all questions about one file
SPARE_BYTES = 1 << 30  # that a file of some kilobytes may make the process ask for


def main() -> None:
    good, folder = Path(sys.argv[1]), Path(sys.argv[2])
    chosen = [int(number) for number in Path(sys.argv[3]).read_text().split()]
    questions = sys.argv[4].split(",")
    vars(PAGE_COSTS).update(small_bytes=0, most_share=10.0)
    identity.WAIT_SECONDS = 0.0
    logging.getLogger("parquet_bloom").setLevel(logging.CRITICAL)
    malformed_fields, malformed_asking = (import_module(f"support.malformed.{name}") for name in FORMATS[sys.argv[5]])
    cases = malformed_fields.cases(good)
    for question in questions:  # whatever is imported, and every thread started, before memory is counted
        malformed_asking.ask(question, good, folder / "made")
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + SPARE_BYTES, resource.RLIM_INFINITY))
    for number in chosen:
        faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
        path = malformed_fields.write(cases[number], good, folder / "case.parquet")
        for question in questions:
            print(json.dumps({"case": number, "question": question}), flush=True)
            started = time.perf_counter()
            try:
                outcome = malformed_asking.ask(question, path, folder / "made")
            except AssertionError as error:
                outcome = f"WRONG: {error}"
            except BaseException as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                outcome = (
                    f"WRONG: {type(error).__name__}: {str(error)[:200]} at {Path(where.filename).name}:{where.lineno}"
                )
            seconds = time.perf_counter() - started
            print(json.dumps({"outcome": outcome, "seconds": round(seconds, 3)}), flush=True)


if __name__ == "__main__":
    main()
