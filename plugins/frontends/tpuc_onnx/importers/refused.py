"""Operators that networks cannot contain, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping

from tpuc_importing.finding import refuse_operators

from tpuc_onnx.importers.common import TABLE

_OPEN = "how many elements its result has depends on the data, and compiled shapes are static"
_RANDOM = "its result is random, and a compiled network gives the same result for the same input"
_SEQUENCE = "it works on sequences or optional values, and networks compute tensors of numbers only"
_TEXT = "it works on text, and networks compute numbers"
_TRAINING = "it belongs to training: export the network for inference"

REASONS: Mapping[str, str] = {
    **dict.fromkeys(("Compress", "NonZero", "Unique"), _OPEN),
    "NonMaxSuppression": f"{_OPEN}; end the network before it, and --post puts decoding and suppression behind it",
    **dict.fromkeys(("Bernoulli", "Multinomial"), _RANDOM),
    **dict.fromkeys(("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"), _RANDOM),
    **dict.fromkeys(("Optional", "OptionalHasElement", "SequenceMap"), _SEQUENCE),
    **dict.fromkeys(("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer"), _TEXT),
    "ImageDecoder": "it decodes an image file: decode images before the network, with --resize-dims and its like",
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
