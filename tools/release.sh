#!/usr/bin/env bash
# Builds what a release uploads into dist/, tests each wheel in a clean environment, and prints what there is; nothing is uploaded:
#     bash tools/release.sh [--python 3.11,3.12] [--aarch64] [--no-repeat]
# The sources are those of the last commit. tools/release.py says what is done; its own tools are in .cache/release.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=setup.sh
. "$(dirname "$0")/setup.sh"

prepare_release_tools release
exec "$python" tools/release.py "$@"
