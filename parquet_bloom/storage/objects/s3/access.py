"""Who may do what with an S3 object, so that a new one gives the same to the same."""

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
    owner : the owner's id; empty if the store does not tell.
    grants : each as permission and grantee, the latter as headers name it.
    """

    owner: str
    grants: frozenset[tuple[str, str]]

    @property
    def is_plain(self) -> bool:
        """Whether it is what an object has whose writer said nothing: all for its owner, nothing for others."""
        return self.grants <= {(_OWNERS, _by_id(self.owner))}

    def headers(self, path: str) -> dict[str, str]:
        """Arguments that give a new object this list; none for a plain one.

        Raises
        ------
        StorageError
            If it grants what no header can.
        """
        if self.is_plain:
            return {}
        grants: dict[str, list[str]] = {}
        for permission, grantee in sorted(self.grants):
            if permission not in _HEADERS or not grantee:
                grant = f"a grant of {permission}" if permission else "a grant that cannot be understood, and"
                problem = f"its access control list has {grant} that a new object cannot be given"
                raise StorageError(f"{problem}; give an output elsewhere", path=path)
            grants.setdefault(_HEADERS[permission], []).append(grantee)
        return {header: ", ".join(grantees) for header, grantees in grants.items()}


def parse_access(answer: Mapping[str, Any]) -> Access | None:
    """What an answer to GetObjectAcl says; None if it is none."""
    if "Grants" not in answer:
        return None
    owner = str((answer.get("Owner") or {}).get("ID", ""))
    grants = [(str(grant.get("Permission", "")), _grantee(grant.get("Grantee") or {})) for grant in answer["Grants"]]
    return Access(owner, frozenset(grants))


def _grantee(grantee: Mapping[str, str]) -> str:
    """How a header names it; empty if none can."""
    if grantee.get("URI"):
        return f'uri="{grantee["URI"]}"'
    return _by_id(grantee.get("ID", ""))


def _by_id(identity: str) -> str:
    return f'id="{identity}"' if identity and '"' not in identity else ""
