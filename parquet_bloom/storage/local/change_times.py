"""Detection of file systems that maintain change times (ctime) themselves, so that no program can set them."""

from __future__ import annotations

import ctypes
import os

from . import libc

# statfs(2) tells the type by these numbers, also where no list of mounts does, as in a chroot. Other file systems (FAT,
# FUSE, SMB, 9p) have no change time, or store one that a program gave.
_KEEPING = {
    0xCA451A4E: "bcachefs",
    0x9123683E: "btrfs",
    0x00C36400: "ceph",
    0x0000EF53: "ext2, ext3 or ext4",
    0xF2F52010: "f2fs",
    0x47504653: "gpfs",
    0x3153464A: "jfs",
    0x0BD00BD3: "lustre",
    0x00006969: "nfs",
    0x7461636F: "ocfs2",
    0x794C7630: "overlay",
    0x858458F6: "ramfs",
    0x01021994: "tmpfs",
    0x58465342: "xfs",
    0x2FC12FC1: "zfs",
}
_STATFS_BYTES = 512  # more than the structure has on any processor
_cached: dict[int, bool] = {}  # by device number, which does not change while the process sees the device


def keeps_change_times(path: str, device: int) -> bool:
    """Return whether `changed_ns` changes with every change of the files at a path; False if that is not known.

    Parameters
    ----------
    path : the real path of a file.
    device : number of its device.
    """
    if device not in _cached:
        number = find_filesystem_type(path)
        if number is None:  # the file has just gone, or this is not Linux
            return False
        _cached[device] = number in _KEEPING
    return _cached[device]


def find_filesystem_type(path: str) -> int | None:
    """Return the number of the type of the file system at a path, as statfs(2) has it; None if that fails."""
    statfs = libc.load_function("statfs", ctypes.c_char_p, ctypes.c_void_p)
    if statfs is None:
        return None
    result = ctypes.create_string_buffer(_STATFS_BYTES)
    if statfs(os.fsencode(path), result) != 0:
        return None
    return int(ctypes.c_ulong.from_buffer(result).value) & 0xFFFFFFFF
