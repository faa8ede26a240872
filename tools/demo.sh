#!/usr/bin/env bash
# Shows the main job on a small lake that Spark writes: embed filters, run a point query, see what was skipped.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=setup.sh
. "$(dirname "$0")/setup.sh"

prepare spark java
exec "$python" tools/demo.py "$@" </dev/null
