"""Read the configuration and the tensors of a Hugging Face folder.

The format of safetensors (a length, a JSON header, raw tensors) is read here and not by its package, whose numpy
interface has no bfloat16: https://huggingface.co/docs/safetensors.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from tpuc.api import InvalidModel
from tpuc_ops.arrays import Array

from tpuc_llm.integers import Integers

CONFIG = "config.json"
SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
LARGEST_HEADER = 100_000_000
"""Bytes; the format allows no longer one."""
TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "U8": "u1", "I8": "i1"}


@dataclass(frozen=True)
class StoredTensor:
    """Where a tensor lies: `start` bytes behind the header of `file`."""

    file: Path
    dtype: str
    shape: tuple[int, ...]
    start: int


@dataclass(frozen=True)
class Checkpoint:
    """A folder with `config.json` and safetensors in one file, or in shards that an index lists."""

    folder: Path

    @property
    def said_in(self) -> Path:
        """The file of the configuration, for sentences."""
        return self.folder / CONFIG

    @property
    def home(self) -> Path:
        """The folder with the tokenizer."""
        return self.folder

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """The configuration. Raises InvalidModel if it is not a JSON object."""
        found = self.settings(CONFIG)
        if not isinstance(found.get("model_type"), str):
            raise InvalidModel(
                f"{self.folder / CONFIG}: it does not state a model_type, so this is not a model of Hugging Face's "
                "transformers. Export the model with save_pretrained."
            )
        return found

    def settings(self, name: str) -> dict[str, Any]:
        """Return one of the folder's JSON objects. Raises InvalidModel if it is none."""
        return _json(self.folder / name)

    @cached_property
    def tensors(self) -> Mapping[str, StoredTensor]:
        """Every tensor by name. Raises InvalidModel for missing or damaged files."""
        if (self.folder / SINGLE).is_file():
            return _header(self.folder / SINGLE)
        index = self.folder / INDEX
        if not index.is_file():
            raise InvalidModel(
                f"{self.folder}: there is neither {SINGLE} nor {INDEX} in it. Download the weights in safetensors."
            )
        listed: dict[str, Any] | None = _json(index).get("weight_map")
        if not isinstance(listed, dict):
            raise InvalidModel(f"{index}: it has no weight_map. Download the model again.")
        shards: dict[str, StoredTensor] = {}
        for name in sorted({str(file) for file in listed.values()}):
            shard = self.folder / name
            if Path(name).name != name or not shard.is_file():
                raise InvalidModel(
                    f"{index}: it lists '{name}', which is not in the folder. Download the missing file."
                )
            shards |= _header(shard)
        return shards

    def has(self, name: str) -> bool:
        """Is there such a tensor?"""
        return name in self.tensors

    def tensor(self, name: str, shape: tuple[int, ...] | None = None) -> Array:
        """Return a tensor as float32 (integers as they are); only its own bytes are read.

        Raises InvalidModel if it is missing or does not have `shape`.
        """
        found = self.tensors.get(name)
        if found is None:
            raise InvalidModel(f"{self.folder}: there is no tensor '{name}' in its weights. Download the model again.")
        if shape is not None and found.shape != shape:
            raise InvalidModel(
                f"{self.folder}: tensor '{name}' is {list(found.shape)}, and {CONFIG} asks for {list(shape)}. "
                "Take weights and configuration of one model."
            )
        raw = np.memmap(found.file, TYPES[found.dtype], "r", found.start, found.shape or (1,))
        if found.dtype == "BF16":
            return (raw.astype(np.uint32) << 16).view(np.float32)
        return raw.astype(np.float32) if raw.dtype.kind == "f" else np.array(raw)

    def integers(self, name: str) -> Integers | None:
        """Return a matrix as the integers that the file has; None if it has floats, or others than products take."""
        return None


def _json(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
    except OSError as error:
        raise InvalidModel(f"{path}: it cannot be read ({error.strerror}). Check the folder.") from error
    except (ValueError, RecursionError) as error:
        raise InvalidModel(f"{path}: this is not JSON. Download the file again.") from error
    if not isinstance(found, dict):  # pyright: ignore[reportUnnecessaryIsInstance]  # files hold anything
        raise InvalidModel(f"{path}: this is not a JSON object. Download the file again.")
    return found


def _header(path: Path) -> Mapping[str, StoredTensor]:
    """Every tensor of one file, checked against the file's size."""
    damaged = InvalidModel(f"{path}: the file is damaged or truncated. Download it again.")
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, LARGEST_HEADER):
            raise damaged
        try:
            header: dict[str, Any] = json.loads(file.read(length))
        except (ValueError, RecursionError) as error:
            raise damaged from error
    if not isinstance(header, dict):  # pyright: ignore[reportUnnecessaryIsInstance]  # files hold anything
        raise damaged
    found: dict[str, StoredTensor] = {}
    places: list[tuple[int, int]] = []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        try:
            dtype, shape, (first, last) = entry["dtype"], _whole(entry["shape"]), _whole(entry["data_offsets"])
        except (KeyError, TypeError, ValueError) as error:
            raise damaged from error
        if dtype not in list(TYPES):
            raise InvalidModel(
                f"{path}: tensor '{name}' is stored as {dtype}; {', '.join(TYPES)} are read. Convert the model to BF16."
            )
        wanted = math.prod(shape) * np.dtype(TYPES[dtype]).itemsize
        if not first <= last <= size - 8 - length or last - first != wanted:
            raise damaged
        found[name] = StoredTensor(path, dtype, shape, 8 + length + first)
        places.append((first, last))
    places.sort()
    if any(first < before for (_, before), (first, _) in pairwise(places)):
        raise damaged  # bytes that are several tensors would make a large model of a small file
    return found


def _whole(numbers: Any) -> tuple[int, ...]:
    """Return whole numbers from 0. Raises TypeError or ValueError for anything else."""
    found = tuple(numbers)
    if any(type(number) is not int or number < 0 for number in found):
        raise ValueError(numbers)
    return found
