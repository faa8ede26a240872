#!/usr/bin/env bash
# Builds the documentation as a site into build/site. A dead link, and a page without a place in mkdocs.yml, are errors.
#     bash tools/docs.sh [--serve]     --serve shows it at http://127.0.0.1:8000, and builds it anew when a page changes
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=setup.sh
. "$(dirname "$0")/setup.sh"

prepare docs
export NO_MKDOCS_2_WARNING=1
case ${1:-} in
--serve) exec "$python" -m mkdocs serve --strict ;;
"") quietly "mkdocs build --strict" "$python" -m mkdocs build --strict || exit 1 ;;
*) fail "tools/docs.sh takes --serve or nothing, not $1" ;;
esac
echo "$root/build/site/index.html"
