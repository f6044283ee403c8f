"""`tpuc generate`, and tokenizers."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tpuc.api import F32, InvalidModel, TensorInfo, UsageError
from tpuc_driver.session import Session
from tpuc_llm import tokenizing
from tpuc_llm.choosing import Sampling
from tpuc_llm.command import visible_text
from tpuc_llm.generation import CompiledDecoder, generate
from tpuc_llm.text import Tokenizer

from tests.chips.command_line import tpuc
from tests.families import each
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


@pytest.mark.chip("bm1684x")
def test_several_texts_are_continued_together(tmp_path: Path) -> None:
    """Each as it is alone; the chip reads its weights once for both."""
    write_model(tmp_path / "model", "llama")
    write_tokenizer(tmp_path / "model")
    session, texts = Session(chip="bm1684x", quantize="f16"), ("w5 w7 w8", "w9")
    alone, both = tmp_path / "1" / "m.bmodel", tmp_path / "2" / "m.bmodel"
    session.compile(tmp_path / "model", alone, dims={"seq": 16})
    session.compile(tmp_path / "model", both, dims={"seq": 16}, batch=2)
    wanted = [tpuc("generate", alone, "--prompt", text, "--max-tokens", "6").stdout.splitlines() for text in texts]
    result = tpuc("generate", both, "--prompt", texts[0], "--prompt", texts[1], "--max-tokens", "6")
    *found, prediction = result.stdout.splitlines()
    assert found == [text for text, _ in wanted]

    def speed(line: str) -> float:
        return float(line.split()[-4].replace(",", ""))

    assert speed(prediction) > 1.3 * speed(wanted[0][1])
    refused = tpuc("generate", alone, "--prompt", texts[0], "--prompt", texts[1])
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert "takes 1 prompts at a time, and there are 2; compile it with --batch 2" in refused.stderr


def test_prompts_that_no_file_takes_are_refused_before_anything_is_computed() -> None:
    for prompt, words in (([], "has 0 tokens"), ([1] * 5, "has 5 tokens, the file takes 1 to 4"), ([9], "a token 9")):
        with pytest.raises(UsageError, match=words):
            generate(decoder(networks(4, 6, 2)), [prompt], 2, frozenset(), Sampling())


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
    with pytest.raises(InvalidModel, match="it cannot be used"):
        Tokenizer.open(tmp_path)


def test_networks_do_not_drive_the_terminal() -> None:
    assert visible_text("a\x1b[2Jb\nc") == "a[2Jb\nc"


def damaged(folder: Path, name: str, **values: Any) -> None:
    """Other values in a JSON file of a folder."""
    path = folder / name
    path.write_text(json.dumps({**(json.loads(path.read_text()) if path.exists() else {}), **values}))


PADDING = {"strategy": {"Fixed": 10**9}, "direction": "Right", "pad_id": 0, "pad_type_id": 0, "pad_token": "<unk>"}
LOOPS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"


def test_tokenizers_and_templates_have_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package ends its process where memory ends, and panics where a model lacks a word for unknown ones."""
    write_tokenizer(tmp_path)
    damaged(tmp_path, "tokenizer.json", padding={**PADDING, "pad_to_multiple_of": None})
    with pytest.raises(InvalidModel, match=r"cannot be used \(it takes too much time or memory\). Download it again."):
        Tokenizer.open(tmp_path).encode("w5")
    damaged(tmp_path, "tokenizer.json", padding=None, model={"type": "WordLevel", "vocab": {}, "unk_token": "<unk>"})
    with pytest.raises(InvalidModel, match=r"cannot be used \(WordLevel error: Missing"):
        Tokenizer.open(tmp_path).encode("w5")
    write_tokenizer(tmp_path, chat_template="{{ 'x' * 10 ** 10 }}")
    with pytest.raises(InvalidModel, match=r"chat template fails \(MemoryError\). Leave out --chat."):
        Tokenizer.open(tmp_path).chat("w5")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    source = Path(tokenizing.__file__).read_text()
    (tmp_path / "tpuc_llm").mkdir()
    (tmp_path / "tpuc_llm" / "__init__.py").touch()
    (tmp_path / "tpuc_llm" / "tokenizing.py").write_text(source.replace("SECONDS = 20", "SECONDS = 0.3"))
    write_tokenizer(tmp_path, chat_template=LOOPS)
    with pytest.raises(InvalidModel, match=r"chat template fails \(it takes too much time or memory\)"):
        Tokenizer.open(tmp_path).chat("w5")


@each("value", ["x", [1.5], -1, 1 << 31, {"a": 1}])
def test_tokens_that_are_none(value: object, tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    damaged(tmp_path, "config.json", eos_token_id=value)
    with pytest.raises(InvalidModel, match="its configuration names the token "):
        Tokenizer.open(tmp_path)


def networks(length: int, hidden: int, kept: int) -> dict[str, tuple[list[int], list[int]]]:
    """The numbers of inputs and outputs of each network of a file."""
    past = [length * kept] * 2
    return {
        "embedding": ([length], [length * hidden]),
        "embedding_cache": ([1], [hidden]),
        "block_0": ([length * hidden, length, length * length], [length * hidden, *past]),
        "block_cache_0": ([hidden, 1, length + 1, *past], [hidden, kept, kept]),
        "lm_head": ([hidden], [9]),
    }


def decoder(sizes: dict[str, tuple[list[int], list[int]]]) -> CompiledDecoder:
    """A file whose networks have such inputs and outputs, all of them ones."""

    def load(name: str) -> Any:
        inputs, outputs = ([TensorInfo(f"{i}", (n,), F32, 0) for i, n in enumerate(ends)] for ends in sizes[name])
        return SimpleNamespace(inputs=inputs, outputs=outputs)

    def run(loaded: Any, _: Any) -> Any:
        return {info.name: np.ones(info.shape, np.float32) for info in loaded.outputs}

    return CompiledDecoder([*sizes], load, run)


@each("name", [*networks(4, 6, 2)])
def test_networks_of_something_else_are_refused(name: str) -> None:
    sound = networks(4, 6, 2)
    assert decoder(sound).prefill([1, 2]).shape == (9,)
    assert len([*generate(decoder(sound), [[1, 2]], 9, frozenset(), Sampling())]) == 3
    with pytest.raises(UsageError, match="the tokenizer has a token 9, the file 9 of them; take the tokenizer of this"):
        decoder(sound).prefill([1, 9])
    with pytest.raises(UsageError, match=f"the file has no network '{name}', so it is no language model"):
        decoder({one: sizes for one, sizes in sound.items() if one != name})
    inputs, outputs = sound[name]
    for ends in (([*inputs, 1], outputs), (inputs[1:], outputs), ([0, *inputs[1:]], outputs), (inputs, [7, *outputs])):
        changed = decoder({**sound, name: ends})
        with pytest.raises(UsageError, match=f"network '{name}' does not take or give what a language model's does"):
            [*generate(changed, [[1]], 2, frozenset(), Sampling())]
