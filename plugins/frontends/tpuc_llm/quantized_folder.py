"""Folders whose matrices are integers already: GPTQ, AWQ, and compressed-tensors. Integers and scales stay as stored.

The formats are public: https://github.com/AutoGPTQ/AutoGPTQ, https://github.com/casper-hansen/AutoAWQ,
https://github.com/vllm-project/compressed-tensors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from tpuc.api import InvalidModel, Unsupported
from tpuc_ops.arrays import Array
from tpuc_ops.weight_only import LEAST_GROUP, fits_group

from tpuc_llm.checkpoint import Checkpoint
from tpuc_llm.family import Reader
from tpuc_llm.integers import Integers

KEY, APART = "quantization_config", "quantize_config.json"
"""Where a folder says how it is quantized; older ones in a file of its own."""
WORD = 32
"""Bits of the integers that others are packed into."""
AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""Where the integers of eight neighbors lie in a word of AWQ."""
WEIGHT = ".weight"


class QuantizedFolder(Checkpoint):
    """A folder with matrices in one of the `SCHEMES`, and floats beside them."""

    @staticmethod
    def checked(folder: Path) -> QuantizedFolder:
        """Open a folder. Raises Unsupported for what is not read."""
        found = QuantizedFolder(folder)
        assert found.scheme
        return found

    @cached_property
    def scheme(self) -> Scheme:
        """How matrices are stored. Raises Unsupported for what is not read."""
        stated: Any = self.config.get(KEY) or {"quant_method": Gptq.method, **self.settings(APART)}
        said: dict[str, Any] = {**stated} if isinstance(stated, dict) else {"quant_method": stated}
        method = str(said.get("quant_method", said))
        if method not in SCHEMES:
            raise Unsupported(
                f"{self.said_in}: the weights are quantized by '{method[:80]}', and {', '.join(SCHEMES)} are read. "
                "Take the model before quantization, or a GGUF file."
            )
        return SCHEMES[method](Checkpoint(self.folder), said)

    def has(self, name: str) -> bool:
        return super().has(name) or self._is_stored(name)

    def tensor(self, name: str, shape: tuple[int, ...] | None = None) -> Array:
        if not self._is_stored(name):
            return super().tensor(name, shape)
        found = self.scheme.integers(name.removesuffix(WEIGHT))
        dims = (len(found.scale), self.scheme.depth(name.removesuffix(WEIGHT)))
        if shape is not None and dims != shape:
            raise InvalidModel(
                f"{self.folder}: tensor '{name}' is {list(dims)}, and {self.said_in.name} asks for {list(shape)}. Take "
                "weights and configuration of one model."
            )
        return found.real(dims[1])

    def integers(self, name: str) -> Integers | None:
        return self.scheme.integers(name.removesuffix(WEIGHT)) if self._is_stored(name) else None

    def _is_stored(self, name: str) -> bool:
        return name.endswith(WEIGHT) and self.scheme.has(name.removesuffix(WEIGHT))


def is_quantized(checkpoint: Checkpoint) -> bool:
    """Return whether a checkpoint is a folder with integers."""
    return bool(checkpoint.config.get(KEY)) or (checkpoint.folder / APART).is_file()


@dataclass(frozen=True)
class Scheme(ABC):
    """One way to store matrices, which tensors beside their names make up."""

    checkpoint: Checkpoint
    said: Mapping[str, Any]

    method: ClassVar[str]
    numbers: ClassVar[str]
    """The ending of the tensor with the integers."""

    def __post_init__(self) -> None:
        self.check(Reader(self.checkpoint, self.said))

    @abstractmethod
    def check(self, reader: Reader) -> None:
        """Raise Unsupported for settings that are not read."""

    @abstractmethod
    def integers(self, name: str) -> Integers:
        """Return a matrix."""

    @abstractmethod
    def depth(self, name: str) -> int:
        """Return the inputs of a matrix."""

    def has(self, name: str) -> bool:
        """Is this matrix stored so?"""
        return self.checkpoint.has(f"{name}.{self.numbers}")

    def part(self, name: str, ending: str, rank: int = 2, kind: str = "f") -> Array:
        """Return a tensor of a matrix, whose type is of a `kind` of numpy's."""
        found = self.checkpoint.tensor(f"{name}.{ending}")
        if found.ndim != rank or not found.size or found.dtype.kind != kind:
            raise self.damaged(name)
        return found

    def words(self, name: str, ending: str, bits: int, axis: int) -> Array:
        """Return the integers of a tensor of words, lowest bits first; `axis` becomes as much longer."""
        found = self.part(name, ending, kind="i")
        if found.dtype != np.int32:
            raise self.damaged(name)
        rows = np.moveaxis(found, axis, -1)
        shifts = np.arange(0, WORD, bits, dtype=np.uint32)
        apart = (rows[..., None].view(np.uint32) >> shifts & np.uint32((1 << bits) - 1)).astype(np.uint8)
        return np.moveaxis(apart.reshape(*rows.shape[:-1], -1), -1, axis)

    def built(self, name: str, numbers: Array, scale: Array, zp: Array, bits: int, group: int) -> Integers:
        """Return a matrix of numbers [outputs, inputs] with scales [outputs, groups]."""
        groups = -(-numbers.shape[1] // group) if group else 1
        if not scale.shape == zp.shape == (len(numbers), groups):
            raise self.damaged(name)
        return Integers.of(numbers, scale, zp, bits, group)

    def sorted_inputs(self, name: str, ending: str, group: int, depth: int) -> Array | None:
        """Return the inputs in the order of their groups, which a tensor may state; None if they have it.

        Raises Unsupported for groups of other sizes than the stated one.
        """
        if not self.checkpoint.has(f"{name}.{ending}"):
            return None
        groups, wanted = self.part(name, ending, 1, "i"), np.arange(depth) // (group or depth)
        order = np.argsort(groups, kind="stable")
        if not np.array_equal(groups[order], wanted):
            raise Unsupported(
                f"{self.checkpoint.folder}: the groups of '{name}' have not {group or depth} inputs each. Quantize the "
                "model without desc_act."
            )
        return None if np.array_equal(groups, wanted) else order

    def damaged(self, name: str) -> InvalidModel:
        """The error for tensors that do not fit each other."""
        return InvalidModel(
            f"{self.checkpoint.folder}: the tensors of '{name}' do not fit each other or how the model says that it is "
            "quantized. Download the model again."
        )


def group_size(reader: Reader, key: str) -> int:
    """Return the numbers of a row that share a scale, 0 if all do."""
    size: Any = reader.values.get(key)
    if size is None or size == -1:
        return 0
    if type(size) is not int or not fits_group(size):
        raise reader.refuse(
            f"{key} is {str(size)[:80]}, and multiples of {LEAST_GROUP} are read, and -1. Take another quantization."
        )
    return size


class Gptq(Scheme):
    """Integers are packed along inputs, zero points along outputs: one less than they are, or as they are (`gptq_v2`).
    With `desc_act`, inputs belong to groups in another order.
    """

    method = "gptq"
    numbers = "qweight"

    def check(self, reader: Reader) -> None:
        reader.extent("bits")
        reader.require("bits", [4, 8])
        reader.require("checkpoint_format", ["gptq", "gptq_v2"])
        reader.require("pack_dtype", ["int32"])
        reader.require("is_marlin_format", [False])
        group_size(reader, "group_size")
        found: Any = reader.values.get("dynamic") or {}
        own: list[Any] = [*found] if isinstance(found, dict) else [found]
        if not all(str(pattern).startswith("-:") for pattern in own):
            raise reader.refuse("dynamic gives matrices settings of their own. Take a model with one setting.")

    def depth(self, name: str) -> int:
        return len(self.part(name, "qweight", kind="i")) * WORD // self._bits

    def integers(self, name: str) -> Integers:
        bits, group = self._bits, group_size(Reader(self.checkpoint, self.said), "group_size")
        numbers = self.words(name, "qweight", bits, 0).T
        zp = self.words(name, "qzeros", bits, 1).T
        if self.said.get("checkpoint_format", "gptq") == "gptq":
            zp = zp + 1 & (1 << bits) - 1
        scale = self.part(name, "scales").T
        order = self.sorted_inputs(name, "g_idx", group, numbers.shape[1])
        if order is not None:
            numbers = numbers[:, order]
        return replace(self.built(name, numbers, scale, zp, bits, group), order=order)

    @property
    def _bits(self) -> int:
        return int(self.said["bits"])


class Awq(Scheme):
    """Integers of 4 bits and zero points are packed along outputs, eight neighbors in an order of their own."""

    method = "awq"
    numbers = "qweight"

    def check(self, reader: Reader) -> None:
        for key in ("bits", "w_bit"):
            reader.require(key, [4])
        reader.require("version", ["gemm", "GEMM"])
        reader.require("zero_point", [True])
        group_size(reader, self._group_key)

    @property
    def _group_key(self) -> str:
        return "q_group_size" if "q_group_size" in self.said else "group_size"

    def depth(self, name: str) -> int:
        return len(self.part(name, "qweight", kind="i"))

    def integers(self, name: str) -> Integers:
        numbers, zp = (self._neighbors(self.words(name, ending, 4, 1)) for ending in ("qweight", "qzeros"))
        group = group_size(Reader(self.checkpoint, self.said), self._group_key)
        return self.built(name, numbers.T, self.part(name, "scales").T, zp.T, 4, group)

    @staticmethod
    def _neighbors(rows: Array) -> Array:
        return rows.reshape(len(rows), -1, len(AWQ_ORDER))[..., AWQ_ORDER].reshape(rows.shape)


class CompressedTensors(Scheme):
    """Signed integers plus half of their range are packed along inputs, their zero points along outputs, or both are
    bytes with signs. The sizes of tensors decide which of the `config_groups` they belong to.
    """

    method = "compressed-tensors"
    numbers = "weight_scale"

    def check(self, reader: Reader) -> None:
        reader.require("format", ["pack-quantized", "int-quantized", "naive-quantized"])
        for key in ("kv_cache_scheme", "sparsity_config", "transform_config"):
            reader.require(key, [None, {}])
        for entry in self._groups(reader):
            reader = Reader(self.checkpoint, entry)
            reader.require("input_activations", [None])
            reader.require("output_activations", [None])
            weights = Reader(self.checkpoint, self._weights(reader))
            weights.require("num_bits", [4, 8])
            weights.require("type", ["int"])
            weights.require("strategy", ["group", "channel", "tensor"])
            group_size(weights, "group_size")

    def depth(self, name: str) -> int:
        return self._shape(name)[1]

    def integers(self, name: str) -> Integers:
        (outputs, depth), scale = self._shape(name), self.checkpoint.tensor(f"{name}.weight_scale")
        numbers, bits = self._stored(name, depth)
        if len(numbers) != outputs or scale.dtype.kind != "f":
            raise self.damaged(name)
        if scale.size == 1:
            scale = np.repeat(scale.reshape(1, 1), outputs, 0)
        group = self._group(name, bits, depth, scale)
        zp = self._zero_points(name, bits, scale)
        order = self.sorted_inputs(name, "weight_g_idx", group, depth)
        if order is not None:
            numbers = numbers[:, order]
        return replace(self.built(name, numbers, scale, zp, bits, group), order=order)

    def _shape(self, name: str) -> tuple[int, int]:
        if not self._is_packed(name):
            outputs, inputs = self.part(name, "weight", kind="i").shape
            return outputs, inputs
        said = self.part(name, "weight_shape", 1, "i")
        if len(said) != 2 or not (said > 0).all():
            raise self.damaged(name)
        return int(said[0]), int(said[1])

    def _is_packed(self, name: str) -> bool:
        return self.checkpoint.has(f"{name}.weight_packed")

    def _stored(self, name: str, depth: int) -> tuple[Array, int]:
        """Return integers from 0 on, and their bits."""
        if not self._is_packed(name):
            found = self.part(name, "weight", kind="i")
            if found.dtype != np.int8:
                raise self.damaged(name)
            return (found.astype(np.int16) + 128).astype(np.uint8), 8
        words = self.part(name, "weight_packed", kind="i").shape[1]
        bits = next((bits for bits in (4, 8) if -(-depth * bits // WORD) == words), None)
        if bits is None:
            raise self.damaged(name)
        return self.words(name, "weight_packed", bits, 1)[:, :depth], bits

    def _group(self, name: str, bits: int, depth: int, scale: Array) -> int:
        """Return the group size that a setting with these bits states and the scales have."""
        if scale.ndim != 2:
            raise self.damaged(name)
        if scale.shape[1] == 1:
            return 0
        stated = [Reader(self.checkpoint, self._weights(one)) for one in self._readers()]
        sizes = {group_size(one, "group_size") for one in stated if one.values.get("num_bits") == bits}
        fitting = [size for size in sizes if size and -(-depth // size) == scale.shape[1]]
        if len(fitting) != 1:
            raise self.damaged(name)
        return fitting[0]

    def _zero_points(self, name: str, bits: int, scale: Array) -> Array:
        half = 1 << bits - 1
        if not self.checkpoint.has(f"{name}.weight_zero_point"):
            return np.full(scale.shape, half, np.uint8)
        found = self.checkpoint.tensor(f"{name}.weight_zero_point")
        if found.dtype == np.int32:
            return self.words(name, "weight_zero_point", bits, 0)[: len(scale)]
        if found.dtype != np.int8 or (found.size != 1 and found.shape != scale.shape):
            raise self.damaged(name)
        signed = np.broadcast_to(found.reshape(-1, 1) if found.size == 1 else found, scale.shape)
        return (signed.astype(np.int16) + half).astype(np.uint8)

    def _readers(self) -> list[Reader]:
        return [Reader(self.checkpoint, one) for one in self._groups(Reader(self.checkpoint, self.said))]

    @staticmethod
    def _groups(reader: Reader) -> list[dict[str, Any]]:
        listed: Any = reader.values.get("config_groups")
        groups: list[Any] = [*listed.values()] if isinstance(listed, dict) else []
        if not groups or not all(isinstance(one, dict) for one in groups):
            raise reader.refuse("config_groups has to be an object of objects. Check the file.")
        return groups

    @staticmethod
    def _weights(reader: Reader) -> dict[str, Any]:
        weights: Any = reader.values.get("weights")
        if not isinstance(weights, dict):
            raise reader.refuse("a group of config_groups says nothing of weights. Check the file.")
        return {**weights}


SCHEMES: Mapping[str, type[Scheme]] = {one.method: one for one in (Gptq, Awq, CompressedTensors)}
