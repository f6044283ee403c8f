"""Operators that networks cannot contain, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping

from tpuc_importing.finding import refuse_operators

from tpuc_onnx.importers.common import TABLE

_OPEN = "the size of its result depends on the data, but compiled shapes are static"
_RANDOM = "its result is random, but a compiled network is deterministic"
_SEQUENCE = "it works on sequences or optional values, but networks compute only numeric tensors"
_TEXT = "it works on text, but networks compute numbers"
_TRAINING = "it belongs to training: export the network for inference"

REASONS: Mapping[str, str] = {
    **dict.fromkeys(("Compress", "NonZero", "Unique"), _OPEN),
    "NonMaxSuppression": f"{_OPEN}; cut the network before it, and add decoding and suppression with --post",
    **dict.fromkeys(("Bernoulli", "Multinomial"), _RANDOM),
    **dict.fromkeys(("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"), _RANDOM),
    **dict.fromkeys(("Optional", "OptionalHasElement", "SequenceMap"), _SEQUENCE),
    **dict.fromkeys(("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer"), _TEXT),
    "ImageDecoder": "it decodes an image file: decode images before the network, with --resize-dims and related "
    "options",
    **dict.fromkeys(
        (
            "ai.onnx.preview.training::Adagrad",
            "ai.onnx.preview.training::Adam",
            "ai.onnx.preview.training::Gradient",
            "ai.onnx.preview.training::Momentum",
        ),
        _TRAINING,
    ),
}


refuse_operators(TABLE, REASONS)
