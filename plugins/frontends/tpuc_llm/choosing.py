"""How programs on the host choose the next token: they draw from what `sample_network` computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from tpuc.api.evaluation import Interpreter
from tpuc_ops.arrays import Array

from tpuc_llm.sampling import MOST_CHOSEN, SAMPLE, sample_inputs, sample_network

LEAST = 1e-6
"""Of temperatures and shares: quotients stay finite, and at least one token remains."""


@dataclass(frozen=True)
class Sampling:
    """Settings of `sample_network`; at temperature 0 the likeliest token is taken. `top_k` is 0 for all tokens."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    penalty: float = 1.0

    @property
    def is_greedy(self) -> bool:
        """True if `greedy_head` chooses the same token."""
        return not self.temperature and self.penalty == 1.0

    @property
    def fits_file(self) -> bool:
        """True if the network of a file computes these probabilities: it does for few tokens."""
        return bool(self.temperature) and 0 < self.top_k <= MOST_CHOSEN

    def numbers(self, sequences: int) -> Sequence[Array]:
        """Return the inputs behind logits and tokens."""
        given: Sequence[Any] = (self.penalty, max(self.temperature, LEAST), self.top_k, max(self.top_p, LEAST))
        return [np.full((sequences, 1), one) for one in given]

    def choose(self, logits: Array, random: np.random.Generator, written: Sequence[int] = ()) -> int:
        """Return a token id behind the tokens `written`."""
        penalty, *others = self.numbers(1)
        ids = np.array([written or [0]])
        count = min(self.top_k or len(logits), len(logits)) if self.temperature else 1
        others[1] = np.full((1, 1), count)
        given = [logits[None], ids, penalty if written else np.ones((1, 1)), *others]
        names = sample_inputs((1, len(logits)), ids.shape[1])
        found = _interpreter(len(logits), ids.shape[1], count).run(
            {name: np.asarray(array, np.float32) for name, array in zip(names, given, strict=True)}
        )
        return drawn(found["probs"][0], found["token"][0], random)


@lru_cache(maxsize=2)
def _interpreter(vocabulary: int, length: int, count: int) -> Interpreter:
    """The network of one sequence, planned once for all tokens of a text without a penalty."""
    return Interpreter(sample_network(SAMPLE, (1, vocabulary), length, count))


def drawn(shares: Array, tokens: Array, random: np.random.Generator) -> int:
    """Draw one of some tokens by their probabilities."""
    shares = shares.astype(np.float64)
    return int(tokens[int(random.choice(len(shares), p=shares / shares.sum()))])
