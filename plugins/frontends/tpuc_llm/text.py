"""Text to token ids and back, by a model's own tokenizer and chat template."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import weakref
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
    process: TokenizerProcess
    ends: frozenset[int] = frozenset()
    begin: int | None = None
    template: str = ""
    special: dict[str, str] = field(default_factory=dict[str, str])

    @staticmethod
    def open(folder: Path) -> Tokenizer:
        """Read `tokenizer.json` and what else says how to use it. Raises Unsupported without the package for it."""
        if importlib.util.find_spec("tokenizers") is None:
            raise Unsupported(
                f"{folder / TOKENIZER}: a package that reads tokenizers is missing: {install_command('llm')}"
            )
        path = folder / TOKENIZER
        if not path.is_file():
            raise UsageError(f"{folder}: there is no {TOKENIZER} in it; name the model's folder with --tokenizer.")
        said = {**_json(folder / "config.json"), **_json(folder / GENERATION)}
        settings = _json(folder / SETTINGS)
        special = {key: _token(settings.get(key)) for key in ("bos_token", "eos_token", "unk_token", "pad_token")}
        ends = said.get("eos_token_id")
        several: list[Any] = [*ends] if isinstance(ends, list) else [] if ends is None else [ends]
        begin = said.get("bos_token_id") if not settings or settings.get("add_bos_token", False) else None
        for token in (*several, *([] if begin is None else [begin])):
            if type(token) is not int or not 0 <= token < 1 << 31:
                raise InvalidModel(
                    f"{folder}: its configuration names the token {str(token)[:80]!r}. Download it again."
                )
        template = settings.get("chat_template") or ""
        return Tokenizer(folder, TokenizerProcess(path), frozenset(several), begin, str(template), special)

    def encode(self, text: str) -> list[int]:
        """Return token ids, with the begin token where the model wants one."""
        ids: list[int] = self.process.ask("encode", text, True)
        return [self.begin, *ids] if self.begin is not None and ids[:1] != [self.begin] else ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids."""
        return self.process.ask("decode", list(ids))

    def chat(self, text: str) -> list[int]:
        """Return the token ids of one user's turn in the model's chat template."""
        if not self.template:
            raise UsageError(f"{self.folder}: the model has no chat template in {SETTINGS}; leave out --chat.")
        if importlib.util.find_spec("jinja2") is None:
            raise Unsupported(
                f"{self.folder}: chat templates need a package that is not installed: {install_command('llm')}"
            )
        turn = {"messages": [{"role": "user", "content": text}], "add_generation_prompt": True, **self.special}
        try:
            rendered = self.process.ask("render", self.template, turn)
        except TokenizerFailed as error:
            raise InvalidModel(f"{self.folder}: its chat template fails ({error.reason}). Leave out --chat.") from error
        return self.process.ask("encode", rendered, False)


class TokenizerFailed(InvalidModel):
    """A tokenizer or a template that fails or takes too much."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: it cannot be used ({reason}). Download it again.")
        self.reason = reason


class TokenizerProcess:
    """The process with the tokenizer of a file. It ends with this object."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tpuc_llm.tokenizing", str(path.absolute())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "TOKENIZERS_PARALLELISM": "false"},
        )
        weakref.finalize(self, _stop, self._process)
        self._answer()

    def ask(self, kind: str, *given: Any) -> Any:
        """Return the answer to a request. Raises TokenizerFailed."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the answer says so
            self._process.stdin.write(json.dumps([kind, *given]).encode() + b"\n")
            self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise TokenizerFailed(self._path, "it takes too much time or memory")
        answer: dict[str, Any] = json.loads(line)
        if "failed" in answer:
            raise TokenizerFailed(self._path, str(answer["failed"]).rstrip("."))
        return answer["is"]


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def read_text(path: Path) -> str:
    """Return a text file. Raises InvalidModel if it is not one."""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidModel(
            f"{path}: this is not a text that can be read ({error}). Give a text file in UTF-8."
        ) from error


def _token(value: Any) -> str:
    """A special token, which stands as text or as an object."""
    if isinstance(value, dict):
        fields: dict[str, Any] = {**value}
        return str(fields.get("content", ""))
    return str(value or "")


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        found: Any = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InvalidModel(f"{path}: this is not JSON. Download the file again.") from error
    return {**found} if isinstance(found, dict) else {}
