#!/usr/bin/env bash
# Renews tools/requirements.lock: the version of each package that tests, documentation, lint, benchmarks, fuzzing and releases use, for
# every Python and platform; and tools/adapters.lock and tools/paimon.lock, of what tools/adapters.sh installs. What is locked stays as it is where pyproject.toml allows it; --upgrade takes the newest of all.
#     bash tools/lock.sh [--upgrade | --upgrade-package NAME]
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
options=("$@")

[ -x build/lock/bin/uv ] || { "$python" -m venv build/lock && build/lock/bin/pip install --quiet --disable-pip-version-check uv; }
compile() { # LOCK [OPTION...]: of the requirements on standard input
    local lock=$1
    shift
    build/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate \
        ${options[@]+"${options[@]}"} "$@" --output-file "$lock" -
    git diff --stat -- "$lock"
}
"$python" tools/requirements.py test docs lint bench fuzz release matrix | compile tools/requirements.lock
"$python" tools/requirements.py adapters | compile tools/adapters.lock
# pypaimon's own bound of pyarrow is below what this package needs.
{ "$python" tools/requirements.py objects && printf '%s\n' 'pypaimon>=2.1' 'moto[server]>=5.1' 'pytest>=8' 'pytest-timeout>=2.3' 'hypothesis>=6.100'; } |
    compile tools/paimon.lock --override <(grep -o 'pyarrow>=[0-9.]*' pyproject.toml | head -n 1)
