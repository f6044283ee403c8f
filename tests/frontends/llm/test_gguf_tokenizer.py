"""The tokenizer inside of GGUF files, against ids counted by hand."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from tpuc_llm.frontend import FRONTEND
from tpuc_llm.gguf_tokenizer import companions_in
from tpuc_llm.text import Tokenizer

from tests.frontends.llm.ggufs import setting

TOKENS = ["a", "b", "\u0120", "1", "2", "ab", "\u0120ab", "12", "<end>"]
"""Bytes, among them the blank as byte-level BPE writes it, merged ones, and a token that is no text."""
MERGES = ["a b", "\u0120 ab", "1 2"]


def write(path: Path, **changes: Any) -> None:
    own: dict[str, Any] = {
        "model": "gpt2",
        "pre": "smollm",
        "tokens": TOKENS,
        "merges": MERGES,
        "eos_token_id": 8,
        **changes,
    }
    own["token_type"] = ["3" if token == "<end>" else "1" for token in own["tokens"]]
    said = {f"tokenizer.ggml.{name}": value for name, value in own.items()}
    said["tokenizer.chat_template"] = "{{ messages[0]['content'] }}<end>"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(said)) + b"".join(setting(*one) for one in said.items()))


@pytest.mark.parametrize(
    ("rule", "ids"),
    [("smollm", [5, 6, 3, 4, 8]), ("qwen2", [5, 6, 3, 4, 8]), ("llama-bpe", [5, 6, 7, 8]), ("gpt-2", [5, 6, 7, 8])],
)
def test_text_is_cut_and_merged_by_the_files_rule(rule: str, ids: list[int], tmp_path: Path) -> None:
    """Digits stay apart in some; all three digits of Llama 3 go together."""
    pytest.importorskip("tokenizers")
    write(tmp_path / "m.gguf", pre=rule)
    for name, content in companions_in(tmp_path / "m.gguf").items():
        (tmp_path / name).write_bytes(content)
    words = Tokenizer.open(tmp_path)
    assert words.encode("ab ab12<end>") == ids
    assert words.decode(ids) == "ab ab12"
    assert (words.begin, words.ends, words.template) == (None, frozenset({8}), "{{ messages[0]['content'] }}<end>")


def test_files_beside_come_first_and_other_tokenizers_are_left(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    others: list[dict[str, Any]] = [{"model": "llama"}, {"pre": "unheard-of"}, {"merges": []}]
    for changes in others:
        write(path, **changes)
        assert companions_in(path) == {}
    write(path)
    assert sorted(FRONTEND.companions(path)) == ["config.json", "tokenizer.json", "tokenizer_config.json"]
    (tmp_path / "tokenizer.json").write_text(json.dumps({}))
    assert FRONTEND.companions(path) == {"tokenizer.json": tmp_path / "tokenizer.json"}
