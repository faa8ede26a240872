#!/usr/bin/env bash
# Runs the benchmarks of tools/bench: all, or those named (bash tools/bench.sh embed).
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=setup.sh
. "$(dirname "$0")/setup.sh"

prepare test java c++
if [ "$#" -eq 0 ]; then
    for path in tools/bench/[!_]*.py; do set -- "$@" "$(basename "$path" .py)"; done
fi
status=0
for name in "$@"; do
    echo "== $name"
    "$python" "tools/bench/$name.py" </dev/null || status=1
done
exit "$status"
