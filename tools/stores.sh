#!/usr/bin/env bash
# Installs the object stores that tests/stores starts on loopback: radosgw and Swift from Debian, s3rver and azurite from npm
# into .cache/stores. What is there already stays. Tests of a store that could not be installed are skipped.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=setup.sh
. "$(dirname "$0")/setup.sh"

folder=$root/.cache/stores
debian=(ceph-mon ceph-osd radosgw swift-proxy swift-account swift-container swift-object)
npm=(s3rver@3.7.1 azurite@3.35.0)
status=0

lacks() { # FAILURE: one line, and the next store
    echo "$*" >&2
    status=1
}

# shellcheck disable=SC2329 # `quietly` calls it
install_debian() { # PACKAGE...
    local policy=/usr/sbin/policy-rc.d mine="" result=0
    # Debian starts the services that it installs; the tests start their own.
    if [ ! -e "$policy" ]; then
        mine=yes
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null && as_root chmod +x "$policy"
    fi
    install_packages "$@" || result=1
    [ -z "$mine" ] || as_root rm -f "$policy"
    return "$result"
}

has_debian() { dpkg-query -W -f '${Status}\n' "$1" 2>/dev/null | grep -q ' installed$'; }

has_npm() { # NAME@VERSION
    grep -q "\"version\": \"${1#*@}\"" "$folder/node_modules/${1%@*}/package.json" 2>/dev/null
}

wanted=()
for package in "${debian[@]}"; do has_debian "$package" || wanted+=("$package"); done
command -v npm >/dev/null || wanted+=(nodejs npm)
if [ ${#wanted[@]} -gt 0 ]; then
    if ! command -v apt-get >/dev/null || ! as_root true 2>/dev/null; then
        lacks "Please install ${wanted[*]} (on Debian: apt-get install ${wanted[*]}), then try again."
    elif ! quietly "apt-get update" apt_get update || ! quietly "apt-get install ${wanted[*]}" install_debian "${wanted[@]}"; then
        lacks "apt-get could not install ${wanted[*]}"
    fi
fi

wanted=()
for package in "${npm[@]}"; do has_npm "$package" || wanted+=("$package"); done
if [ ${#wanted[@]} -gt 0 ]; then
    mkdir -p "$folder" || fail "cannot make $folder"
    if ! command -v npm >/dev/null; then
        lacks "npm is missing, so ${wanted[*]} could not be installed"
    elif ! quietly "npm install ${npm[*]}" npm install --prefix "$folder" --no-audit --no-fund --ignore-scripts "${npm[@]}"; then
        lacks "npm could not install ${npm[*]}"
    fi
fi
exit "$status"
