"""Requirements that the set-up scripts pass to pip."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize("extra", EXTRAS)
def test_extras_of_our_own_are_spelled_out(extra):
    command = [sys.executable, str(ROOT / "tools" / "requirements.py"), extra]
    queried = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert set(EXTRAS[extra]) - set(queried) <= {item for item in EXTRAS[extra] if item.startswith("parquet-bloom")}
    assert not [line for line in queried if line.startswith("parquet-bloom")]  # no index has the version that is built
