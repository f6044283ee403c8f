"""`tpuc generate`, and tokenizers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tpuc.api import InvalidModel, UsageError
from tpuc_driver.session import Session
from tpuc_llm.command import visible_text
from tpuc_llm.text import Tokenizer

from tests.chips.command_line import tpuc
from tests.frontends.llm.models import CONFIG, config_of, logits, write_model

WORDS = ["<unk>", "<s>", "</s>", *(f"w{number}" for number in range(3, CONFIG["vocab_size"]))]
TURNS = "{% for one in messages %}{{ bos_token }} {{ one['content'] }}{% endfor %}"
TEMPLATE = TURNS + "{% if add_generation_prompt %} w9{% endif %}"


def write_tokenizer(folder: Path, **settings: Any) -> None:
    """One whole word is one token."""
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    special = [
        {"id": number, "content": WORDS[number], "special": True, "single_word": False, "lstrip": False}
        | {"rstrip": False, "normalized": False}
        for number in range(3)
    ]
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"}
    text = {"version": "1.0", "added_tokens": special, "model": model, "pre_tokenizer": {"type": "WhitespaceSplit"}}
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(text))
    if settings:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))


@pytest.mark.chip("bm1684x")
def test_text_is_continued_as_the_float_model_does(tmp_path: Path) -> None:
    weights = write_model(tmp_path / "model", "llama")
    write_tokenizer(tmp_path / "model")
    path = tmp_path / "out" / "m.bmodel"
    Session(chip="bm1684x", quantize="f16").compile(tmp_path / "model", path, dims={"seq": 16})
    ids = [1, 5, 7, 8]
    for _ in range(6):
        ids.append(int(logits(config_of("llama"), weights, ids)[-1].argmax()))
    assert 2 not in ids
    result = tpuc("generate", path, "--prompt", "w5 w7 w8", "--max-tokens", "6")
    text, prediction = result.stdout.splitlines()
    assert text.split() == [WORDS[token] for token in ids[1:]]
    assert prediction.startswith("predicted on bm1684x: first token after ")
    assert prediction.endswith(" tokens per second")


def test_begin_tokens_and_chat_templates_are_the_models(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"bos_token_id": 1, "eos_token_id": [2, 4]}))
    write_tokenizer(tmp_path)
    plain = Tokenizer.open(tmp_path)
    assert plain.encode("w5 w6") == [1, 5, 6]
    assert plain.ends == {2, 4}
    assert plain.decode([1, 5, 6]) == "w5 w6"
    with pytest.raises(UsageError, match="has no chat template"):
        plain.chat("w5")
    write_tokenizer(tmp_path, add_bos_token=False, chat_template=TEMPLATE, bos_token={"content": "<s>"})
    chat = Tokenizer.open(tmp_path)
    assert chat.encode("w5") == [5]
    assert chat.chat("w5 w6") == [1, 5, 6, 9]


def test_templates_run_in_a_sandbox(tmp_path: Path) -> None:
    write_tokenizer(tmp_path, chat_template="{{ messages.__class__.__mro__[1].__subclasses__() }}")
    with pytest.raises(InvalidModel, match="chat template fails"):
        Tokenizer.open(tmp_path).chat("w5")


def test_tokenizers_that_are_missing_or_damaged_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no tokenizer.json in it; name the model's folder with --tokenizer"):
        Tokenizer.open(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(InvalidModel, match="it cannot be read"):
        Tokenizer.open(tmp_path)


def test_networks_do_not_drive_the_terminal() -> None:
    assert visible_text("a\x1b[2Jb\nc") == "a[2Jb\nc"
