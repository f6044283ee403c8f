"""`tpuc eval --metric perplexity`: compiled language models on the simulator, and folders in floats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tpuc.api import UsageError
from tpuc_driver.api.host import Session
from tpuc_eval.protocols import ModelFigures, ModelMetric, ModelRequest
from tpuc_ops.arrays import Array

from tpuc_llm.calibrating import WINDOW, windows
from tpuc_llm.checkpoint import CONFIG
from tpuc_llm.frontend import SUFFIX
from tpuc_llm.generation import CompiledDecoder, opened_decoder
from tpuc_llm.model import LanguageModel
from tpuc_llm.perplexity import Logits, perplexity
from tpuc_llm.text import TOKENIZER, Tokenizer, read_text


@dataclass(frozen=True)
class _Opened:
    """A model that is ready to run: the longest window that it takes, and its logits."""

    path: Path
    length: int
    vocabulary: int
    tokenizer: Path
    source: LanguageModel | CompiledDecoder

    def logits(self, tokens: int) -> Logits:
        """Return the logits of windows of `tokens` tokens; raises UsageError for tokens that it does not know."""
        compute = self.source.logits(tokens) if isinstance(self.source, LanguageModel) else self.source.logits

        def checked(window: Sequence[int]) -> Array:
            if max(window) >= self.vocabulary:
                raise UsageError(
                    f"{self.path}: the tokenizer has a token {max(window)}, the model {self.vocabulary} of them; take "
                    "the tokenizer of this model."
                )
            return compute(window)

        return checked


@dataclass(frozen=True)
class Perplexity(ModelMetric):
    """How well models predict every next token of a text. Each window of the text is a prompt of its own.

    `window`: tokens of a window; by default as many as every model takes, at most 256. `tokenizer`: a model's folder.
    """

    name = "perplexity"
    window: int = 0
    tokenizer: str = ""

    def measure(self, request: ModelRequest) -> ModelFigures:
        """See ModelMetric."""
        session = Session(request.registry)
        models = [_open(path, session) for path in request.models]
        longest = min(one.length for one in models)
        tokens = self.window or min(longest, WINDOW)
        if not 2 <= tokens <= longest:
            raise UsageError(
                f"metric 'perplexity': option window is {tokens}; these models take 2 to {longest} tokens."
            )
        words = Tokenizer.open(Path(self.tokenizer) if self.tokenizer else _tokenizer(models))
        cut = windows(words.encode(read_text(request.data)), tokens, words.begin)
        cut = cut[: request.count or None]
        if not cut:
            raise UsageError(f"{request.data}: the text has less than {tokens} tokens; give a longer one.")
        figures: list[dict[str, float]] = []
        for one in models:
            shown = request.progress(cut, str(one.path), len(cut))
            figures.append({"perplexity": perplexity(one.logits(tokens), shown)})
        return ModelFigures(f"{len(cut)} windows of {tokens} tokens ({len(cut) * (tokens - 1):,} predicted)", figures)


def _open(path: Path, session: Session) -> _Opened:
    folder = path.parent if path.name == CONFIG else path
    if folder.is_dir() or folder.suffix == SUFFIX:
        model = LanguageModel.described(folder, session.registry)
        return _Opened(path, model.length, model.shape.vocabulary, model.checkpoint.home, model)
    decoder = opened_decoder(session, path)
    return _Opened(path, decoder.length, decoder.vocabulary, path.parent / "config", decoder)


def _tokenizer(models: Sequence[_Opened]) -> Path:
    """Return the first folder with a tokenizer, folders of models before those beside compiled files."""
    folders = [one.tokenizer for one in sorted(models, key=lambda one: isinstance(one.source, CompiledDecoder))]
    found = next((one for one in folders if (one / TOKENIZER).is_file()), None)
    if found is None:
        raise UsageError(
            f"{folders[0]}: there is no {TOKENIZER} in it; name a folder with one: --metric "
            "'perplexity{tokenizer=DIR}'."
        )
    return found
