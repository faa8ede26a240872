"""Requirements that the set-up scripts pass to pip, and those of the recipe for conda-forge."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import parquet_bloom

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


@pytest.mark.parametrize("extra", EXTRAS)
def test_extras_of_our_own_are_spelled_out(extra):
    command = [sys.executable, str(ROOT / "tools" / "requirements.py"), extra]
    queried = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert set(EXTRAS[extra]) - set(queried) <= {item for item in EXTRAS[extra] if item.startswith("parquet-bloom")}
    assert not [line for line in queried if line.startswith("parquet-bloom")]  # no index has the version that is built


def test_the_recipe_for_conda_asks_for_the_same():
    yaml = pytest.importorskip("yaml")
    recipe = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text())
    assert recipe["context"]["version"] == parquet_bloom.__version__
    required = [text.replace(" ", "") for text in recipe["requirements"]["run"]]
    assert required == ["python", *(text for text in PROJECT["dependencies"] if ";" not in text)]
    assert recipe["build"]["skip"] == "win"  # where obstore is needed, too
    optional = {text.replace(" ", "") for text in recipe["requirements"]["run_constraints"]}
    assert optional <= {text for extra in EXTRAS for text in EXTRAS[extra]}
