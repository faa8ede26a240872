"""Detection of file systems that maintain change times (ctime) themselves, so that no program can set them."""

from __future__ import annotations

import re
from pathlib import Path

# Others (FAT, FUSE, SMB, 9p) have no change time, or store one that a program gave.
_KEEPING = frozenset(
    {"bcachefs", "btrfs", "ceph", "ext2", "ext3", "ext4", "f2fs", "gpfs", "jfs", "lustre", "nfs", "nfs4"}
)
_KEEPING |= {"ocfs2", "overlay", "ramfs", "tmpfs", "xfs", "zfs"}
_ESCAPE = re.compile(r"\\([0-7]{3})")
_MOUNTS = "/proc/self/mountinfo"
_cached: dict[int, bool] = {}  # by device number, which does not change while the process sees the device


def keeps_change_times(path: str, device: int) -> bool:
    """Return whether `changed_ns` changes with every change of the files at a path; False if that is not known.

    Parameters
    ----------
    path : the real path of a file.
    device : number of its device.
    """
    if device not in _cached:
        try:
            mounts = Path(_MOUNTS).read_bytes().decode("utf-8", "surrogateescape")
        except OSError:  # not Linux
            mounts = ""
        _cached[device] = find_filesystem_type(path, mounts) in _KEEPING
    return _cached[device]


def find_filesystem_type(path: str, mounts: str) -> str | None:
    """Return the type of the file system of a real path, from the list of mounts (proc_pid_mountinfo(5))."""
    result, longest = None, 0
    for line in mounts.splitlines():
        mount, separator, kind = line.partition(" - ")
        fields = mount.split(" ")
        if not separator or len(fields) < 5:
            continue
        point = _ESCAPE.sub(lambda code: chr(int(code[1], 8)), fields[4])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= longest:  # of mounts on one point the last one is visible
            result, longest = kind.split(" ")[0], len(point)
    return result
