"""Operators that compiled networks cannot contain, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping

from tpuc_importing.finding import refuse_operators

from tpuc_tensorflow.importers.common import TABLE

_OPEN = "the shape of its result depends on the data, but compiled shapes are static"
_RANDOM = "its result is random, but a compiled network is deterministic"
_TEXT = "it works on text, files, or tables of them, but networks compute numbers"
_STATE = "it keeps a state between runs: freeze the graph, or give the checkpoint of its variables"
_COMPLEX = "it computes complex numbers: compute spectra before the network, or express them as matrix products"
_VOLUME = "it works on volumes, but chips work on images: write it as a sum of 2-D operators"
_TRAINING = "it belongs to training: export the network for inference"

REASONS: Mapping[str, str] = {
    **dict.fromkeys(("NonMaxSuppressionV3", "NonMaxSuppressionV4", "NonMaxSuppressionV5", "Unique", "UniqueV2"), _OPEN),
    **dict.fromkeys(("CombinedNonMaxSuppression", "DynamicPartition", "Where"), _OPEN),
    **dict.fromkeys(("Multinomial", "RandomStandardNormal", "RandomUniform", "TruncatedNormal"), _RANDOM),
    **dict.fromkeys(
        ("DecodeJpeg", "DecodePng", "DecodeRaw", "HashTableV2", "LookupTableFindV2", "ParseExample"), _TEXT
    ),
    **dict.fromkeys(("AsString", "ReadFile", "RegexReplace", "StringJoin", "StringSplit"), _TEXT),
    **dict.fromkeys(("Assign", "AssignVariableOp", "VarHandleOp", "Variable", "VariableV2"), _STATE),
    **dict.fromkeys(("Complex", "ComplexAbs", "FFT", "FFT2D", "IRFFT", "RFFT", "RFFT2D"), _COMPLEX),
    **dict.fromkeys(("AvgPool3D", "Conv3D", "Conv3DBackpropInputV2", "MaxPool3D"), _VOLUME),
    **dict.fromkeys(("ApplyGradientDescent", "Conv2DBackpropFilter", "FusedBatchNormGradV3", "ReluGrad"), _TRAINING),
}


refuse_operators(TABLE, REASONS)
