"""Compiled files on disk: one file, or a folder where the compiled form is source; and what they say of their inputs.

The description is text behind the compiled bytes where the container lets anything follow it, else a file beside it.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

from tpuc.api.chip import Chip
from tpuc.api.function import FunctionChip
from tpuc.data import Preprocess, SampleInput
from tpuc.errors import CorruptFile
from tpuc.files import write_atomic

Described: TypeAlias = Mapping[str, Preprocess]
"""How pictures become inputs, by the names of these."""

_END = struct.Struct("<Q8s")
_MAGIC = b"tpuc-inp"
_PAIRS = ("mean", "scale", "resize_dims")


def names_folder(chip: Chip, path: Path) -> bool:
    """Does a path name a folder of source? Any name does that does not end as the chip's archives do."""
    return isinstance(chip, FunctionChip) and path.suffix != chip.description.suffix


def write_artifact(chip: Chip, path: Path, data: bytes, *networks: Described) -> None:
    """Write what was compiled, each file whole, with what is known of the inputs of each of its networks."""
    inputs = networks if any(networks) else ()
    if chip.allows_trailer:
        write_atomic(path, data + (_trailer(inputs) if inputs else b""))
        return
    if isinstance(chip, FunctionChip) and names_folder(chip, path):
        path.mkdir(exist_ok=True)
        for name, content in chip.files(data).items():
            write_atomic(path / name, content)
    else:
        write_atomic(path, data)
    if inputs:
        write_atomic(_side_file(path), _text(inputs, hashlib.sha256(data).hexdigest()))


def is_compiled_folder(chip: Chip, path: Path) -> bool:
    """Is there a folder that the chip may have written?"""
    return isinstance(chip, FunctionChip) and path.is_dir()


def read_artifact(chip: Chip, path: Path) -> tuple[bytes, Sequence[Described]]:
    """What was written before, and what it says of the inputs of each network; nothing where it was not told."""
    data = chip.archive(path) if isinstance(chip, FunctionChip) and path.is_dir() else path.read_bytes()
    if chip.allows_trailer:
        text, data = _split(data)
        return data, _parsed(text, path)
    side = _side_file(path)
    text = side.read_bytes() if side.is_file() else b""
    return data, _parsed(text, side, hashlib.sha256(data).hexdigest())


def described_inputs(inputs: list[SampleInput]) -> Described:
    """Of the inputs of a module those of which somebody said how pictures become them."""
    return {one.name: one.preprocess for one in inputs if one.is_described and len(one.shape) == 4}


def _side_file(path: Path) -> Path:
    """Where the description is that belongs to a compiled file or folder."""
    return path / "inputs.json" if path.is_dir() else path.with_name(f"{path.name}.inputs.json")


def _trailer(inputs: Sequence[Described]) -> bytes:
    text = _text(inputs)
    return text + _END.pack(len(text), _MAGIC)


def _split(data: bytes) -> tuple[bytes, bytes]:
    """The description and what is before it."""
    size, magic = _END.unpack_from(data, len(data) - _END.size) if len(data) >= _END.size else (0, b"")
    if magic != _MAGIC or size > len(data) - _END.size:
        return b"", data
    end = len(data) - _END.size
    return data[end - size : end], data[: end - size]


def _text(inputs: Sequence[Described], digest: str = "") -> bytes:
    """`digest` is that of the compiled bytes where these are another file."""
    head = {"version": 1} | ({"sha256": digest} if digest else {})
    networks = [{name: asdict(one) for name, one in network.items()} for network in inputs]
    whole = {**head, "networks": networks}
    return (json.dumps(whole, ensure_ascii=False) + "\n").encode("utf-8")


def _parsed(text: bytes, source: Path, digest: str = "") -> Sequence[Described]:
    """The inputs that a description names, network by network; nothing where it belongs to other bytes."""
    if not text:
        return ()
    try:
        whole: dict[str, Any] = json.loads(text)
        if whole.get("sha256", "") != digest:
            return ()
        networks: list[dict[str, Any]] = whole["networks"]
        return tuple({name: _preprocess(fields) for name, fields in one.items()} for one in networks)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptFile(f"{source}: its description of the inputs is damaged; compile the network again") from error


def _preprocess(fields: Mapping[str, Any]) -> Preprocess:
    known: dict[str, Any] = {name: tuple(one) if name in _PAIRS and one else one for name, one in fields.items()}
    return Preprocess(**known)
