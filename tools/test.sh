#!/usr/bin/env bash
# Installs what the tests need, builds the package, and runs the tests. Arguments go to pytest: bash tools/test.sh -m fuzz
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=setup.sh
. "$(dirname "$0")/setup.sh"

prepare test java c++
exec "$python" -m pytest "$@" </dev/null
