"""Run the networks of a compiled language model on the simulator, token by token."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tpuc.api import LoadedModel, UsageError, numpy_dtype
from tpuc_ops.arrays import Array

from tpuc_llm.choosing import Sampling, drawn
from tpuc_llm.model import LONGEST, MASKED
from tpuc_llm.sampling import GREEDY, SAMPLE

if TYPE_CHECKING:
    from tpuc_driver.api.host import Session

Load = Callable[[str], LoadedModel]
Run = Callable[[LoadedModel, dict[str, Array]], dict[str, Array]]
SMALL = 1 << 26
"""Bytes of a file whose networks all stay loaded; a loaded network takes several times its bytes."""
FEW = 2
"""Networks of larger files that stay loaded."""


@dataclass
class CompiledDecoder:
    """The networks of one file, found by name; keys and values of every layer between tokens, for each of the
    sequences whose next tokens are computed together.

    `load` opens a network by name, `run` simulates it. `names` are all networks of the file.
    """

    names: Sequence[str]
    load: Load
    run: Run
    kept: int | None = None
    """Networks that stay loaded; None: all of them."""
    positions: dict[int, int] = field(default_factory=dict[int, int])
    """Tokens whose keys and values are known, by sequence."""
    _sizes: tuple[int, int] = (0, 0)
    """Tokens of a prompt and numbers of a state, as the first network says."""
    _sequences: int = 0
    _loaded: dict[str, LoadedModel] = field(default_factory=dict[str, LoadedModel])
    _history: list[tuple[Array, Array]] = field(default_factory=list[tuple[Array, Array]])

    def __post_init__(self) -> None:
        blocks = [f"{kind}_{index}" for index in range(max(self.layers, 1)) for kind in ("block", "block_cache")]
        missing = [name for name in ("embedding", "embedding_cache", *blocks, "lm_head") if name not in self.names]
        if missing:
            raise UsageError(
                f"the file has no network '{missing[0]}', so it is no language model; compile a model's folder."
            )

    @property
    def layers(self) -> int:
        """Blocks."""
        return sum(name.startswith("block_cache_") for name in self.names)

    @property
    def length(self) -> int:
        """Tokens of the longest prompt, and of prompt and answer together."""
        return math.prod(self._network("embedding").inputs[0].shape)

    @property
    def vocabulary(self) -> int:
        """Tokens that the model knows."""
        return math.prod(self._network("lm_head").outputs[0].shape) // self.sequences

    @property
    def sequences(self) -> int:
        """Sequences whose next tokens are computed together."""
        if not self._sequences:
            self._sequences = math.prod(self._network("embedding_cache").inputs[0].shape)
        return self._sequences

    def prefill(self, ids: Sequence[int], sequence: int = 0) -> Array:
        """Take the prompt of a sequence; return the logits behind its last token: [vocabulary].

        Raises UsageError for a prompt that is empty or longer than the file takes.
        """
        return self._head(self._prompt(ids, sequence)[-1:])[0]

    def logits(self, ids: Sequence[int]) -> Array:
        """Take a prompt; return the logits behind each of its tokens: [tokens, vocabulary]."""
        return self._head(self._prompt(ids, 0))

    def check_prompt(self, ids: Sequence[int]) -> None:
        """Raise UsageError for a prompt that is empty, longer than the file takes, or has tokens it does not know."""
        if not 0 < len(ids) <= self.length:
            raise UsageError(
                f"the prompt has {len(ids)} tokens, the file takes 1 to {self.length}; compile it with --dim seq=N for "
                "more."
            )
        self._check_tokens(ids)

    def _prompt(self, ids: Sequence[int], sequence: int) -> Array:
        """Take a prompt; return the states in front of the head: [tokens, hidden]."""
        self.check_prompt(ids)
        length, count = self.length, len(ids)
        tokens = np.zeros((1, length), np.int32)
        tokens[0, :count] = ids
        (states,) = self._run("embedding", tokens)
        allowed = np.tri(length, dtype=bool)
        mask = np.where(allowed, 0.0, MASKED)[None, None]
        positions = np.arange(length, dtype=np.int32)[None]
        for layer in range(self.layers):
            states, *found = self._run(f"block_{layer}", states, positions, mask)
            rows = [array.reshape(length, -1) for array in found]
            if layer == len(self._history):
                keys, values = (np.zeros((self.sequences, *array.shape), array.dtype) for array in rows)
                self._history.append((keys, values))
            for kept, array in zip(self._history[layer], rows, strict=True):
                kept[sequence, :count], kept[sequence, count:] = array[:count], 0
        self.positions[sequence] = count
        return states.reshape(length, -1)[:count]

    def step(self, tokens: Mapping[int, int]) -> Mapping[int, Array]:
        """Take one more token of some sequences; return the logits behind each: [vocabulary].

        Raises UsageError when the file is full.
        """
        length, places = self.length, {one: self.positions[one] for one in tokens}
        if max(places.values()) >= length:
            raise UsageError(
                f"the file holds {length} tokens of prompt and answer; compile it with --dim seq=N for more."
            )
        self._check_tokens([*tokens.values()])
        ids, positions = (np.zeros((self.sequences, 1), np.int32) for _ in range(2))
        for sequence, token in tokens.items():
            ids[sequence], positions[sequence] = token, places[sequence]
        (states,) = self._run("embedding_cache", ids)
        mask = np.where(np.arange(length + 1) < positions, 0.0, MASKED)[:, None, None]
        mask[..., length] = 0.0
        for layer, history in enumerate(self._history):
            states, *found = self._run(f"block_cache_{layer}", states, positions, mask, *history)
            for kept, array in zip(history, found, strict=True):
                rows = array.reshape(self.sequences, -1)
                for sequence, place in places.items():
                    kept[sequence, place] = rows[sequence]
        self.positions |= {sequence: place + 1 for sequence, place in places.items()}
        logits = self._head(states.reshape(self.sequences, -1))
        return {sequence: logits[sequence] for sequence in tokens}

    def choose(
        self,
        logits: Mapping[int, Array],
        written: Mapping[int, Sequence[int]],
        sampling: Sampling,
        random: np.random.Generator,
    ) -> Mapping[int, int]:
        """Return the next token of some sequences, whose tokens so far are `written`.

        The file's own networks choose, where it has them and they can: `sample_head` draws from few tokens.
        """
        if sampling.is_greedy and GREEDY in self.names:
            (tokens,) = self._run(GREEDY, self._by_sequence(logits, np.float32))
            return {one: int(tokens.reshape(-1)[one]) for one in logits}
        if SAMPLE not in self.names or not sampling.fits_file:
            return {one: sampling.choose(row, random, written[one]) for one, row in logits.items()}
        window = self._network(SAMPLE).inputs[1].shape[-1]
        ids = {one: np.resize(written[one][-window:], window) for one in logits}
        rows = self._by_sequence(logits, np.float32), self._by_sequence(ids, np.int32)
        shares, tokens = (
            array.reshape(self.sequences, -1) for array in self._run(SAMPLE, *rows, *sampling.numbers(self.sequences))
        )
        return {one: drawn(shares[one], tokens[one], random) for one in logits}

    def _by_sequence(self, rows: Mapping[int, Array], dtype: Any) -> Array:
        """Return [sequences, n], zeros where a sequence is not asked for."""
        filled = np.zeros((self.sequences, len(next(iter(rows.values())))), dtype)
        for one, row in rows.items():
            filled[one] = row
        return filled

    def cycles(self, profiles: Sequence[str]) -> tuple[int, int] | None:
        """Return predicted cycles until the first token, and of each next one; None without a timing model."""
        if not profiles:
            return None

        def total(names: Iterable[str]) -> int:
            return sum(self._network(name).timeline(profiles[0]).cycles for name in names)

        layers = range(self.layers)
        first = total(["embedding", *(f"block_{layer}" for layer in layers), "lm_head"])
        return first, total(["embedding_cache", *(f"block_cache_{layer}" for layer in layers), "lm_head"])

    def _head(self, states: Array) -> Array:
        """Return the logits behind states [any, hidden]: [any, vocabulary]."""
        count, together = len(states), self.sequences
        filled = np.zeros((-(-count // together) * together, states.shape[-1]), states.dtype)
        filled[:count] = states
        parts = [self._run("lm_head", filled[at : at + together])[0] for at in range(0, count, together)]
        return np.concatenate([part.reshape(together, -1) for part in parts])[:count].astype(np.float32)

    def _network(self, name: str) -> LoadedModel:
        if name not in self._loaded:
            if self.kept is not None and len(self._loaded) >= self.kept:
                del self._loaded[next(iter(self._loaded))]
            loaded = self.load(name)
            self._check_sizes(name, loaded)
            self._loaded[name] = loaded
        return self._loaded[name]

    def _check_tokens(self, ids: Sequence[int]) -> None:
        if max(ids) >= self.vocabulary:
            raise UsageError(
                f"the tokenizer has a token {max(ids)}, the file {self.vocabulary} of them; take the tokenizer of this "
                "model."
            )

    def _check_sizes(self, name: str, loaded: LoadedModel) -> None:
        """Refuse a network whose inputs and outputs are not those of its name: the file may be anything."""
        taken, given = ([math.prod(info.shape) for info in infos] for infos in (loaded.inputs, loaded.outputs))
        if name == "embedding" and len(taken) == len(given) == 1 and 1 < taken[0] <= LONGEST:
            self._sizes = taken[0], given[0] // taken[0]
        length, hidden = self._sizes if self._sizes[0] or name == "embedding" else self._embedded()
        sequences = (
            self.sequences if name.startswith(("block_cache", "lm_head", GREEDY, SAMPLE)) else taken[0] if taken else 0
        )
        kept = given[-1] if given else 0
        wanted = {
            "embedding": ([length], [length * hidden]),
            "embedding_cache": ([sequences], [sequences * hidden]),
            "lm_head": ([sequences * hidden], [kept]),
            GREEDY: (taken[:1], [sequences]),
            SAMPLE: ([*taken[:2], *[sequences] * 4], [kept, kept]),
            "block": ([length * hidden, length, length * length], [length * hidden, kept, kept]),
            "block_cache": (
                [sequences * hidden, sequences, sequences * (length + 1), *[length * kept] * 2],
                [sequences * hidden, kept, kept],
            ),
        }[name.rstrip("0123456789").rstrip("_")]
        if not hidden or not kept or (taken, given) != wanted:
            raise UsageError(
                f"network '{name}' does not take or give what a language model's does; compile a model's folder."
            )

    def _embedded(self) -> tuple[int, int]:
        self._network("embedding")
        return self._sizes

    def _run(self, name: str, *arrays: Array) -> list[Array]:
        loaded = self._network(name)
        given = {
            info.name: np.ascontiguousarray(array, numpy_dtype(info.element)).reshape(info.shape)
            for info, array in zip(loaded.inputs, arrays, strict=True)
        }
        found = self.run(loaded, given)
        return [found[info.name] for info in loaded.outputs]


def opened_decoder(session: Session, path: Path) -> CompiledDecoder:
    """Return the networks of a compiled file, which are simulated. Raises UsageError if they are no language model."""
    opened = session.opened(path)
    files = dict(opened.chip.extract(opened.data)) if len(opened.entries) > 1 else {}
    return CompiledDecoder(
        list(files),
        lambda name: opened.chip.load(files[name], f"{path} ({name})"),
        lambda loaded, inputs: session.simulate(opened.chip, loaded, inputs),
        None if len(opened.data) < SMALL else FEW,
    )


def generate(
    decoder: CompiledDecoder,
    prompts: Sequence[Sequence[int]],
    count: int,
    ends: frozenset[int],
    sampling: Sampling,
    seed: int = 0,
) -> Iterator[tuple[int, int]]:
    """Yield up to `count` tokens behind each prompt, with its number; one of `ends`, and a full file, end an answer.

    Raises UsageError at once for prompts that the file does not take.
    """
    if len(prompts) > decoder.sequences:
        raise UsageError(
            f"the file takes {decoder.sequences} prompts at a time, and there are {len(prompts)}; compile it with "
            f"--batch {len(prompts)}."
        )
    for prompt in prompts:
        decoder.check_prompt(prompt)
    return _generated(decoder, prompts, count, ends, sampling, np.random.default_rng(seed))


def _generated(
    decoder: CompiledDecoder,
    prompts: Sequence[Sequence[int]],
    count: int,
    ends: frozenset[int],
    sampling: Sampling,
    random: np.random.Generator,
) -> Iterator[tuple[int, int]]:
    logits: Mapping[int, Array] = {number: decoder.prefill(prompt, number) for number, prompt in enumerate(prompts)}
    written = {number: [*prompt] for number, prompt in enumerate(prompts)}
    for made in range(1, count + 1):
        found = decoder.choose(logits, written, sampling, random)
        tokens = {number: token for number, token in found.items() if token not in ends}
        yield from tokens.items()
        for number, token in tokens.items():
            written[number].append(token)
        going = {number: token for number, token in tokens.items() if decoder.positions[number] < decoder.length}
        if made == count or not going:
            return
        logits = decoder.step(going)
