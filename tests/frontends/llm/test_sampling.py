"""Networks that choose the next token, on the simulator, beside numpy's arithmetic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc_driver.session import Session
from tpuc_llm.choosing import Sampling
from tpuc_llm.generation import opened_decoder

from tests.frontends.llm.models import CONFIG, write_model

VOCABULARY = CONFIG["vocab_size"]
LENGTH, SEQUENCES = 16, 2

Array = NDArray[Any]


def expected(logits: Array, written: list[int], sampling: Sampling) -> tuple[Array, Array]:
    """Return the likeliest tokens, and their probabilities in float64."""
    numbers = logits.astype(np.float64)
    for token in set(written):
        numbers[token] = numbers[token] * sampling.penalty if numbers[token] < 0 else numbers[token] / sampling.penalty
    order = np.argsort(-numbers, kind="stable")[:50]
    shares = np.exp((numbers[order] - numbers[order[0]]) / sampling.temperature)
    shares[sampling.top_k :] = 0
    shares /= shares.sum()
    shares[np.cumsum(shares) - shares >= sampling.top_p] = 0
    return order, shares / shares.sum()


@pytest.mark.chip("bm1684x")
def test_the_files_own_networks_choose(tmp_path: Path) -> None:
    write_model(tmp_path / "model", "llama")
    path = tmp_path / "m.bmodel"
    session = Session(chip="bm1684x", quantize="f16")
    session.compile(tmp_path / "model", path, dims={"seq": LENGTH}, batch=SEQUENCES)
    decoder, rng = opened_decoder(session, path), np.random.default_rng(1)
    sampling = Sampling(temperature=0.7, top_k=6, top_p=0.8, penalty=1.5)
    for _ in range(4):
        rows = {one: rng.normal(0, 2, VOCABULARY).astype(np.float32) for one in range(SEQUENCES)}
        written = {0: [3, 3, 5], 1: [*range(LENGTH)]}
        rows[1][:3] = rows[1].max() + 1  # equal ones
        assert decoder.choose(rows, written, Sampling(), rng) == {one: row.argmax() for one, row in rows.items()}
        tokens = {one: expected(row, written[one], sampling)[0][0] for one, row in rows.items()}
        assert decoder.choose(rows, written, Sampling(top_k=6, penalty=1.5), rng) == tokens
        assert decoder.choose(rows, written, Sampling(0.7, 6, 0.0, 1.5), rng) == tokens
        counts = {one: np.zeros(VOCABULARY) for one in rows}
        for _ in range(60):
            for one, token in decoder.choose(rows, written, sampling, rng).items():
                counts[one][token] += 1
        for one, row in rows.items():
            tokens, shares = expected(row, written[one], sampling)
            assert set(np.flatnonzero(counts[one])) <= set(tokens[shares > 0])
            wide = 4 * np.sqrt(shares * (1 - shares) / 60) + 1e-3
            assert (np.abs(counts[one][tokens] / 60 - shares) <= wide).all()


def test_a_penalty_makes_tokens_of_the_text_less_likely() -> None:
    logits, rng = np.array([2.0, 1.9, -1.0]), np.random.default_rng(0)
    assert Sampling(penalty=1.2).choose(logits, rng, [0, 0]) == 1
    assert Sampling(penalty=1.2).choose(logits, rng) == 0
    assert Sampling(penalty=1.2).choose(np.array([-2.0, -1.8]), rng, [1]) == 0
