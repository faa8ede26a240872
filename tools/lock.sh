#!/usr/bin/env bash
# Renews tools/requirements.lock: the version of each package that tests, documentation, lint, benchmarks, fuzzing and releases use, for
# every Python and platform; and tools/adapters.lock, of what tools/adapters.sh installs. What is locked stays as it is where pyproject.toml allows it; --upgrade takes the newest of all.
#     bash tools/lock.sh [--upgrade | --upgrade-package NAME]
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
options=("$@")

[ -x build/lock/bin/uv ] || { "$python" -m venv build/lock && build/lock/bin/pip install --quiet --disable-pip-version-check uv; }
compile() { # LOCK EXTRA...
    local lock=$1
    shift
    "$python" tools/requirements.py "$@" |
        build/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate \
            ${options[@]+"${options[@]}"} --output-file "$lock" -
    git diff --stat -- "$lock"
}
compile tools/requirements.lock test docs lint bench fuzz release matrix
compile tools/adapters.lock adapters
