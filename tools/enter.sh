#!/usr/bin/env bash
# Runs a command in the files of another system, such as one of debootstrap; needs root.
#     bash tools/enter.sh SYSTEM FOLDER... -- COMMAND...
# The folders have the same path inside. Mounts are in a namespace of their own, so that none outlives the command.
set -euo pipefail
if [ "${1:-}" != --mounts-are-ours ]; then exec unshare --mount bash "$0" --mounts-are-ours "$@"; fi
shift

system=$1
shift
mount --rbind /dev "$system/dev"
mount -t proc proc "$system/proc"
touch "$system/etc/resolv.conf" "$system/etc/hosts"
mkdir -p "$system/etc/ssl/certs"
for place in /etc/resolv.conf /etc/hosts /etc/ssl/certs; do mount --bind "$place" "$system$place"; done
while [ "$1" != -- ]; do
    mkdir -p "$system$1"
    mount --bind "$1" "$system$1"
    shift
done
shift
exec chroot "$system" "$@"
