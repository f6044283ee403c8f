"""Read the description of a network from an archive, and validate every field, because archives are not trusted."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from tpuc.api import F32, CorruptFile, ElementType, ScalarType, TensorInfo, TensorType, Uniform, numpy_dtype
from tpuc.api.boundary import State

from tpuc_c.build_files import EXTRAS, MAIN, SOURCE, sources
from tpuc_c.text import c_type

DESCRIPTION = "metadata.json"
VERSION = 1
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,95}")
FILE_NAME = re.compile(
    r"(?:zephyr/|src/|extras/|(?:examples|samples)/[A-Za-z0-9_]{1,24}/(?:src/|main/)?)?[A-Za-z0-9_][A-Za-z0-9_.-]{0,98}"
)
"""File names that any layout may contain; the header of an archive's member has room for 100 letters."""
MOST_BYTES = 1 << 40
"""Largest size that a description may state."""
MOST_DIMENSIONS = 16
MOST_TEXT = 1 << 24
"""Maximum size of a description in bytes."""


@dataclass(frozen=True)
class Described:
    """The fields needed to run a network."""

    identifier: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    workspace_bytes: int
    parameter_bytes: int
    folder: str
    """Folder of the source, with a trailing slash; empty when no files are in folders."""
    states: tuple[State, ...] = ()
    """Inputs and outputs that the program keeps between runs."""

    @property
    def program_files(self) -> tuple[str, ...]:
        """The source files to compile to run the network on this machine; their headers are in the same folder."""
        library = tuple(f"{self.folder}{name}" for name in sources(self.identifier))
        return (*library, f"{EXTRAS if self.folder else ''}{MAIN}")


def description_of(fields: Mapping[str, Any], files: Mapping[str, bytes]) -> bytes:
    """The description of a network with these files, encoded."""
    whole = {"version": VERSION, **fields, "files": sorted(files)}
    return (json.dumps(whole, indent=2, ensure_ascii=False) + "\n").encode("utf-8")


def listed_files(data: bytes, source: str) -> list[str]:
    """The file names in a description; raises CorruptFile."""
    return _names(_read(data, source), source)


def read_description(files: Mapping[str, bytes], source: str) -> Described:
    """Read the description among the files; raises CorruptFile."""
    if DESCRIPTION not in files:
        raise CorruptFile(f"{source}: there is no {DESCRIPTION} in it; compile it again")
    fields = _read(files[DESCRIPTION], source)
    identifier = fields.get("identifier")
    if not isinstance(identifier, str) or not IDENTIFIER.fullmatch(identifier):
        raise CorruptFile(f"{source}: {DESCRIPTION} has a network name that is not a C identifier; compile it again")
    names = _names(fields, source)
    inputs, outputs = (_tensors(fields.get(kind), source) for kind in ("inputs", "outputs"))
    workspace, parameters = (
        _whole(fields.get(name), 0, MOST_BYTES, source) for name in ("workspace_bytes", "parameter_bytes")
    )
    folder = SOURCE if f"{SOURCE}{sources(identifier)[0]}" in files else ""
    states = _states(fields.get("states", []), inputs, outputs, source)
    described = Described(identifier, inputs, outputs, workspace, parameters, folder, states)
    missing = [name for name in (*names, *described.program_files) if name not in files]
    if missing:
        raise CorruptFile(f"{source}: {missing[0]} is missing; compile it again")
    return described


def _damaged(source: str) -> CorruptFile:
    return CorruptFile(f"{source}: {DESCRIPTION} is damaged; compile it again")


def _read(data: bytes, source: str) -> Mapping[str, Any]:
    if len(data) > MOST_TEXT:
        raise _damaged(source)
    try:
        fields: object = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _damaged(source) from error
    if not isinstance(fields, dict):
        raise _damaged(source)
    known = cast("dict[str, Any]", fields)
    version = _whole(known.get("version"), 0, MOST_BYTES, source)
    if version != VERSION:
        raise CorruptFile(f"{source}: format version {version}, this package reads {VERSION}; compile it again")
    return known


def _names(fields: Mapping[str, Any], source: str) -> list[str]:
    names: object = fields.get("files")
    if not isinstance(names, list):
        raise _damaged(source)
    found = cast("list[object]", names)
    if not all(isinstance(name, str) and FILE_NAME.fullmatch(name) for name in found):
        raise CorruptFile(f"{source}: {DESCRIPTION} lists a file that no network in C has; compile it again")
    return cast("list[str]", found)


def _whole(value: object, least: int, most: int, source: str) -> int:
    if type(value) is not int or not least <= value <= most:
        raise _damaged(source)
    return value


def _tensors(rows: object, source: str) -> tuple[TensorInfo, ...]:
    if not isinstance(rows, list):
        raise _damaged(source)
    tensors = tuple(tensor_from_json(row, source) for row in cast("list[object]", rows))
    if len({one.name for one in tensors}) != len(tensors):
        raise _damaged(source)
    return tensors


def _states(
    rows: object, inputs: tuple[TensorInfo, ...], outputs: tuple[TensorInfo, ...], source: str
) -> tuple[State, ...]:
    taken, given = ({one.name: (one.shape, one.element) for one in infos} for infos in (inputs, outputs))
    found: list[State] = []
    for row in cast("list[object]", rows) if isinstance(rows, list) else [None]:
        pair = cast("list[object]", row) if isinstance(row, list) else []
        names = [name for name in pair if isinstance(name, str)]
        if len(names) != 2 or len(pair) != 2 or taken.get(names[0]) is None or taken[names[0]] != given.get(names[1]):
            raise _damaged(source)
        found.append(State(*names))
    if len({one.input for one in found} | {one.output for one in found}) < 2 * len(found):
        raise _damaged(source)
    return tuple(found)


def tensor_to_json(info: TensorInfo) -> dict[str, Any]:
    """Encode an input or output as plain values."""
    fields: dict[str, Any] = {"name": info.name, "shape": list(info.shape)}
    fields["storage"] = TensorType(info.shape, info.element).storage.name
    if isinstance(info.element, Uniform):
        fields |= {"scale": info.element.scale, "zero_point": info.element.zero_point}
    return fields


def tensor_from_json(row: object, source: str) -> TensorInfo:
    """The inverse of `tensor_to_json`; raises CorruptFile."""
    fields = cast("dict[str, Any]", row) if isinstance(row, dict) else {}
    name, shape, storage = (fields.get(key) for key in ("name", "shape", "storage"))
    if not (isinstance(name, str) and isinstance(shape, list) and isinstance(storage, str)):
        raise _damaged(source)
    extents = cast("list[object]", shape)
    dims = tuple(_whole(extent, 0, MOST_BYTES, source) for extent in extents)
    if len(dims) > MOST_DIMENSIONS:
        raise _damaged(source)
    try:
        scalar = ScalarType(storage)
        element = _element(scalar, fields, source)
        known = c_type(scalar) is not None and math.prod(dims) * numpy_dtype(scalar).itemsize <= MOST_BYTES
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(source) from error
    if not known:
        raise _damaged(source)
    return TensorInfo(name, dims, element, 0)


def _element(scalar: ScalarType, fields: Mapping[str, Any], source: str) -> ElementType:
    if "scale" not in fields:
        return scalar
    scale = fields["scale"]
    if type(scale) not in (int, float) or not 0 < scale < math.inf:
        raise _damaged(source)
    return Uniform(scalar, F32, float(scale), _whole(fields.get("zero_point"), -(1 << 31), (1 << 31) - 1, source))
