"""Text to token ids and back, by a model's own tokenizer and chat template."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tpuc.api import InvalidModel, Unsupported, UsageError, install_command

TOKENIZER, SETTINGS, GENERATION = "tokenizer.json", "tokenizer_config.json", "generation_config.json"


@dataclass(frozen=True)
class Tokenizer:
    """The tokenizer of a folder; `ends` are the ids that end an answer."""

    folder: Path
    encoder: Any
    ends: frozenset[int] = frozenset()
    begin: int | None = None
    template: str = ""
    special: dict[str, str] = field(default_factory=dict[str, str])

    @staticmethod
    def open(folder: Path) -> Tokenizer:
        """Read `tokenizer.json` and what else says how to use it. Raises Unsupported without the package for it."""
        try:
            tokenizers = importlib.import_module("tokenizers")
        except ImportError:
            raise Unsupported(
                f"{folder / TOKENIZER}: a package that reads tokenizers is missing: {install_command('llm')}"
            ) from None
        path = folder / TOKENIZER
        if not path.is_file():
            raise UsageError(f"{folder}: there is no {TOKENIZER} in it; name the model's folder with --tokenizer.")
        try:
            encoder = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the package raises nothing more exact
            raise InvalidModel(
                f"{path}: it cannot be read ({str(error).splitlines()[0]}). Download it again."
            ) from error
        said = {**_json(folder / "config.json"), **_json(folder / GENERATION)}
        settings = _json(folder / SETTINGS)
        ids = _several(said.get("eos_token_id"))
        special = {key: _token(settings.get(key)) for key in ("bos_token", "eos_token", "unk_token", "pad_token")}
        begin = said.get("bos_token_id") if not settings or settings.get("add_bos_token", False) else None
        return Tokenizer(folder, encoder, frozenset(ids), begin, str(settings.get("chat_template") or ""), special)

    def encode(self, text: str) -> list[int]:
        """Return token ids, with the begin token where the model wants one."""
        ids: list[int] = self.encoder.encode(text).ids
        return [self.begin, *ids] if self.begin is not None and ids[:1] != [self.begin] else ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids."""
        return str(self.encoder.decode(list(ids), skip_special_tokens=True))

    def chat(self, text: str) -> list[int]:
        """Return the token ids of one user's turn in the model's chat template."""
        if not self.template:
            raise UsageError(f"{self.folder}: the model has no chat template in {SETTINGS}; leave out --chat.")
        try:
            sandbox = importlib.import_module("jinja2.sandbox")
        except ImportError:
            raise Unsupported(
                f"{self.folder}: chat templates need a package that is not installed: {install_command('llm')}"
            ) from None
        environment = sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        try:
            turn = environment.from_string(self.template).render(
                messages=[{"role": "user", "content": text}], add_generation_prompt=True, **self.special
            )
        except Exception as error:  # templates are programs
            raise InvalidModel(f"{self.folder}: its chat template fails ({error}). Leave out --chat.") from error
        return list(self.encoder.encode(turn, add_special_tokens=False).ids)


def _token(value: Any) -> str:
    """A special token, which stands as text or as an object."""
    if isinstance(value, dict):
        fields: dict[str, Any] = {**value}
        return str(fields.get("content", ""))
    return str(value or "")


def _several(value: Any) -> Sequence[int]:
    """None, one number or several."""
    if isinstance(value, list):
        numbers: list[Any] = [*value]
        return [int(one) for one in numbers]
    return [] if value is None else [int(value)]


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        found: Any = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InvalidModel(f"{path}: this is not JSON. Download the file again.") from error
    return {**found} if isinstance(found, dict) else {}
