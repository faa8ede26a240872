"""Runs the matrix of malformed files in processes that may die of it, and counts what came of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # it is run as a program, too

from support.malformed.malformed_fields import Case
from support.malformed.malformed_worker import FORMATS


@dataclass(frozen=True)
class Answer:
    case: Case
    question: str
    outcome: str
    seconds: float

    @property
    def kind(self) -> str:
        """Its outcome without the words of a refusal."""
        return self.outcome.split(":")[0]

    def __str__(self) -> str:
        return f"{self.case} {self.question} [{self.seconds:.2f} s]: {self.outcome}"


def run(
    good: Path, folder: Path, numbers: Sequence[int], questions: Iterable[str], kind: str = "parquet"
) -> Iterator[Answer]:
    """Ask questions of the files of some cases, given by number."""
    cases, questions = import_module(f"support.malformed.{FORMATS[kind][0]}").cases(good), list(questions)
    remaining = list(numbers)
    while remaining:
        (folder / "numbers").write_text(" ".join(map(str, remaining)))
        command = [sys.executable, Path(__file__).with_name("malformed_worker.py"), good, folder]
        command += [folder / "numbers", ",".join(questions), kind]
        queried = None
        with (
            (folder / "errors").open("w+") as errors,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
        ):
            assert process.stdout is not None
            for line in process.stdout:
                document = json.loads(line)
                if "case" in document:
                    queried = document
                    continue
                assert queried is not None
                yield Answer(cases[queried["case"]], queried["question"], document["outcome"], document["seconds"])
                queried = None
        if process.returncode == 0:
            break
        reported = (folder / "errors").read_text()[-300:]
        assert queried is not None, reported
        yield Answer(
            cases[queried["case"]],
            queried["question"],
            f"WRONG: the process died ({process.returncode}): {reported}",
            0,
        )
        remaining = remaining[remaining.index(queried["case"]) + 1 :]


def table(answers: Sequence[Answer]) -> str:
    """Counts by area: fields, ways, answers by kind."""
    lines = [f"{'area':24} fields  ways  cases  answers  right  in doubt  refused  wrong"]
    areas = list(dict.fromkeys(answer.case.area for answer in answers))
    for area in [*areas, "all"]:
        of_area = [answer for answer in answers if area in (answer.case.area, "all")]
        cases = {answer.case for answer in of_area}
        kinds = Counter(answer.kind for answer in of_area)
        fields = len({(case.area, case.field) for case in cases})
        ways = len({case.way for case in cases})
        counts = "  ".join(f"{kinds[kind]:6,}" for kind in ("right", "in doubt", "refused", "WRONG"))
        lines.append(f"{area:24} {fields:6}  {ways:4}  {len(cases):5}  {len(of_area):7,}  {counts}")
    return "\n".join(lines)


def main() -> None:
    """The whole matrix, or each n-th case from the k-th on: `malformed_matrix.py parquet|orc FOLDER [n k]`."""
    kind, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    step, first = (int(sys.argv[3]), int(sys.argv[4])) if len(sys.argv) > 4 else (1, 0)
    fields, asking = (import_module(f"support.malformed.{name}") for name in FORMATS[kind])
    good = fields.good_file(folder / f"good.{kind}")
    numbers = range(len(fields.cases(good)))[first::step]
    answers = []
    with (folder / "answers").open("w") as retained:
        for answer in run(good, folder, numbers, asking.QUESTIONS, kind):
            answers.append(answer)
            retained.write(f"{answer}\n")
            if answer.kind == "WRONG" or answer.seconds > 10:
                print(answer, flush=True)
    print(table(answers))


if __name__ == "__main__":
    main()
