"""Tests with old and new versions of what the package stands on; bash tools/matrix.sh runs them.

The oldest version of a package is its lower bound in pyproject.toml, the newest one the index's; all others are the
newest that go together with it. Of pyarrow and pyspark each release between is tested too (`between` in `nox --list`).
The wheel in dist/ for the Python is tested, which tools/release.sh has made, by a few tests that touch the package
most. `-k "duckdb and oldest"` chooses, and `table` writes what all that ran have found into
docs/reference/compatibility.md.
"""

import json
import os
import platform
import re
import shutil
import time
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import nox

ROOT = Path(__file__).parent
ROWS = ROOT / ".cache" / "matrix"
PAGE = ROOT / "docs" / "reference" / "compatibility.md"
MARKS = "<!-- made by noxfile.py: begin -->", "<!-- made by noxfile.py: end -->"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RUNNER = ["pytest>=8", "pytest-timeout>=2.3", "pytest-xdist>=3.6", "hypothesis>=6.100", "xxhash>=3.4", "fsspec>=2024.6"]

FILES = [f"file/test_{name}.py" for name in ("reader", "embed", "verify")]
# Of each package the requirements of its tests, and the tests, in tests/unit unless they are elsewhere.
PACKAGES = {
    "pyarrow": (["pandas"], [*FILES, "scan/test_prune.py", "scan/test_column_orders.py"]),
    "numpy": ([], ["core/test_sbbf.py", "core/test_kernels.py", *FILES]),
    "polars": (["duckdb", "datafusion", "pandas"], ["scan/test_engines.py", "scan/test_polars_literals.py"]),
    "duckdb": (["polars", "datafusion", "pandas"], ["scan/test_engines.py"]),
    "deltalake": ([], ["tables/delta/test_open.py", "tables/delta/test_statistics.py", "tables/delta/test_vectors.py"]),
    "pyiceberg": (
        ["pyiceberg[sql-sqlite]"],
        [f"tables/iceberg/test_{name}.py" for name in ("open", "files", "deletes", "columns")],
    ),
    "pyspark": (["pandas>=2.2,<3"], ["../spark/test_smoke.py"]),
}

# What the oldest version of a package goes together with: pyarrow 26 asks for NumPy 2 when it is imported.
OLDEST_NEEDS = {"numpy": ["pyarrow<26"]}

# Releases between the oldest and the newest one.
BETWEEN = {"pyarrow": ["22", "23", "24", "25"], "pyspark": ["4.1", "4.2"]}
RELEASES = [
    nox.param(package, release, id=" ".join([package, release, *(["between"] if release[0].isdigit() else [])]))
    for package in PACKAGES
    for release in ["oldest", *BETWEEN.get(package, []), "newest"]
]

nox.options.default_venv_backend = "uv"
nox.options.sessions = ["versions", "table"]
nox.options.stop_on_first_error = False


def lower_bound(package: str) -> str:
    """Return the oldest version of a package that users may have."""
    lines = [*PROJECT["dependencies"], *(line for lines in PROJECT["optional-dependencies"].values() for line in lines)]
    pattern = rf"{package}(?:\[[\w,-]+\])?>=([\d.]+)"
    bounds = [found[1] for line in lines if (found := re.match(pattern, line))]
    return min(bounds, key=lambda bound: [int(part) for part in bound.split(".")])


def pythons() -> list[str]:
    prefix = "Programming Language :: Python :: 3."
    return [f"3.{line.removeprefix(prefix)}" for line in PROJECT["classifiers"] if re.fullmatch(rf"{prefix}\d+", line)]


@nox.session(python=pythons())
@nox.parametrize(("package", "release"), RELEASES)
def versions(session: nox.Session, package: str, release: str) -> None:
    """Run the tests of a package with a release of it."""
    tag = f"cp{str(session.python).replace('.', '')}"
    wheels = sorted((ROOT / "dist").glob(f"*-{tag}-{tag}-*_{platform.machine()}.whl"))
    if not wheels:
        session.skip(f"dist/ has no wheel for Python {session.python}: run tools/release.sh")
    needs, tests = PACKAGES[package]
    wanted = {"oldest": f"{package}=={lower_bound(package)}", "newest": package}.get(release, f"{package}=={release}.*")
    if release == "oldest":
        needs = [*needs, *OLDEST_NEEDS.get(package, [])]
    binary = [] if package == "pyspark" else ["--only-binary", package]  # Spark publishes sources alone
    session.install(*binary, wheels[-1].as_posix(), wanted, *needs, *RUNNER)
    # Without the package's folder, which would be taken for the one that is installed.
    project = Path(session.create_tmp(), "project").resolve()
    shutil.rmtree(project, ignore_errors=True)
    shutil.copytree(ROOT / "tests", project / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", project)
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    version = str(session.run("python", "-c", code, silent=True)).strip()
    log = ROWS / f"{package}-{release}-{session.python}.txt"
    log.parent.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    paths = [os.path.normpath(project / "tests" / "unit" / path) for path in tests]
    arguments = ["-q", "-p", "no:cacheprovider", "--maxfail=20", "-c", str(project / "pyproject.toml")]
    if package == "pyspark":
        arguments += ["-W", "ignore::ResourceWarning"]  # 4.0 and 4.1 leave sockets open
    python = shutil.which("python", path=session.bin)
    settings = {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python, "PYTHONSAFEPATH": "1", "PYTHONPATH": None}
    with log.open("w") as output, session.chdir(session.create_tmp()):
        session.run("python", "-m", "pytest", *arguments, *paths, stdout=output, env=settings, success_codes=range(256))
    lines = log.read_text().strip().splitlines() or ["no output"]
    row = {
        "package": package,
        "release": release,
        "version": version,
        "python": session.python,
        "tests": re.sub(r" in [\d.]+s.*", "", lines[-1].strip("= ")),
        "seconds": round(time.monotonic() - start),
        "day": datetime.now(UTC).strftime("%Y-%m-%d"),
    }
    log.with_suffix(".json").write_text(json.dumps(row))
    if " passed" not in lines[-1] or re.search(r"failed|error", lines[-1]):
        session.error(f"{lines[-1]}: see {log}")


@nox.session(venv_backend="none")
def table(session: nox.Session) -> None:
    """Write what the sessions have found into the page."""
    found = [json.loads(path.read_text()) for path in sorted(ROWS.glob("*.json"))]
    order = list(PACKAGES)
    for row in found:
        row["release"] = "" if row["release"][0].isdigit() else row["release"]
        row["order"] = [list(map(int, row[name].split("."))) for name in ("version", "python")]
    found.sort(key=lambda row: (order.index(row["package"]), row["order"]))
    lines = ["| package | version | | Python | tests | seconds | day |", "| --- | --- | --- | --- | --- | --- | --- |"]
    for row in found:
        cells = (row[name] for name in ("package", "version", "release", "python", "tests", "seconds", "day"))
        lines.append(f"| {' | '.join(map(str, cells))} |")
    begin, end = MARKS
    before, rest = PAGE.read_text().split(begin)
    after = rest.split(end)[1]
    PAGE.write_text("\n".join([f"{before}{begin}", *lines, f"{end}{after}"]))
    session.log(f"{len(found)} rows in {PAGE.relative_to(ROOT)}")
