#!/usr/bin/env bash
# Plants each fault of tests/mutants/faults, or those named, in a copy of the project, and expects the tests to notice.
# bash tools/mutants.sh [--list] [--write] [NAME...]
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=setup.sh
. "$(dirname "$0")/setup.sh"

prepare test java c++
exec "$python" tests/mutants/run.py "$@" </dev/null
