# shellcheck shell=bash
# Sourced by the scripts beside it. `prepare EXTRA [java] [jdk] [c++] [clang] [qemu]` brings up to date what they stand on: the machine's
# packages, the project's own .venv with what pyproject.toml asks for under EXTRA, in the versions of requirements.lock, and the
# compiled modules, built from the sources as they are now. Afterwards $python is the environment's interpreter, and the current folder the project's.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=$root/.venv
python=$venv/bin/python
locked=tools/requirements.lock # tools/adapters.sh has an environment and a lock of its own
cd "$root" || exit 1

# Another Spark, other modules or another locale of the caller must not change what is built and run here.
unset SPARK_HOME PYTHONPATH PYTHONHOME
# Modules are compiled once, not by each process that imports them: pip leaves that to the first one here.
unset PYTHONDONTWRITEBYTECODE
export LC_ALL=C.UTF-8
# Spark asks for the host's name, which need not resolve.
export SPARK_LOCAL_IP=127.0.0.1 SPARK_LOCAL_HOSTNAME=localhost
export PYSPARK_PYTHON=$python PYSPARK_DRIVER_PYTHON=$python

fail() {
    echo "$*" >&2
    exit 1
}

# quietly WHAT COMMAND...: a line with the time it took, a dot for each 10 s of it, and the command's output only when it fails:
# all of it, or with `shown=N` set the N lines of it that say most.
quietly() {
    local what=$1 log status=0 start=$SECONDS dots
    shift
    log=$(mktemp)
    printf '%s ...' "$what"
    (exec 9<&- && while sleep 10 && kill -0 $$ 2>/dev/null; do printf .; done) &
    dots=$!
    "$@" >"$log" 2>&1 </dev/null || status=$?
    { kill "$dots" && wait "$dots"; } 2>/dev/null
    if [ "$status" -eq 0 ]; then
        echo " $((SECONDS - start)) s"
    elif [ -z "${shown:-}" ]; then
        echo " failed"
        cat "$log" >&2
    else
        echo " failed"
        { grep -iE '(^|[^a-z])(fatal )?error([^a-z]|$)|No space|not found' "$log" || cat "$log"; } | uniq | tail -n "$shown" | cut -c1-300 >&2
        echo "The whole output is in $log" >&2
        return "$status"
    fi
    rm -f "$log"
    return "$status"
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

apt_get() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=5 -o DPkg::Lock::Timeout=300 "$@"
}

# Java's package stops half-way where there is no such folder: slim images leave manual pages out.
manual=/usr/share/man/man1

install_packages() { # PACKAGE...
    # An installation that was interrupted has to be ended before the next one.
    as_root mkdir -p "$manual" &&
        as_root env DEBIAN_FRONTEND=noninteractive dpkg --configure -a &&
        apt_get install -y --no-install-recommends "$@"
}

# Java 17 has left Debian's newer releases; the next one does as well.
java_release() {
    if apt-cache show openjdk-17-jre-headless >/dev/null 2>&1; then echo 17; else echo 21; fi
}

purposes() { cut -d' ' -f2- <<<"$1" | paste -sd, | sed 's/,/, /g'; }
packages() { cut -d' ' -f1 <<<"$1" | paste -sd' '; }

# What the machine lacks, a line each: Debian's package, then its purpose. Where there is no Python to look closely, whatever goes
# with Debian's is named, so that nobody has to come back for it.
lacks() { # [java] [jdk] [c++] [clang] [qemu]
    if [ -n "$base" ]; then
        "$base" tools/machine.py lacks "$@"
        return
    fi
    printf '%s\n' "python3 Python 3.11 or newer" "python3-venv its venv" "python3-dev its C headers" "gcc a C compiler" \
        "libc6-dev the C library's headers" "ca-certificates the certificates by which pip verifies downloads"
    if [[ " $* " =~ \ java\  ]] && ! command -v java >/dev/null; then echo "openjdk-17-jre-headless Java 17 or newer for Spark"; fi
    if [[ " $* " =~ \ c\+\+\  ]]; then echo "g++ a C++ compiler for the tests"; fi
}

# Sets $base, the interpreter that environments are made with.
prepare_machine() { # [java] [jdk] [c++] [clang] [qemu]
    local missing install=""
    base=$(command -v "${PYTHON:-python3}") || [ -z "${PYTHON:-}" ] || fail "PYTHON names $PYTHON, which was not found: name Python 3.11 or newer"
    missing=$(lacks "$@") || exit 1
    [ -n "$missing" ] || return 0
    if ! command -v apt-get >/dev/null; then
        fail "Please install $(purposes "$missing") (on Debian: $(packages "$missing")), then try again."
    fi
    if ! as_root true 2>/dev/null; then
        [[ $missing != *openjdk* || -d $manual ]] || install="mkdir -p $manual && "
        install+="apt-get update && apt-get install -y $(packages "$missing" | sed 's/openjdk-17-/default-/g')"
        fail "Please install $(purposes "$missing"): as root, $install"
    fi

    shown=5 quietly "apt-get update" apt_get update || fail "apt-get update failed"
    install=$(packages "$missing" | sed "s/openjdk-17-/openjdk-$(java_release)-/g")
    # shellcheck disable=SC2086 # a word is a package
    shown=5 quietly "apt-get install $install" install_packages $install ||
        fail "apt-get could not install $install"
    if [ -z "$base" ]; then
        base=$(command -v python3) || fail "apt-get brought no python3: please install Python 3.11 or newer"
    fi
    missing=$(lacks "$@") || exit 1
    [ -z "$missing" ] || fail "Please install for $base what apt-get did not bring: $(purposes "$missing")"
}

# pip tries a connection again, but not a download that breaks off. It leaves bytecode to be made when a module is imported:
# that of all modules took 14 s of CPU time for Spark and pandas, of which few are imported.
pip_install() {
    local tries=0
    until "$python" -m pip install --disable-pip-version-check --no-input --quiet --progress-bar off --retries 5 \
        --no-compile "$@"; do
        tries=$((tries + 1))
        [ "$tries" -lt 3 ] || return 1
        sleep $((tries * 5))
    done
}

# .venv/complete holds the interpreter and place that the environment was made for, and a line for each extra installed.
# It is away while pip works: of an environment whose making was interrupted nothing is trusted, since pip may have left
# half a package behind.
#
# The build stands on few packages, which come first. All others are installed in the background, so that downloads and the
# build go on side by side; end_environment waits for them. pip has a process group of its own, which goes when this script does:
# it must not go on writing to an environment that the next run makes anew.
prepare_environment() { # EXTRA
    local home wanted others="" requirements needs
    pip_job=
    home=$("$base" -c 'import sys; print(sys.version.replace("\n", ""), sys.base_prefix)') || exit 1
    home="$home $root"
    requirements=$("$base" tools/requirements.py "$1") || exit 1
    wanted="$1 $(cat - "$locked" <<<"$requirements" | sha256sum)"
    if [ "$(head -n 1 "$venv/complete" 2>/dev/null)" = "$home" ] && "$python" -c 'import pip' 2>/dev/null; then
        if grep -qxF "$wanted" "$venv/complete"; then return 0; fi
        others=$(sed 1d "$venv/complete" | grep -v "^$1 " || true)
        rm "$venv/complete"
    else
        # An environment of the user's own is left alone; one without the mark may also be of an older version of this script.
        if [ -e "$venv" ] && [ ! -e "$venv/made-by-tools" ] && [ ! -e "$venv/complete" ] && [ -e "$venv/pyvenv.cfg" ]; then
            fail "$venv was not made by this script, which would replace it: please move or delete it, then try again."
        fi
        rm -rf "$venv"
        mkdir -p "$(dirname "$venv")" && mkdir "$venv" && touch "$venv/made-by-tools"
        shown=5 quietly "python -m venv ${venv#"$root/"}" "$base" -m venv "$venv" || fail "cannot make $venv"
    fi
    mapfile -t requirements <<<"$requirements"
    mapfile -t needs < <("$base" tools/requirements.py --build)
    shown=5 quietly "pip install into ${venv#"$root/"} (${needs[*]%%[<>=]*})" pip_install --constraint "$locked" "${needs[@]}" ||
        fail "pip could not install the packages"
    marks=$(printf '%s\n' "$home" "$wanted" ${others:+"$others"})
    pip_log=$(mktemp)
    set -m
    pip_install --constraint "$locked" "${requirements[@]}" >"$pip_log" 2>&1 </dev/null &
    pip_job=$!
    set +m
    trap 'kill -- "-$pip_job" 2>/dev/null' EXIT
}

await_pip() {
    local status=0
    wait "$pip_job" || status=$?
    cat "$pip_log"
    return "$status"
}

end_environment() { # EXTRA
    if [ -z "$pip_job" ]; then return 0; fi
    shown=5 quietly "pip install into ${venv#"$root/"} ($1), begun before the build" await_pip || fail "pip could not install the packages"
    trap - EXIT
    rm -f "$pip_log"
    printf '%s\n' "$marks" >"$venv/complete"
}

# What the compiled modules are made from and with, and the modules themselves: one built elsewhere shows.
build_key() {
    {
        find setup.py pyproject.toml parquet_bloom -type f \
            \( -name '*.pyx' -o -name '*.pxd' -o -name '*.pxi' -o -name '*.h' -o -name '*.so' -o -path '*.toml' -o -path setup.py \) \
            -print0 | sort -z | xargs -0 sha256sum
        "$python" -c 'import sys, Cython; print(sys.version, Cython.__version__)'
        env | grep -E '^(PARQUET_BLOOM_(DEBUG|SANITIZE|COVERAGE)|CC|CFLAGS|LDFLAGS)=' | sort
    } | sha256sum
}

prepare_build() {
    if [ "$(cat "$venv/built" 2>/dev/null)" = "$(build_key)" ]; then return 0; fi
    rm -f "$venv/built"
    find parquet_bloom -name '*.so' -delete
    shown=5 quietly "build parquet_bloom" \
        "$python" -m pip install --disable-pip-version-check --no-input --quiet \
        --no-build-isolation --no-deps --editable . || fail "parquet_bloom could not be built"
    build_key >"$venv/built"
}

prepare() { # EXTRA [java] [jdk] [c++] [clang] [qemu]
    local extra=$1
    shift
    exec 9<"$root/tools/setup.sh" # the lock is held until no process has this file open
    if ! flock -n 9; then
        echo "waiting for another set-up of $root to end"
        flock 9
    fi
    prepare_machine "$@"
    prepare_environment "$extra"
    prepare_build
    end_environment "$extra"
    exec 9<&-
    if [[ " $* " =~ \ (java|jdk)\  ]]; then
        JAVA_HOME=$("$base" tools/machine.py java-home "$@")
        export JAVA_HOME
    fi
}

# The tools of releases and of the matrix have an environment of their own, since they need nothing of the package's. $python is its
# interpreter afterwards.
prepare_release_tools() { # EXTRA
    local requirements wanted complete=$root/.cache/release/tools/complete-$1
    base=$(command -v "${PYTHON:-python3}") || fail "Please install Python 3.11 or newer (on Debian: apt-get install python3)"
    python=$root/.cache/release/tools/bin/python
    export PATH=$root/.cache/release/tools/bin:$PATH
    mapfile -t requirements < <("$base" tools/requirements.py --only "$1")
    wanted=$(printf '%s\n' "$base" "${requirements[@]}" | cat - tools/requirements.lock | sha256sum)
    [ "$(cat "$complete" 2>/dev/null)" != "$wanted" ] || return 0
    if [ ! -x "$python" ]; then "$base" -m venv "$root/.cache/release/tools" || fail "cannot make .cache/release/tools"; fi
    shown=5 quietly "pip install into .cache/release/tools ($1)" pip_install --constraint tools/requirements.lock "${requirements[@]}" ||
        fail "pip could not install the packages"
    printf '%s\n' "$wanted" >"$complete"
}
