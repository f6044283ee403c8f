"""The folder of a compiled network as one archive, and the folder read again."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tpuc.api import F32, CorruptFile, ElementType, ScalarType, TensorInfo, TensorType, Uniform

DESCRIPTION = "metadata.json"
VERSION = 1


def packed(files: Mapping[str, bytes]) -> bytes:
    """An archive without times and owners, so that equal files give equal bytes."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.mode = 0o644
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def unpacked(data: bytes, source: str) -> dict[str, bytes]:
    """The files of an archive; raises CorruptFile."""
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            files: dict[str, bytes] = {}
            for member in archive.getmembers():
                content = archive.extractfile(member) if member.isfile() else None
                if content is None or Path(member.name).name != member.name:
                    raise CorruptFile(f"{source}: member '{member.name}' is no plain file; compile it again")
                files[member.name] = content.read()
                if len(files[member.name]) != member.size:
                    raise CorruptFile(f"{source}: member '{member.name}' is cut short; copy or compile it again")
    except (tarfile.TarError, EOFError, UnicodeDecodeError) as error:
        raise CorruptFile(f"{source}: is not an archive of a network in C; compile it again") from error
    return files


def archived(folder: Path) -> bytes:
    """The archive of a folder that a network was written to: the files that its description names."""
    described = folder / DESCRIPTION
    if not described.is_file():
        raise CorruptFile(f"{folder}: there is no {DESCRIPTION} in it; name a folder that `tpuc compile` wrote")
    names = _read(described.read_bytes(), str(folder))["files"]
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise CorruptFile(f"{folder}: {missing[0]} is missing; compile it again")
    return packed({name: (folder / name).read_bytes() for name in [*names, DESCRIPTION]})


def description_of(fields: Mapping[str, Any], files: Mapping[str, bytes]) -> bytes:
    """The description of a network with these files."""
    whole = {"version": VERSION, **fields, "files": sorted(files)}
    return (json.dumps(whole, indent=2, ensure_ascii=False) + "\n").encode("utf-8")


def read_description(files: Mapping[str, bytes], source: str) -> dict[str, Any]:
    """The description among the files; raises CorruptFile."""
    if DESCRIPTION not in files:
        raise CorruptFile(f"{source}: there is no {DESCRIPTION} in it; compile it again")
    fields = _read(files[DESCRIPTION], source)
    missing = [name for name in fields["files"] if name not in files]
    if missing:
        raise CorruptFile(f"{source}: {missing[0]} is missing; compile it again")
    return fields


def _read(data: bytes, source: str) -> dict[str, Any]:
    try:
        fields: dict[str, Any] = json.loads(data)
        version, files = fields["version"], fields["files"]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFile(f"{source}: {DESCRIPTION} is damaged; compile it again") from error
    if version != VERSION:
        raise CorruptFile(f"{source}: format version {version}, this package reads {VERSION}; compile it again")
    if not isinstance(files, list):
        raise CorruptFile(f"{source}: {DESCRIPTION} is damaged; compile it again")
    return fields


def tensor_to_json(info: TensorInfo) -> dict[str, Any]:
    """An input or output as plain values."""
    fields: dict[str, Any] = {"name": info.name, "shape": list(info.shape)}
    fields["storage"] = TensorType(info.shape, info.element).storage.name
    if isinstance(info.element, Uniform):
        fields |= {"scale": info.element.scale, "zero_point": info.element.zero_point}
    return fields


def tensor_from_json(fields: Mapping[str, Any], source: str) -> TensorInfo:
    """The inverse of `tensor_to_json`; raises CorruptFile."""
    try:
        storage = ScalarType(str(fields["storage"]))
        element: ElementType = storage
        if "scale" in fields:
            element = Uniform(storage, F32, float(fields["scale"]), int(fields["zero_point"]))
        return TensorInfo(str(fields["name"]), tuple(map(int, fields["shape"])), element, 0)
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFile(f"{source}: {DESCRIPTION} is damaged; compile it again") from error
