"""Which file systems keep the time of a file's last change themselves, so that nobody can set it."""

from __future__ import annotations

import re
from pathlib import Path

# Others (FAT, FUSE, SMB, 9p) have no such time, or pass on one that a program gave.
_KEEPING = frozenset(
    {"bcachefs", "btrfs", "ceph", "ext2", "ext3", "ext4", "f2fs", "gpfs", "jfs", "lustre", "nfs", "nfs4"}
)
_KEEPING |= {"ocfs2", "overlay", "ramfs", "tmpfs", "xfs", "zfs"}
_ESCAPE = re.compile(r"\\([0-7]{3})")
_MOUNTS = "/proc/self/mountinfo"
_cached: dict[int, bool] = {}  # by device number, which is the same as long as the process sees the device


def keeps_change_times(path: str, device: int) -> bool:
    """Whether the `changed_ns` of files at a place tells of each change to them; False where that is not known.

    Parameters
    ----------
    path : real path of a file.
    device : number of the device that it is on.
    """
    if device not in _cached:
        try:
            mounts = Path(_MOUNTS).read_bytes().decode("utf-8", "surrogateescape")
        except OSError:  # no Linux
            mounts = ""
        _cached[device] = find_filesystem_type(path, mounts) in _KEEPING
    return _cached[device]


def find_filesystem_type(path: str, mounts: str) -> str | None:
    """The type of the file system that a real path is on, by the kernel's list of mounts (proc_pid_mountinfo(5))."""
    result, longest = None, 0
    for line in mounts.splitlines():
        mount, separator, kind = line.partition(" - ")
        fields = mount.split(" ")
        if not separator or len(fields) < 5:
            continue
        point = _ESCAPE.sub(lambda code: chr(int(code[1], 8)), fields[4])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= longest:  # of mounts over each other the last one is seen
            result, longest = kind.split(" ")[0], len(point)
    return result
