"""Read and write compiled files (one file, or a folder of source) with their metadata.

The description is text after the compiled bytes where the container tolerates trailing data. Otherwise it is a file
beside the compiled one, written if there are described inputs, post-processing, class names, or a border to record.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from tpuc.api.chip import Chip
from tpuc.api.function import FunctionChip
from tpuc.api.planning import LayerCommands
from tpuc.errors import CorruptFile
from tpuc.files import utf8, write_all, write_atomic
from tpuc.ir.fused_postprocess import FusedPostprocess
from tpuc.ir.preprocess import Preprocess

from tpuc_driver.data import SampleInput
from tpuc_driver.session.border import Border, NetworkTensor

Described: TypeAlias = Mapping[str, Preprocess]
"""Preprocessing by input name."""


@dataclass(frozen=True)
class Description:
    """Metadata of one network of a compiled file: preprocessing of its `inputs`, command ranges of its `layers`, its
    fused post-processing, its class names, its inputs and outputs where they differ from the container's, and the
    fingerprints of its calibration samples.
    """

    inputs: Described = field(default_factory=dict[str, Preprocess])
    layers: tuple[LayerCommands, ...] = ()
    postprocess: FusedPostprocess | None = None
    labels: tuple[str, ...] = ()
    border: Border = field(default_factory=Border)
    calibrated_on: tuple[str, ...] = ()

    @property
    def is_for_users(self) -> bool:
        """Return whether it holds anything that programs need to run the network."""
        return bool(self.inputs or self.postprocess or self.labels or self.border)


_END = struct.Struct("<Q8s")
_MAGIC = b"tpuc-inp"
_PAIRS = ("mean", "scale", "resize_dims")


def names_folder(chip: Chip, path: Path) -> bool:
    """Return whether a path names a folder of source: any path without the suffix of the chip's archives does."""
    return isinstance(chip, FunctionChip) and path.suffix != chip.description.suffix


def write_artifact(chip: Chip, path: Path, data: bytes, *networks: Description) -> None:
    """Write a compiled file atomically, with the descriptions of its networks."""
    files = artifact_files(chip, path, data, *networks)
    if list(files) == [path]:
        write_atomic(path, files[path])
    else:
        write_all(files)


def artifact_files(chip: Chip, path: Path, data: bytes, *networks: Description) -> Mapping[Path, bytes]:
    """Return the files that `write_artifact` writes, with their contents."""
    if chip.allows_trailer:
        return {path: data + trailer_of(networks)}
    files = {path: data}
    is_folder = False
    if isinstance(chip, FunctionChip) and names_folder(chip, path):
        files = {path / name: content for name, content in chip.files(data).items()}
        is_folder = True
    if any(network.is_for_users for network in networks):
        stored = [replace(network, layers=()) for network in networks]
        files[_side_file(path, is_folder)] = _text(stored, hashlib.sha256(data).hexdigest())
    return files


def is_compiled_folder(chip: Chip, path: Path) -> bool:
    """Return whether the path is a folder that the chip may have written."""
    return isinstance(chip, FunctionChip) and path.is_dir()


def read_artifact(chip: Chip, path: Path) -> tuple[bytes, Sequence[Description]]:
    """Read compiled bytes and the description of each network, none if there is no metadata."""
    data = chip.archive(path) if isinstance(chip, FunctionChip) and path.is_dir() else path.read_bytes()
    if chip.allows_trailer:
        text, data = _split(data)
        return data, _parsed(text, path)
    side = _side_file(path, path.is_dir())
    text = side.read_bytes() if side.is_file() else b""
    return data, _parsed(text, side, hashlib.sha256(data).hexdigest())


def described_inputs(inputs: list[SampleInput]) -> Described:
    """Return the preprocessing of the four-dimensional inputs for which it is described, by input name."""
    return {one.name: one.preprocess for one in inputs if one.is_described and len(one.shape) == 4}


def _side_file(path: Path, is_folder: bool) -> Path:
    """Return the path of the description that belongs to a compiled file or folder."""
    return path / "inputs.json" if is_folder else path.with_name(f"{path.name}.inputs.json")


def trailer_of(networks: Sequence[Description]) -> bytes:
    """Return what follows compiled bytes where the container tolerates it; nothing if there is nothing to state."""
    if not any(one.is_for_users or one.layers or one.calibrated_on for one in networks):
        return b""
    text = _text(networks)
    return text + _END.pack(len(text), _MAGIC)


def _split(data: bytes) -> tuple[bytes, bytes]:
    """Split off the trailer; returns the description and the bytes before it."""
    size, magic = _END.unpack_from(data, len(data) - _END.size) if len(data) >= _END.size else (0, b"")
    if magic != _MAGIC or size > len(data) - _END.size:
        return b"", data
    end = len(data) - _END.size
    return data[end - size : end], data[: end - size]


def _text(networks: Sequence[Description], digest: str = "") -> bytes:
    """Serialize descriptions; `digest` is the SHA-256 of the compiled bytes if they are in another file."""
    whole: dict[str, Any] = {"version": 1} | ({"sha256": digest} if digest else {})
    whole["networks"] = [{name: _fields(one) for name, one in network.inputs.items()} for network in networks]
    if any(network.layers for network in networks):
        whole["layers"] = [_rows(network.layers) for network in networks]
    if any(network.postprocess for network in networks):
        whole["postprocess"] = [one.postprocess and asdict(one.postprocess) for one in networks]
    if any(network.labels for network in networks):
        whole["labels"] = [network.labels for network in networks]
    if any(network.border for network in networks):
        sides = [(one.border.inputs, one.border.outputs) for one in networks]
        whole["border"] = [[[tensor.to_json() for tensor in side] for side in pair] for pair in sides]
    if any(network.calibrated_on for network in networks):
        whole["calibrated_on"] = [" ".join(network.calibrated_on) for network in networks]
    return utf8(json.dumps(whole, ensure_ascii=False, separators=(",", ":")) + "\n")


def _rows(layers: Sequence[LayerCommands]) -> list[Any]:
    return [[layer.name, layer.op, layer.commands] for layer in layers]


def _layers(rows: Sequence[Sequence[Any]]) -> tuple[LayerCommands, ...]:
    return tuple(
        LayerCommands(str(name), str(op), {engine: _ranges(ranges) for engine, ranges in commands.items()})
        for name, op, commands in rows
    )


def _ranges(pairs: Sequence[Sequence[int]]) -> tuple[tuple[int, int], ...]:
    return tuple((int(first), int(last)) for first, last in pairs)


def _parsed(text: bytes, source: Path, digest: str = "") -> Sequence[Description]:
    """Parse descriptions, one per network; returns none if `digest` shows that they belong to other bytes."""
    if not text:
        return ()
    try:
        whole: dict[str, Any] = json.loads(text)
        if whole.get("sha256", "") != digest:
            return ()
        networks: list[dict[str, Any]] = whole["networks"]
        inputs = [{name: _preprocess(fields) for name, fields in one.items()} for one in networks]
        layers = [_layers(rows) for rows in whole.get("layers", [[]] * len(networks))]
        fused: list[dict[str, str] | None] = whole.get("postprocess") or [None] * len(networks)
        posts = [FusedPostprocess(**one) if one else None for one in fused]
        labels = [tuple(map(str, names)) for names in whole.get("labels", [()] * len(networks))]
        borders = [_border(*pair) for pair in whole.get("border", [[[], []]] * len(networks))]
        seen = [tuple(str(text).split()) for text in whole.get("calibrated_on", [""] * len(networks))]
        return tuple(Description(*one) for one in zip(inputs, layers, posts, labels, borders, seen, strict=True))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise CorruptFile(
            f"{source}: its metadata is damaged, or from another version of tpuc; compile the network again"
        ) from error


def _border(inputs: Sequence[Sequence[Any]], outputs: Sequence[Sequence[Any]]) -> Border:
    return Border(tuple(map(NetworkTensor.from_json, inputs)), tuple(map(NetworkTensor.from_json, outputs)))


def _fields(preprocess: Preprocess) -> dict[str, Any]:
    """Return the fields for JSON, without an interpolation if none was chosen."""
    return {name: value for name, value in asdict(preprocess).items() if name != "interpolation" or value is not None}


def _preprocess(fields: Mapping[str, Any]) -> Preprocess:
    known: dict[str, Any] = {name: tuple(one) if name in _PAIRS and one else one for name, one in fields.items()}
    return Preprocess(**known)
