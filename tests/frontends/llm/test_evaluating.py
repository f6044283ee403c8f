"""`tpuc eval --metric perplexity` on folders and on compiled files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tpuc_driver.cli import main
from tpuc_driver.session import Session

from tests.frontends.llm.models import config_of, logits, write_model
from tests.frontends.llm.test_generate import write_tokenizer

IDS = [3 + number * number % 50 for number in range(40)]


def wanted_perplexity(weights: dict[str, Any], tokens: int, count: int) -> float:
    """By the definition, in float64: every window begins with token 1."""
    losses: list[float] = []
    for at in range(0, count * (tokens - 1), tokens - 1):
        window = [1, *IDS[at : at + tokens - 1]]
        rows = logits(config_of("llama"), weights, window)
        shares = np.exp(rows) / np.exp(rows).sum(-1, keepdims=True)
        losses += [-float(np.log(shares[place, token])) for place, token in enumerate(window[1:])]
    return float(np.exp(np.mean(losses)))


@pytest.mark.chip("bm1684x")
def test_folders_and_compiled_files_have_a_perplexity(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, text, file = tmp_path / "model", tmp_path / "text.txt", tmp_path / "out" / "m.bmodel"
    weights = write_model(folder, "llama")
    write_tokenizer(folder)
    text.write_text(" ".join(f"w{token}" for token in IDS))
    Session(chip="bm1684x", quantize="f16").compile(folder, file, dims={"seq": 8})

    def said(*words: str, code: int = 0) -> str:
        capsys.readouterr()
        assert main(["eval", *words, "--dataset", str(text)]) == code
        out, err = capsys.readouterr()
        return err if code else out

    metric = ("--metric", "perplexity")
    lines = said(str(folder), str(file), "--count=2", *metric).splitlines()
    assert lines[0] == f"2 windows of 8 tokens (14 predicted) of {text}"
    assert float(lines[-2].split()[-1]) == pytest.approx(wanted_perplexity(weights, 8, 2), rel=1e-3)
    assert float(lines[-1].split()[-1]) == pytest.approx(wanted_perplexity(weights, 8, 2), rel=1e-2)
    found = json.loads(said(str(folder / "config.json"), "--metric", "perplexity{window=5}", "--json"))
    assert found["samples"] == "10 windows of 5 tokens (40 predicted)"
    assert found["models"][0]["figures"]["perplexity"] == pytest.approx(wanted_perplexity(weights, 5, 10), rel=1e-4)

    assert "option window is 9; these models take 2 to 8 tokens" in said(
        str(file), "--metric", "perplexity{window=9}", code=2
    )
    assert "--workers does not apply to metric 'perplexity'; leave it out." in said(
        str(folder), *metric, "--workers=2", code=2
    )
    text.write_text("w5")
    assert "the text has less than 8 tokens; give a longer one" in said(str(file), *metric, code=2)
    other = tmp_path / "other"
    write_model(other, "llama", vocab_size=6)
    write_tokenizer(other)
    text.write_text("w5 w6 w7 w8")
    assert f"{other}: the tokenizer has a token 8, the model 6 of them; take the tokenizer of this model" in said(
        str(other), "--metric", "perplexity{window=5}", code=2
    )
    (other / "tokenizer.json").unlink()
    assert "there is no tokenizer.json in it; name a folder with one: --metric 'perplexity{tokenizer=DIR}'" in said(
        str(other), *metric, code=2
    )


def test_the_metric_is_not_for_other_networks(
    digits_onnx: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("w5")
    assert main(["eval", str(digits_onnx), str(text), "--metric=perplexity"]) != 0
    assert str(digits_onnx) in capsys.readouterr().err
