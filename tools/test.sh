#!/usr/bin/env bash
# Installs what the tests need, builds the package, and runs the tests. Arguments go to pytest: bash tools/test.sh -m fuzz
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=setup.sh
. "$(dirname "$0")/setup.sh"

prepare test java c++
# As many tests at a time as there are cores, up to four: each worker may have a Spark of its own. The tests of a file
# stay together, since they share what it makes. `-n 0` runs all in one process.
cores=$(nproc)
exec "$python" -m pytest -n $((cores < 2 ? 0 : cores > 4 ? 4 : cores)) --dist loadfile "$@" </dev/null
