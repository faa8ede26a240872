"""An index of a lake with damage in one of its files: opened, queried, checked, merged.

Damage that no checksum is made to fit must not cost a row: what it may have hit is a candidate, or there is an error.
Where checksums fit, as if a writer had meant it, there is an answer or an error.
"""

from __future__ import annotations

from typing import Any

from choices import Choices, damaged
from scratch import as_folder, one_line
from small_lakes import bases, changed_manifest, changed_part, changed_table

from parquet_bloom import LakeIndex
from parquet_bloom.errors import ParquetBloomError

ALLOWED = (ParquetBloomError,)
SLICE = 100

_QUERIED: dict[str, list[Any]] = {"k": [0, 1001, 2007, 5, 424242], "s": ["v0", "v37", "v96", "none"]}


def seeds() -> list[bytes]:
    return [bytes([base, how, 1, 2, 3, 4, 5, how, base]) for base in range(3) for how in range(8)] + [b""]


def run(data: bytes) -> None:
    choices = Choices(data)
    base, how = choices.pick(bases()), choices.below(8)
    files = dict(base.files)
    if how < 4:
        name = choices.pick(sorted(files))
        files[name] = damaged(files[name], choices)
    elif how == 4:
        files[base.manifest] = changed_manifest(files[base.manifest], choices)
    elif how < 7:
        name = choices.pick(base.parts)
        files[name] = changed_part(files[name], choices)
    else:
        name = choices.pick(base.tables)
        files[name] = changed_table(files[name], choices)
    last = choices.below(32)
    one = choices.below(5) if last % 2 else None  # a single value is looked up by a way of its own
    with as_folder(files) as location:
        try:
            with LakeIndex.open(location, live=last == 1) as index:
                for column, values in _QUERIED.items():
                    queried = values if one is None else values[one % len(values) :][:1]
                    _ask(index, column, queried, base.truth[column] if how < 4 else {})
                if last == 2:
                    index.stats()
                elif last in (3, 4):
                    index.check()
                elif last == 5:
                    index.compact()
                elif last == 6:
                    index.append_batches([])
        except ParquetBloomError as error:
            one_line(error)


def _ask(index: LakeIndex, column: str, queried: list[Any], truth: dict[Any, set[tuple[str, int | None]]]) -> None:
    try:
        answers = index.lookup(column, queried)
    except ParquetBloomError as error:
        one_line(error)
        return
    assert len(answers) == len(queried)
    for value, candidates in zip(queried, answers, strict=True):
        named = {candidate.path: candidate.row_groups for candidate in candidates}
        for path, unit in truth.get(value, ()):
            groups = named.get(path, ())
            assert groups is None or (unit in groups if unit is not None else path in named), (
                f"{column} = {value!r}: {path}, row group {unit} is lost: {candidates}"
            )
