"""Requirements that the set-up scripts pass to pip, their locked versions, and those of the recipe for conda-forge."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import parquet_bloom

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def expanded(*extras: str) -> list[str]:
    command = [sys.executable, str(ROOT / "tools" / "requirements.py"), *extras]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.ci
@pytest.mark.parametrize("extra", EXTRAS)
def test_extras_of_our_own_are_spelled_out(extra):
    queried = expanded(extra)
    assert set(EXTRAS[extra]) - set(queried) <= {item for item in EXTRAS[extra] if item.startswith("parquet-bloom")}
    assert not [line for line in queried if line.startswith("parquet-bloom")]  # no index has the version that is built


@pytest.mark.parametrize(
    ("lock", "extras"),
    [("requirements.lock", ["test", "docs", "lint", "bench", "fuzz"]), ("adapters.lock", ["adapters"])],
)
def test_each_requirement_has_a_locked_version_that_it_allows(lock, extras):
    """Renewed by `bash tools/lock.sh`."""
    locked: dict[str, list[str]] = {}
    for line in (ROOT / "tools" / lock).read_text().splitlines():
        pin = Requirement(line)
        (version,) = pin.specifier
        assert (version.operator, pin.url) == ("==", None), line
        locked.setdefault(canonicalize_name(pin.name), []).append(version.version)
    for requirement in map(Requirement, expanded(*extras)):
        versions = locked.get(canonicalize_name(requirement.name), [])
        assert any(map(requirement.specifier.contains, versions)), requirement


def test_hooks_before_a_commit_run_what_the_lint_runs():
    yaml = pytest.importorskip("yaml")
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    lint = (ROOT / "tools" / "lint.sh").read_text()
    for hook in local["hooks"]:
        tool, *words = hook["entry"].replace(".venv/bin/", "").removesuffix(" --force-exclude").split()
        assert " ".join([f'check "{hook["name"]}" "$bin/{tool}"', *words]) in lint


def test_the_recipe_for_conda_asks_for_the_same():
    yaml = pytest.importorskip("yaml")
    recipe = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text())
    assert recipe["context"]["version"] == parquet_bloom.__version__
    required = [text.replace(" ", "") for text in recipe["requirements"]["run"]]
    assert required == ["python", *(text for text in PROJECT["dependencies"] if ";" not in text)]
    assert recipe["build"]["skip"] == "win"  # where obstore is needed, too
    optional = {text.replace(" ", "") for text in recipe["requirements"]["run_constraints"]}
    assert optional <= {text for extra in EXTRAS for text in EXTRAS[extra]}
