#!/usr/bin/env bash
# Renews tools/requirements.lock: the version of each package that tests, documentation, lint, benchmarks, fuzzing and releases use, for
# every Python and platform. What is locked stays as it is where pyproject.toml allows it; --upgrade takes the newest of all.
#     bash tools/lock.sh [--upgrade | --upgrade-package NAME]
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
lock=tools/requirements.lock

[ -x build/lock/bin/uv ] || { "$python" -m venv build/lock && build/lock/bin/pip install --quiet --disable-pip-version-check uv; }
"$python" tools/requirements.py test docs lint bench fuzz release matrix |
    build/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate "$@" --output-file "$lock" -
git diff --stat -- "$lock"
