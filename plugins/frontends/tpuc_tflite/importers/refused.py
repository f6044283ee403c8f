"""Operators that networks cannot contain, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping

from tpuc_importing.finding import refuse_operators

from tpuc_tflite.importers.common import TABLE

_OPEN = "the size of its result depends on the data, but compiled shapes are static"
_RANDOM = "its result is random, but a compiled network is deterministic"
_TEXT = "it works on text or tables of it, but networks compute numbers"
_STATE = "it keeps a state between runs, but compiled networks keep nothing: make the state an input and an output"
_COMPLEX = "it computes complex numbers: compute spectra before the network, or express them as matrix products"
_VOLUME = "it convolves volumes, but chips convolve images: write it as a sum of 2-D convolutions"
_OLD = "it is an old layer that keeps its state: export it with UNIDIRECTIONAL_SEQUENCE_LSTM or the steps written out"
_BITS = "it works on the bits of integers, but chips compute on values"
_SPARSE = "it works on segments or sparse tensors, whose sizes depend on the data"
_STABLEHLO = "it is a StableHLO operator: convert the network to TFLite's own operators"
_NONE = "no op supports it: express it with simpler operators"
_WHOLE = "it calls another part of the file: export the network as one graph"
_HIDDEN = "it represents code for a delegate or accelerator: use the file from before that conversion"
_STABLEHLO_NAMES = (
    *("ABS", "ADD", "AND", "BROADCAST_IN_DIM", "CBRT", "CLAMP", "COMPARE", "CONCATENATE", "CONVERT", "CONVOLUTION"),
    *("COSINE", "CUSTOM_CALL", "DIVIDE", "DOT_GENERAL", "DYNAMIC_SLICE", "DYNAMIC_UPDATE_SLICE", "EXPONENTIAL"),
    *("FLOOR", "GATHER", "IOTA", "LOG", "LOGISTIC", "MAXIMUM", "MINIMUM", "MULTIPLY", "NEGATE", "OR", "PAD", "POWER"),
    *("REDUCE", "REDUCE_WINDOW", "REMAINDER", "RESHAPE", "RNG_BIT_GENERATOR", "RSQRT", "SCATTER", "SELECT"),
    *("SHIFT_LEFT", "SLICE", "SORT", "SUBTRACT", "TANH", "TRANSPOSE"),
)

REASONS: Mapping[str, str] = {
    **dict.fromkeys(("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5", "UNIQUE", "WHERE"), _OPEN),
    **dict.fromkeys(("MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM"), _RANDOM),
    **dict.fromkeys(("HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_LOOKUP", "HASHTABLE_SIZE"), _TEXT),
    **dict.fromkeys(("LSH_PROJECTION", "SKIP_GRAM"), _TEXT),
    **dict.fromkeys(("ASSIGN_VARIABLE", "CALL_ONCE", "READ_VARIABLE", "VAR_HANDLE"), _STATE),
    **dict.fromkeys(("COMPLEX_ABS", "IMAG", "REAL", "RFFT2D"), _COMPLEX),
    **dict.fromkeys(("CONV_3D", "CONV_3D_TRANSPOSE"), _VOLUME),
    **dict.fromkeys(("LSTM", "RNN", "BIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_RNN"), _OLD),
    **dict.fromkeys(("BITCAST", "BITWISE_XOR", "RIGHT_SHIFT"), _BITS),
    **dict.fromkeys(("CONCAT_EMBEDDINGS", "EMBEDDING_LOOKUP_SPARSE", "SEGMENT_SUM", "SPARSE_TO_DENSE"), _SPARSE),
    **dict.fromkeys(("UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_MIN", "UNSORTED_SEGMENT_PROD"), _SPARSE),
    **dict.fromkeys(("DENSIFY", "UNSORTED_SEGMENT_SUM"), _SPARSE),
    **dict.fromkeys(("ATAN2", "BUCKETIZE", "DILATE", "FAKE_QUANT", "MATRIX_DIAG", "MATRIX_SET_DIAG"), _NONE),
    **dict.fromkeys(("DYNAMIC_UPDATE_SLICE", "REDUCE_WINDOW", "REVERSE_SEQUENCE"), _NONE),
    **dict.fromkeys(("CALL", "STABLEHLO_COMPOSITE", "STABLEHLO_WHILE"), _WHOLE),
    **dict.fromkeys(("DELEGATE",), _HIDDEN),
    **{f"STABLEHLO_{name}": _STABLEHLO for name in _STABLEHLO_NAMES},
}


refuse_operators(TABLE, REASONS)
