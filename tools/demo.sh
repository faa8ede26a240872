#!/usr/bin/env bash
# Shows the main job on a small lake that Spark writes: embed filters, run a point query, see what was skipped.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=setup.sh
. "$(dirname "$0")/setup.sh"

prepare spark java
# The JVM warns of a module that Spark itself asks for.
exec "$python" tools/demo.py </dev/null 2> >(grep --line-buffered -v 'incubator modules: jdk.incubator.vector' >&2)
