"""A lake whose files are rewritten all the time."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.processes import churn
from support.processes.line_process import LineProcess

PROGRAM = Path(churn.__file__)


class Lake:
    """The folder, and the process that rewrites what is in it."""

    def __init__(self, folder: Path, pause: float, columns: tuple[str, ...]) -> None:
        self.folder = folder
        churn.write_lake(folder)
        self._churn = LineProcess([sys.executable, str(PROGRAM), str(folder), str(pause), *columns])

    @property
    def rewritten(self) -> int:
        """Return the number of files rewritten so far."""
        return int(self._churn.ask("?"))

    def close(self) -> None:
        self._churn.close()


@pytest.fixture(scope="module")
def churned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Lake]]:
    """Makes lakes whose filters come and go until the module's tests are done: ``churned("id", "name")``."""
    created = []

    def make(*columns: str, pause: float = 0.0) -> Lake:
        created.append(Lake(tmp_path_factory.mktemp("churned"), pause, columns))
        return created[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(churn.PROJECT), prepend=os.pathsep)
        yield make
    for lake in created:
        lake.close()


@pytest.fixture(scope="module")
def lake(churned: Callable[..., Lake]) -> Lake:
    return churned("id", "name", "value")
