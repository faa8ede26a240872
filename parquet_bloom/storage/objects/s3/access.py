"""Access control lists of S3 objects, and their transfer to new objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ....errors import StorageError

_HEADERS = {
    "FULL_CONTROL": "GrantFullControl",
    "READ": "GrantRead",
    "READ_ACP": "GrantReadACP",
    "WRITE_ACP": "GrantWriteACP",
}
_OWNERS = "FULL_CONTROL"


class Access(NamedTuple):
    """An access control list.

    Attributes
    ----------
    owner : id of the owner; empty if the store does not report it.
    grants : pairs of permission and grantee, the latter as in headers.
    """

    owner: str
    grants: frozenset[tuple[str, str]]

    @property
    def is_plain(self) -> bool:
        """Return whether it is the default list: full control for the owner, and no other grants."""
        return self.grants <= {(_OWNERS, _by_id(self.owner))}

    def headers(self, path: str) -> dict[str, str]:
        """Return request arguments that give a new object this list; none for a plain list.

        Raises
        ------
        StorageError
            If it has a grant that no header can express.
        """
        if self.is_plain:
            return {}
        grants: dict[str, list[str]] = {}
        for permission, grantee in sorted(self.grants):
            if permission not in _HEADERS or not grantee:
                grant = f"a grant of {permission}" if permission else "a grant of an unknown kind"
                problem = f"its access control list has {grant} that a new object cannot be given"
                raise StorageError(f"{problem}; give an output elsewhere", path=path)
            grants.setdefault(_HEADERS[permission], []).append(grantee)
        return {header: ", ".join(grantees) for header, grantees in grants.items()}


def parse_access(answer: Mapping[str, Any]) -> Access | None:
    """Parse a response to GetObjectAcl; None if it is not one."""
    if "Grants" not in answer:
        return None
    owner = str((answer.get("Owner") or {}).get("ID", ""))
    grants = [(str(grant.get("Permission", "")), _grantee(grant.get("Grantee") or {})) for grant in answer["Grants"]]
    return Access(owner, frozenset(grants))


def _grantee(grantee: Mapping[str, str]) -> str:
    """Return the name of a grantee in headers; empty if there is none."""
    if grantee.get("URI"):
        return f'uri="{grantee["URI"]}"'
    return _by_id(grantee.get("ID", ""))


def _by_id(identity: str) -> str:
    return f'id="{identity}"' if identity and '"' not in identity else ""
