"""A language model in a folder, as one network or as the networks of a compiled file."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from tpuc.api import ImportOptions, Module, NetworkPart, Unsupported, UsageError, WeightChoice
from tpuc_ops.arrays import Array

from tpuc_llm import sensitivity
from tpuc_llm.arithmetic import Arithmetic, capped, product
from tpuc_llm.calibrating import TOKENS, WINDOW, BlockCalibration, windows
from tpuc_llm.checkpoint import Checkpoint
from tpuc_llm.decoder import MASKED, Block, block_network, embedding_network, head_network
from tpuc_llm.family import BlockWeights, Factors, Family, Linear, Shape
from tpuc_llm.frontend import SUFFIX
from tpuc_llm.gguf import GgufCheckpoint
from tpuc_llm.graphs import Graph
from tpuc_llm.perplexity import Logits
from tpuc_llm.quantization import DEFAULT_HEAD_BITS, NARROW, PROJECTIONS, WIDE, Quantizer
from tpuc_llm.quantized_folder import QuantizedFolder, is_quantized
from tpuc_llm.sampling import greedy_network, sample_network
from tpuc_llm.sensitivity import Place
from tpuc_llm.text import Tokenizer, read_text

GROUP = "tpuc.llm_families"
SEQUENCE = "seq"
LONGEST = 1 << 15
"""Tokens; the scores of a longer prompt fit into the memory of no chip."""
MODE = "mode"
"""Stored as the mode's own floats."""


@dataclass(frozen=True)
class LanguageModel:
    """A checkpoint, its family, and the sequence length to compile for."""

    checkpoint: Checkpoint
    family: Family
    shape: Shape
    length: int
    name: str
    weights: WeightChoice | None = None
    sequences: int = 1
    """Sequences whose next tokens are computed together."""

    @staticmethod
    def open(folder: Path, options: ImportOptions, registry: Any) -> LanguageModel:
        """Read the configuration. Raises InvalidModel, Unsupported or UsageError with a sentence."""
        whole = LanguageModel.described(folder, registry)
        shape = whole.shape
        unknown = sorted(set(options.dims) - {SEQUENCE})
        if unknown:
            raise UsageError(f"{folder}: --dim {unknown[0]} is no dimension of a language model; give --dim seq=N.")
        length = options.dims.get(SEQUENCE, shape.context)
        if length < 2 or length > shape.context:
            raise UsageError(f"{folder}: --dim seq={length}: the model takes 2 to {shape.context} tokens.")
        if length > LONGEST:
            raise UsageError(
                f"{folder}: a prompt of {length:,} tokens needs a mask of {length:,} x {length:,}; give --dim seq=N "
                f"for at most {LONGEST:,} tokens."
            )
        name, sequences = options.model_name or whole.name, options.batch or 1
        return dataclasses.replace(whole, length=length, name=name, weights=options.weights, sequences=sequences)

    @staticmethod
    def described(folder: Path, registry: Any) -> LanguageModel:
        """Read the configuration of a folder or a file; `length` is the model's own context, of any length."""
        checkpoint = GgufCheckpoint(folder) if folder.suffix == SUFFIX else Checkpoint(folder)
        kind = checkpoint.config["model_type"]
        if not registry.has(GROUP, kind):
            known = ", ".join(sorted(name for name in registry.names(GROUP)))
            raise Unsupported(
                f"{checkpoint.said_in}: models of type '{kind}' are not known; there are {known}. Export an encoder to "
                "ONNX; a family of decoders is one file: see docs/llm.md."
            )
        family: Family = registry.get(GROUP, kind)()
        if is_quantized(checkpoint):
            if not family.reads_integers:
                raise Unsupported(
                    f"{checkpoint.said_in}: the weights are quantized, and models of type '{kind}' are read from "
                    "floats only. Take the model before quantization."
                )
            checkpoint = QuantizedFolder.checked(folder)
        shape = family.shape(checkpoint)
        return LanguageModel(checkpoint, family, shape, shape.context, folder.name.removesuffix(SUFFIX))

    @property
    def source(self) -> str:
        """The folder, for sentences."""
        return str(self.checkpoint.folder)

    def blocks(self) -> Iterator[BlockWeights]:
        """Yield the weights of all blocks in order, quantized where that was asked for; `head` comes after them."""
        for index, weights in enumerate(self._plain_blocks()):
            wide = {name for block, name in self.wide if block == index}
            if self.calibration is not None:
                yield self.calibration.quantized(weights, wide)
            elif self.weights is not None:
                quantizer = Quantizer.of(self.weights)
                given: dict[str, Linear | None] = {name: getattr(weights, name) for name in PROJECTIONS}
                found = {
                    name: quantizer.of_projection(name, self.shape).linear(linear)
                    for name, linear in given.items()
                    if linear is not None
                }
                yield dataclasses.replace(weights, **found)
            else:
                yield weights

    def _plain_blocks(self) -> Iterator[BlockWeights]:
        """Yield the weights of all blocks as they are stored."""
        for index in range(self.shape.layers):
            yield self.family.block(self.checkpoint, index)

    @cached_property
    def wide(self) -> frozenset[Place]:
        """The matrices that get 8 bits so that all have the bits asked for on average."""
        if self.weights is None or self.weights.bits in (NARROW, WIDE):
            return frozenset()
        arithmetic, states = self._text_states(sensitivity.TOKENS)
        found = sensitivity.losses(arithmetic, Quantizer.of(self.weights), self._plain_blocks(), states)
        return sensitivity.wide_places(found, self.weights.bits)

    @cached_property
    def calibration(self) -> BlockCalibration | None:
        """What blocks are quantized with where a text was given; it goes on with `blocks`."""
        if self.weights is None or self.weights.text is None:
            return None
        arithmetic, states = self._text_states(TOKENS)
        return BlockCalibration(arithmetic, Quantizer.of(self.weights), states, states.copy())

    def _text_states(self, tokens: int) -> tuple[Arithmetic, Array]:
        """Return the states in front of the first block for so many tokens of the text: [windows, tokens, hidden]."""
        assert self.weights is not None
        if self.weights.text is None:
            raise UsageError(
                f"{self.source}: w{self.weights.bits} gives 8 bits to the matrices that need them, which a text shows; "
                "add --dataset FILE, or choose w4 or w8."
            )
        words = Tokenizer.open(self.checkpoint.home)
        length = min(WINDOW, self.length)
        cut = windows(words.encode(read_text(self.weights.text)), length, words.begin)[: max(tokens // length, 1)]
        if not cut:
            raise UsageError(f"{self.weights.text}: the text has less than {length} tokens; give a longer one.")
        return Arithmetic(self.shape, length), self.family.embedding(self.checkpoint)[np.array(cut)]

    def head(self) -> tuple[Factors, Linear]:
        """Return the last norm and the head."""
        norm, head = self.family.head(self.checkpoint)
        bits = 16 if self.weights is None else self.weights.head_bits or DEFAULT_HEAD_BITS
        if head.integers is not None or self.weights is None or bits == 16:
            return norm, head
        quantizer = Quantizer(self.weights, bits)
        if self.calibration is not None:
            return norm, self.calibration.head(head, norm, quantizer)
        return norm, quantizer.linear(head)

    def logits(self, length: int) -> Logits:
        """Return the logits of windows of `length` tokens, in plain numpy."""
        table, arithmetic = self.family.embedding(self.checkpoint), Arithmetic(self.shape, length)
        blocks = list(self.blocks())
        norm, head = self.head()

        def logits(window: Sequence[int]) -> Array:
            states = table[np.asarray(window)[None]]
            for weights in blocks:
                states = arithmetic.block(weights, states)
            return capped(product(arithmetic.norm(states, norm), head)[0], self.shape.logit_cap)

        return logits

    def parts(self) -> Iterator[NetworkPart]:
        """Yield the networks of a file, with the vendor's names; their weights are read one after another.

        Networks of one `group` share constants. States, keys, values and masks are stored as the mode's floats.
        """
        yield from self._embedding_parts()
        norm = self.family.head(self.checkpoint)[0]
        for index, weights in enumerate(self.blocks()):
            last = norm if index == self.shape.layers - 1 else None
            for decode, sequences in ((False, 1), (True, self.sequences)):
                name = f"block_cache_{index}" if decode else f"block_{index}"
                module = block_network(
                    self.source,
                    name,
                    self.shape,
                    weights,
                    self.length,
                    decode=decode,
                    sequences=sequences,
                    last_norm=last,
                )
                given = (MODE, "i32", *(MODE,) * (3 if decode else 1))
                yield NetworkPart(module, given, (MODE,) * 3, f"block {index}")
        head = self.head()[1]
        yield NetworkPart(head_network(self.source, self.shape, head, self.sequences), (MODE,), ("f32",), "head")
        yield from self._sampling_parts(len(head.weight))

    def _sampling_parts(self, vocabulary: int) -> Iterator[NetworkPart]:
        """Yield what chooses tokens from logits, which stay f32."""
        greedy = greedy_network(self.source, (self.sequences, vocabulary))
        yield NetworkPart(greedy, ("f32",), ("i32",), "sampling", in_f32=True)
        sample = sample_network(self.source, (self.sequences, vocabulary), self.length)
        given = ("f32", "i32", "f32", "f32", "i32", "f32")
        yield NetworkPart(sample, given, ("f32", "i32"), "sampling", in_f32=True)

    def _embedding_parts(self) -> Iterator[NetworkPart]:
        table = self.family.embedding(self.checkpoint)
        for name, ids in (("embedding", (1, self.length)), ("embedding_cache", (self.sequences, 1))):
            module = embedding_network(self.source, name, table, ids)
            yield NetworkPart(module, ("i32",), (MODE,), "embedding")

    def whole(self) -> Module:
        """Return one network from token ids [1, S] to logits [1, S, vocabulary]; later tokens are not seen."""
        length, shape = self.length, self.shape
        if self.sequences != 1:
            raise Unsupported(
                f"{self.source}: --batch {self.sequences}: as one network, a language model takes one sequence. Leave "
                "out the batch, or compile the model with a single one."
            )
        graph = Graph(self.source, self.name, {"input_ids": (1, length)}, ("logits",))
        states = graph.rows(self.family.embedding(self.checkpoint), graph.inputs["input_ids"], "embedding")
        positions = graph.weight("position_ids", np.arange(length, dtype=np.float32).reshape(1, length))
        mask = graph.weight("attention_mask", causal_mask(length))
        for index, weights in enumerate(self.blocks()):
            block = Block(graph, shape, weights, length, f"block_{index}_")
            states = block.attend(states, positions, mask, length).states
        norm, head = self.head()
        states = graph.norm(states, norm, shape.norm_eps, "last_norm")
        return graph.module({"logits": graph.capped(graph.linear(states, head, "head"), shape.logit_cap, "logits")})


def causal_mask(length: int) -> np.ndarray[Any, Any]:
    """Return 0 where token q may see key k, else `MASKED`: [1, 1, length, length]."""
    allowed = np.tri(length, dtype=bool)
    return np.where(allowed, np.float32(0), np.float32(MASKED))[None, None]
