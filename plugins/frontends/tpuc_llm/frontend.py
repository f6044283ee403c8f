"""The front end as the registry sees it: folders with a `config.json` of Hugging Face, and GGUF files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tpuc.api import Frontend, ImportOptions, Module, NetworkPart

SUFFIX = ".gguf"
COMPANIONS = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json")


class LlmFrontend(Frontend):
    """Decoder language models. `--dim seq=N` chooses the sequence length, the model's own context by default."""

    name = "llm"
    suffixes = (SUFFIX,)
    folder_file = "config.json"
    specializes_by = frozenset({"dims", "weights"})

    def read(self, path: Path, options: ImportOptions, registry: Any) -> Module:
        """Read the whole model as one network: token ids [1, S] to logits [1, S, vocabulary], causal."""
        from tpuc_llm.model import LanguageModel

        return LanguageModel.open(_source(path), options, registry).whole()

    def parts(self, path: Path, options: ImportOptions, registry: Any) -> Iterator[NetworkPart]:
        """Read the networks of the file: embedding, blocks for a prompt and for one token, head."""
        from tpuc_llm.model import LanguageModel

        return LanguageModel.open(_source(path), options, registry).parts()

    def companions(self, path: Path) -> Mapping[str, Path | bytes]:
        """Return the tokenizer and what the model says about generation, for a GGUF file that is alone those inside."""
        files = [path.parent / name for name in COMPANIONS]
        beside: Mapping[str, Path | bytes] = {file.name: file for file in files if file.is_file()}
        if path.suffix != SUFFIX or beside:
            return beside
        from tpuc_llm.gguf_tokenizer import companions_in

        return companions_in(path)


def _source(path: Path) -> Path:
    """The folder of a `config.json`, or a file that is the whole model."""
    return path if path.suffix == SUFFIX else path.parent


FRONTEND = LlmFrontend()
