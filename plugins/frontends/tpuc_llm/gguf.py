"""Read GGUF files: their settings under the names of `config.json`, their tensors under those of Hugging Face.

The format is public: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from tpuc.api import InvalidModel, Unsupported
from tpuc_ops.arrays import Array

from tpuc_llm.checkpoint import Checkpoint
from tpuc_llm.gguf_blocks import BLOCKS, integers_of, real_of
from tpuc_llm.integers import Integers

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
VERSIONS = (2, 3)
MOST_DIMS = 4
SETTINGS = {
    "num_hidden_layers": "block_count",
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "max_position_embeddings": "context_length",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    "rope_theta": "rope.freq_base",
    "vocab_size": "vocab_size",
}
"""Keys of a file, behind the name of its architecture, by those of `config.json`."""
PARTS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
WHOLE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
FACTORS = "rope_freqs.weight"
"""Divisors of the rotary frequencies, as Llama 3.1 scales them."""
ARCHITECTURES = ("llama", "qwen2", "qwen3")
"""Others store tensors that families expect in other forms."""
PAIRED = ("llama",)
"""Architectures whose rotary pairs are neighbors in queries and keys; elsewhere they are half a head apart."""


@dataclass(frozen=True)
class GgufTensor:
    """Where a tensor lies: `shape` has the fastest dimension last."""

    kind: int
    shape: tuple[int, ...]
    start: int

    @property
    def size(self) -> int:
        """Bytes."""
        block = BLOCKS[self.kind]
        return math.prod(self.shape) // block.numbers * block.size


class GgufCheckpoint(Checkpoint):
    """One file; `folder` is its path."""

    @property
    def said_in(self) -> Path:
        return self.folder

    @property
    def home(self) -> Path:
        return self.folder.parent

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """The settings. Raises InvalidModel for damaged files."""
        said, name = self._header.settings, self._architecture
        if name not in ARCHITECTURES:
            raise Unsupported(
                f"{self.folder}: GGUF files of architecture '{name[:80]}' are not read, {', '.join(ARCHITECTURES)} "
                "are. Give the model's Hugging Face folder."
            )
        found = {key: said[f"{name}.{place}"] for key, place in SETTINGS.items() if f"{name}.{place}" in said}
        table = self._header.tensors.get("token_embd.weight")
        if table is not None:
            found.setdefault("vocab_size", table.shape[0])
        scaling = said.get(f"{name}.rope.scaling.type", "none")
        if scaling != "none":
            found["rope_scaling"] = {"rope_type": scaling}
        elif FACTORS in self._header.tensors:
            found["rope_scaling"] = {"rope_type": "factors", "factors": self._real(FACTORS).tolist()}
        return {**found, "model_type": name, "tie_word_embeddings": "output.weight" not in self._header.tensors}

    def has(self, name: str) -> bool:
        return self._place(name) in self._header.tensors

    def tensor(self, name: str, shape: tuple[int, ...] | None = None) -> Array:
        return self._turned(name, self._real(self._checked(name, shape)))

    def integers(self, name: str) -> Integers | None:
        """Return a matrix of blocks of 32 with one scale, which is kept as it is stored."""
        tensor = self._header.tensors.get(self._place(name))
        if tensor is None or len(tensor.shape) != 2:
            return None
        found = integers_of(tensor.kind, self._raw(tensor), tensor.shape)
        if found is None:
            return None
        bits, *arrays = found
        weight, scale, zp = (self._turned(name, array) for array in arrays)
        return Integers(weight, scale, zp, bits, 32)

    # -- the file

    @cached_property
    def _header(self) -> Header:
        return Header.read(self.folder)

    @property
    def _architecture(self) -> str:
        return str(self._header.settings.get("general.architecture", ""))

    def _place(self, name: str) -> str:
        """Return a tensor's name in the file."""
        start, _, kind = name.rpartition(".")
        if start in WHOLE:
            return f"{WHOLE[start]}.{kind}"
        _, _, index, part = (*start.split(".", 3), "", "", "")[:4]
        return f"blk.{index}.{PARTS.get(part, part)}.{kind}"

    def _checked(self, name: str, shape: tuple[int, ...] | None) -> str:
        place = self._place(name)
        found = self._header.tensors.get(place)
        if found is None:
            raise InvalidModel(f"{self.folder}: there is no tensor '{place}' in it. Download the model again.")
        if shape is not None and found.shape != shape:
            raise InvalidModel(
                f"{self.folder}: tensor '{place}' is {list(found.shape)}, and the settings ask for {list(shape)}. "
                "Download the model again."
            )
        return place

    def _raw(self, tensor: GgufTensor) -> Array:
        return np.memmap(self.folder, np.uint8, "r", tensor.start, (tensor.size,))

    def _real(self, place: str) -> Array:
        tensor = self._header.tensors[place]
        return real_of(tensor.kind, self._raw(tensor)).reshape(tensor.shape)

    def _turned(self, name: str, rows: Array) -> Array:
        """Return rows of queries or keys with rotary pairs half a head apart; other tensors as they are."""
        projection = name.rpartition(".")[0].rpartition(".")[2]
        if self._architecture not in PAIRED or projection not in ("q_proj", "k_proj"):
            return rows
        heads = self.config["num_attention_heads"]
        if projection == "k_proj":
            heads = self.config.get("num_key_value_heads", heads)
        pairs = rows.reshape(heads, -1, 2, *rows.shape[1:])
        return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(rows.shape))


@dataclass(frozen=True)
class Header:
    """Settings and tensors of a file."""

    settings: Mapping[str, Any]
    tensors: Mapping[str, GgufTensor]

    @staticmethod
    def read(path: Path) -> Header:
        """Raises InvalidModel for damaged files, Unsupported for types of tensors that are not read."""
        size = path.stat().st_size
        with path.open("rb") as file:
            reader = _Fields(path, size, file.read)
            if reader.bytes(4) != b"GGUF" or reader.number("I") not in VERSIONS:
                raise InvalidModel(f"{path}: this is no GGUF file of version 2 or 3. Convert the model again.")
            tensors, settings = reader.count(), reader.count()
            said = {reader.string(): reader.value(reader.number("I")) for _ in range(settings)}
            places = [_tensor(reader) for _ in range(tensors)]
            alignment = said.get("general.alignment", 32)
            if type(alignment) is not int or not 0 < alignment <= 1 << 20:
                raise reader.damaged
            data = -(-reader.place // alignment) * alignment
        found = {name: GgufTensor(kind, shape, data + start) for name, kind, shape, start in places}
        ends = sorted((one.start, one.start + one.size) for one in found.values())
        if any(end > size for _, end in ends) or any(after < end for (_, end), (after, _) in pairwise(ends)):
            raise reader.damaged
        return Header(said, found)


def _tensor(reader: _Fields) -> tuple[str, int, tuple[int, ...], int]:
    name, rank = reader.string(), reader.number("I")
    if not 0 < rank <= MOST_DIMS:
        raise reader.damaged
    shape = tuple(reader.number("Q") for _ in range(rank))[::-1]
    kind, start = reader.number("I"), reader.number("Q")
    if kind not in BLOCKS:
        known = ", ".join(block.name for block in BLOCKS.values())
        raise Unsupported(
            f"{reader.path}: tensor '{name[:80]}' has type {kind}, and only {known} are read. Convert the model to "
            "Q8_0."
        )
    if not all(0 < extent < 1 << 40 for extent in shape) or shape[-1] % BLOCKS[kind].numbers:
        raise reader.damaged
    return name, kind, shape, start


class _Fields:
    """Numbers and strings of a header, one after another."""

    def __init__(self, path: Path, size: int, read: Callable[[int], bytes]) -> None:
        self.path, self.place, self._size, self._read = path, 0, size, read

    @property
    def damaged(self) -> InvalidModel:
        """The error for a header that does not fit the file."""
        return InvalidModel(f"{self.path}: the file is damaged or truncated. Download it again.")

    def bytes(self, count: int) -> bytes:
        if count > self._size - self.place:
            raise self.damaged
        self.place += count
        return self._read(count)

    def number(self, form: str) -> Any:
        return struct.unpack(f"<{form}", self.bytes(struct.calcsize(f"<{form}")))[0]

    def count(self) -> int:
        """A number of things with a byte or more each."""
        found: int = self.number("Q")
        if found > self._size - self.place:
            raise self.damaged
        return found

    def string(self) -> str:
        return self.bytes(self.count()).decode("utf-8", "replace")

    def value(self, kind: int, depth: int = 0) -> Any:
        if kind in SCALARS:
            return self.number(SCALARS[kind])
        if kind == STRING:
            return self.string()
        if kind != ARRAY or depth > 1:
            raise self.damaged
        inner = self.number("I")
        return [self.value(inner, depth + 1) for _ in range(self.count())]
