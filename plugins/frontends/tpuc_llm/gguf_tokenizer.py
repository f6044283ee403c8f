"""The tokenizer inside a GGUF file, as the files of a Hugging Face folder.

Tokenizers of type `gpt2` (byte-level BPE) are read. How text is cut before merging is a name in the file; the rules
behind names are those that the models' own `tokenizer.json` state.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tpuc_llm.gguf import Header

CONTROL = 3
"""The type of tokens that are no text."""
_LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_OTHERS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
PATTERNS = {"qwen2": rf"{_LETTERS}\p{{N}}{_OTHERS}", "llama-bpe": rf"{_LETTERS}\p{{N}}{{1,3}}{_OTHERS}"}
DIGITS = ("smollm",)
"""Names of rules that set digits apart and are those of GPT-2 otherwise."""
PLAIN = ("gpt-2", "default")


def companions_in(path: Path) -> Mapping[str, bytes]:
    """Return `tokenizer.json`, `tokenizer_config.json`, and `config.json` by name; nothing where the file has no
    tokenizer, or one of another type.
    """
    said = Header.read(path).settings
    own = {name.removeprefix("tokenizer.ggml."): value for name, value in said.items()}
    tokens, merges, kinds = (_strings(own.get(name)) for name in ("tokens", "merges", "token_type"))
    cut = _cut(str(own.get("pre", "default")))
    if own.get("model") != "gpt2" or not tokens or not merges or cut is None:
        return {}
    kinds += [""] * (len(tokens) - len(kinds))
    special = [_special(index, token) for index, token in enumerate(tokens) if kinds[index] == str(CONTROL)]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {
        "type": "BPE",
        **dict.fromkeys(("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix")),
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": own.get("pre") == "llama-bpe",
        "vocab": {token: index for index, token in enumerate(tokens)},
        "merges": [merge.split(" ", 1) for merge in merges],
    }
    tokenizer = {
        "version": "1.0",
        **dict.fromkeys(("truncation", "padding", "normalizer", "post_processor")),
        "added_tokens": special,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": cut},
        "decoder": level,
        "model": model,
    }
    ids = {f"{name}_token_id": own.get(f"{name}_token_id") for name in ("bos", "eos")}
    names = {name.removesuffix("_id"): _named(tokens, index) for name, index in ids.items()}
    settings = {
        "add_bos_token": bool(own.get("add_bos_token", False)),
        **names,
        "chat_template": said.get("tokenizer.chat_template", ""),
    }
    files = {"tokenizer.json": tokenizer, "tokenizer_config.json": settings, "config.json": ids}
    return {name: json.dumps(value, ensure_ascii=False).encode() for name, value in files.items()}


def _cut(rule: str) -> Sequence[Mapping[str, Any]] | None:
    """Return the steps that cut a text before merging; None for an unknown rule."""
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": rule not in PATTERNS}
    if rule in PATTERNS:
        split = {"type": "Split", "pattern": {"Regex": PATTERNS[rule]}, "behavior": "Isolated", "invert": False}
        return [split, level]
    if rule in DIGITS:
        return [{"type": "Digits", "individual_digits": True}, level]
    return [level] if rule in PLAIN else None


def _special(index: int, token: str) -> Mapping[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": index, "content": token, "special": True, **flags}


def _named(tokens: Sequence[str], index: Any) -> str:
    return tokens[index] if isinstance(index, int) and 0 <= index < len(tokens) else ""


def _strings(values: Any) -> list[str]:
    return [str(value) for value in values] if isinstance(values, list) else []  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
