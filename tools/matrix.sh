#!/usr/bin/env bash
# Tests the wheels of dist/ with the oldest and the newest versions of what the package stands on, and of pyarrow and pyspark all
# between, and writes what was found into docs/reference/compatibility.md: the oldest and those between with the oldest Python, the
# newest with the newest one that there is a wheel for, and the newest pyarrow with each.
#     bash tools/matrix.sh [--all]     --all: every release with every Python
#     bash tools/matrix.sh NOX ARGUMENT...
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=setup.sh
. "$(dirname "$0")/setup.sh"

prepare_release_tools matrix
for bin in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin; do PATH=$PATH:$bin; done
JAVA_HOME=$("$python" tools/machine.py java-home) || fail "the tests of Spark need Java: apt-get install openjdk-17-jre-headless"
export PATH JAVA_HOME UV_PYTHON_DOWNLOADS=never UV_CACHE_DIR=$root/.cache/release/uv-cache
unset PYSPARK_PYTHON PYSPARK_DRIVER_PYTHON
nox=(-m nox --noxfile noxfile.py --envdir .cache/matrix/environments)
if [ $# -gt 0 ] && [ "$1" != --all ]; then exec "$python" "${nox[@]}" "$@"; fi

sessions() { # PYTHON KEYWORDS
    local system=$root/.cache/release/forky tools=$root/.cache/release/tools-$1 place enter=(bash tools/enter.sh)
    if ! command -v "python$1" >/dev/null && [ -x "$system/usr/bin/python$1" ]; then
        # The Debian release that tools/release.sh has built the wheel in, with the Java of this machine.
        enter+=("$system" "$root")
        for place in /usr/lib/jvm /etc/java-*; do [ ! -d "$place" ] || enter+=("$place"); done
        enter+=(-- env -C "$root" "PATH=$tools/bin:/usr/bin:/bin")
        # Java looks the user's home up there.
        [ -e "$system/etc/passwd" ] || echo root:x:0:0:root:/root:/bin/sh >"$system/etc/passwd"
        if [ ! -x "$tools/bin/nox" ]; then
            quietly "venv ${tools#"$root/"}" "${enter[@]}" "/usr/bin/python$1" -m venv "$tools" &&
                quietly "pip install into ${tools#"$root/"}" "${enter[@]}" "$tools/bin/pip" install --quiet nox uv || return 1
        fi
        "${enter[@]}" python "${nox[@]}" -s versions -p "$1" -k "$2"
    else
        "$python" "${nox[@]}" -s versions -p "$1" -k "$2"
    fi
}

mapfile -t found < <(printf '%s\n' dist/*"_$(uname -m).whl" | sed -n 's/.*-cp3\([0-9]*\)-.*/3.\1/p' | sort -V)
[ ${#found[@]} -gt 0 ] || fail "dist/ has no wheels: run tools/release.sh first"
status=0
for version in "${found[@]}"; do
    keywords="pyarrow and newest"
    [ "$version" != "${found[0]}" ] || keywords="$keywords or oldest or between"
    [ "$version" != "${found[-1]}" ] || keywords="$keywords or newest"
    [ $# -eq 0 ] || keywords="oldest or between or newest"
    sessions "$version" "$keywords" || status=1
done
"$python" "${nox[@]}" -s table || status=1
exit "$status"
