#!/usr/bin/env bash
# Runs the benchmarks of tools/bench: all, or those named (bash tools/bench.sh embed). What each prints is kept in
# tools/bench/RESULTS.md, in place of its last output.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=setup.sh
. "$(dirname "$0")/setup.sh"

prepare bench jdk c++
if [ "$#" -eq 0 ]; then
    for path in tools/bench/[!_]*.py; do set -- "$@" "$(basename "$path" .py)"; done
fi
status=0
output=$(mktemp)
trap 'rm -f "$output"' EXIT
for name in "$@"; do
    echo "== $name"
    interpreter=$python
    if [ "$name" = adapters ] || [ "$name" = paimon ]; then
        interpreter=.cache/$name/bin/python
        [ -x "$interpreter" ] || { echo "skipped: tools/adapters.sh installs what it compares" && continue; }
    fi
    if "$interpreter" "tools/bench/$name.py" </dev/null | tee "$output"; then
        "$python" tools/bench/_results.py "$name" <"$output"
    else
        status=1
    fi
done
exit "$status"
