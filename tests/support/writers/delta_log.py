"""Logs of Delta tables, line by line: what deltalake does not write, such as deletion vectors and column mapping."""

from __future__ import annotations

import base64
import json
import os
import struct
import uuid
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
TABLE_ID = "909ada06-e0ee-484c-9c05-dbe3bf220e34"


def column(name: str, kind: Any, number: int | None = None, nullable: bool = True, **metadata: Any) -> dict[str, Any]:
    """Return a field of a schema; with a number also its id of column mapping, and `c-<number>` as physical name."""
    if number is not None:
        metadata |= {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"c-{number}"}
    return {"name": name, "type": kind, "nullable": nullable, "metadata": metadata}


def struct_of(*fields: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def add(path: str, size: int = 100, stats: Any = None, **members: Any) -> dict[str, Any]:
    """Return an add action; `stats` is a text, or what becomes one."""
    action = {"path": path, "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": True} | members
    if stats is not None:
        action["stats"] = stats if isinstance(stats, str) else json.dumps(stats)
    return {"add": action}


def remove(path: str, **members: Any) -> dict[str, Any]:
    return {"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True} | members}


def beginning(
    fields: Sequence[Any],
    partitions: Sequence[str] = (),
    configuration: Mapping[str, str] | None = None,
    features: Sequence[str] | None = None,
    writer_features: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Return protocol and metadata of a table."""
    protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 2}
    if features is not None:
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": list(features)}
        protocol["writerFeatures"] = [*features, *writer_features]
    metadata = {
        "id": TABLE_ID,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(struct_of(*fields)),
        "partitionColumns": list(partitions),
        "createdTime": 1,
        "configuration": dict(configuration or {}),
    }
    return [{"protocol": protocol}, {"metaData": metadata}]


def commit(root: Path, version: int, actions: Iterable[Any]) -> Path:
    """Write a commit, and return its file."""
    path = root / "_delta_log" / f"{version:020}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(action, ensure_ascii=False) + "\n" for action in actions))
    return path


# -------------------------------------------------------------------------------------------- deletion vectors


def encode_vector(rows: Iterable[int]) -> bytes:
    return struct.pack("<i", 1681511377) + BitMap64(rows).serialize()


def to_z85(data: bytes) -> str:
    return base64.b85encode(data).decode().translate(str.maketrans(B85, Z85))


def inline_vector(rows: Sequence[int]) -> dict[str, Any]:
    data = encode_vector(rows)
    text = to_z85(data + b"\0" * (-len(data) % 4))
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(data), "cardinality": len(rows)}


def stored_vectors(
    folder: Path, vectors: Iterable[Sequence[int]], prefix: str = "", absolute: bool = False
) -> list[dict[str, Any]]:
    """Write vectors into one file of a folder, and return what add actions say of them."""
    number = uuid.uuid4()
    path = folder / prefix / f"deletion_vector_{number}.bin"
    name = path.as_uri() if absolute else prefix + to_z85(number.bytes)
    content, described = b"\1", []
    for rows in vectors:
        data = encode_vector(rows)
        described.append(
            {
                "storageType": "p" if absolute else "u",
                "pathOrInlineDv": name,
                "offset": len(content),
                "sizeInBytes": len(data),
                "cardinality": len(rows),
            }
        )
        content += struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return described


def add_vector(root: Path, vector: dict[str, Any]) -> None:
    """Commit a deletion vector for the only file of a table that commits alone describe."""
    live: dict[str, Any] = {}
    version = -1
    for version, name in enumerate(sorted(os.listdir(root / "_delta_log"))):  # noqa: B007
        for line in (root / "_delta_log" / name).read_text().splitlines():
            action = json.loads(line)
            live |= {action["add"]["path"]: action["add"]} if action.get("add") else {}
            if action.get("remove"):
                del live[action["remove"]["path"]]
    ((path, old),) = live.items()
    commit(root, version + 1, [remove(path), {"add": old | {"deletionVector": vector}}])


# ------------------------------------------------------------------------------------------------- checkpoints


def _struct(**types: pa.DataType) -> pa.StructType:
    return pa.struct(list(types.items()))


_TEXT, _LONG, _INT, _BOOL = pa.string(), pa.int64(), pa.int32(), pa.bool_()
_TEXTS, _NAMES = pa.map_(_TEXT, _TEXT), pa.list_(_TEXT)
_VECTOR = _struct(storageType=_TEXT, pathOrInlineDv=_TEXT, offset=_INT, sizeInBytes=_INT, cardinality=_LONG)
_ADD = _struct(
    path=_TEXT,
    partitionValues=_TEXTS,
    size=_LONG,
    modificationTime=_LONG,
    dataChange=_BOOL,
    stats=_TEXT,
    tags=_TEXTS,
    deletionVector=_VECTOR,
    baseRowId=_LONG,
    stats_parsed=_struct(numRecords=_LONG),
)
_REMOVE = _struct(path=_TEXT, deletionTimestamp=_LONG, dataChange=_BOOL)
_PROTOCOL = _struct(minReaderVersion=_INT, minWriterVersion=_INT, readerFeatures=_NAMES, writerFeatures=_NAMES)
_METADATA = _struct(
    id=_TEXT,
    format=_struct(provider=_TEXT, options=_TEXTS),
    schemaString=_TEXT,
    partitionColumns=_NAMES,
    createdTime=_LONG,
    configuration=_TEXTS,
)
_SIDECAR = _struct(path=_TEXT, sizeInBytes=_LONG, modificationTime=_LONG)
_CHECKPOINT = _struct(version=_LONG)
TYPES = {"protocol": _PROTOCOL, "metaData": _METADATA, "add": _ADD, "remove": _REMOVE}
_V2_TYPES = TYPES | {"sidecar": _SIDECAR, "checkpointMetadata": _CHECKPOINT}


def write_actions(path: Path, actions: Sequence[Mapping[str, Any]], types: Mapping[str, pa.DataType]) -> None:
    """Write a checkpoint's Parquet file."""
    columns = {}
    for name, kind in types.items():
        values = [_as_maps(action[name], kind) if name in action else None for action in actions]
        columns[name] = pa.array(values, kind)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


def _as_maps(value: Any, kind: pa.DataType) -> Any:
    if value is not None and pa.types.is_map(kind):
        return list(value.items())
    if value is not None and pa.types.is_struct(kind):
        return {each.name: _as_maps(value.get(each.name), each.type) for each in kind}
    return value


def write_checkpoint(root: Path, version: int, actions: Sequence[Mapping[str, Any]], kind: str) -> list[Path]:
    """Write a checkpoint of a version and return its files.

    Parameters
    ----------
    kind : "single"; "parts", which are two; "v2 json" and "v2 parquet", with sidecars; "v2 classic", with sidecars in
        the place of a single one.
    """
    log = root / "_delta_log"
    if kind == "single":
        paths = [log / f"{version:020}.checkpoint.parquet"]
        write_actions(paths[0], actions, TYPES)
        return paths
    if kind == "parts":
        paths = [log / f"{version:020}.checkpoint.{part:010}.{2:010}.parquet" for part in (1, 2)]
        write_actions(paths[0], actions[: len(actions) // 2], TYPES)
        write_actions(paths[1], actions[len(actions) // 2 :], TYPES)
        return paths
    top = [{"checkpointMetadata": {"version": version}}]
    top += [action for action in actions if "protocol" in action or "metaData" in action]
    files = [action for action in actions if "add" in action or "remove" in action]
    paths = []
    for part in (files[::2], files[1::2]):
        paths.append(log / "_sidecars" / f"{uuid.uuid4()}.parquet")
        write_actions(paths[-1], part, {"add": _ADD, "remove": _REMOVE})
        top.append(
            {"sidecar": {"path": paths[-1].name, "sizeInBytes": paths[-1].stat().st_size, "modificationTime": 1}}
        )
    unique = "" if kind == "v2 classic" else f".{uuid.uuid4()}"
    main = log / f"{version:020}.checkpoint{unique}.{'json' if kind == 'v2 json' else 'parquet'}"
    if kind == "v2 json":
        main.write_text("\n".join(map(json.dumps, top)))
    else:
        write_actions(main, top, _V2_TYPES)
    return [main, *paths]
