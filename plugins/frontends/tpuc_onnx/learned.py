"""Operators of ai.onnx.ml: linear models, scalers and encoders, in operators of ONNX."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from onnx import TensorProto

from tpuc_onnx.decisions import (
    attribute,
    both,
    decided,
    decided_by_one,
    floats,
    labels_of,
    number,
    transformed,
)
from tpuc_onnx.script import Script
from tpuc_onnx.trees import TREES
from tpuc_onnx.vectors import VECTORS


def _linear(script: Script, rows: int) -> str:
    """`[n, rows]`."""
    x = floats(script, script.node.inputs[0])
    matrix = attribute(script, "coefficients").reshape(rows, -1).T
    product = script("MatMul", x, script.constant("coefficients", np.ascontiguousarray(matrix)))
    offsets = attribute(script, "intercepts")
    return script("Add", product, script.constant("intercepts", offsets[None])) if offsets.size else product


def linear_classifier(script: Script) -> None:
    """Two classes may share one score."""
    labels, transform = labels_of(script), script.node.attributes.get("post_transform", "NONE")
    width = script.shape(script.node.inputs[0])[-1]
    rows = attribute(script, "coefficients").size // width
    scores = _linear(script, rows)
    if rows > 1:
        decided(script, scores, labels)
        transformed(script, scores, transform, script.node.outputs[1])
        return
    decided_by_one(script, scores, labels, 0.0)
    logistic = transform == "LOGISTIC"
    pair = both(script, scores, "negative" if logistic else "whole")
    transformed(script, pair, "LOGISTIC" if logistic else "NONE", script.node.outputs[1])


def linear_regressor(script: Script) -> None:
    """A product and a sum."""
    attributes = script.node.attributes
    scores = _linear(script, attributes.get("targets", 1))
    transformed(script, scores, attributes.get("post_transform", "NONE"), script.node.outputs[0])


def scaler(script: Script) -> None:
    """(x - offset) * scale."""
    moved = script("Sub", floats(script, script.node.inputs[0]), script.constant("offset", attribute(script, "offset")))
    script("Mul", moved, script.constant("scale", attribute(script, "scale")), result=script.node.outputs[0])


def normalizer(script: Script) -> None:
    """Each row divided by its largest number, its sum of magnitudes or its length; rows of zeros stay."""
    x, axis = floats(script, script.node.inputs[0]), script.constant("last", np.array([-1]))
    kind = {"MAX": "ReduceMax", "L1": "ReduceL1", "L2": "ReduceL2"}[script.node.attributes.get("norm", "MAX")]
    size = script(kind, x, axis, keepdims=1)
    nothing = script("Equal", size, number(script, "zero", 0))
    script("Div", x, script("Where", nothing, number(script, "one", 1), size), result=script.node.outputs[0])


def binarizer(script: Script) -> None:
    """1 above the threshold, 0 elsewhere."""
    limit = number(script, "threshold", script.node.attributes.get("threshold", 0.0))
    above = script("Greater", floats(script, script.node.inputs[0]), limit)
    script("Cast", above, to=TensorProto.FLOAT, result=script.node.outputs[0])


def imputer(script: Script) -> None:
    """Numbers of a kind, or those that are missing, replaced by one for each column."""
    attributes, x = script.node.attributes, script.node.inputs[0]
    if attributes.get("imputed_value_int64s"):
        new, old = np.array(attributes["imputed_value_int64s"], np.int64), attributes.get("replaced_value_int64", 0)
        replaced = script("Equal", x, script.constant("old", np.int64(old)))
    else:
        new, old = attribute(script, "imputed_value_floats"), attributes.get("replaced_value_float", 0.0)
        replaced = script("IsNaN", x) if np.isnan(old) else script("Equal", x, number(script, "old", old))
    script("Where", replaced, script.constant("new", new), x, result=script.node.outputs[0])


def label_encoder(script: Script) -> None:
    """A table from numbers to numbers."""
    attributes = script.node.attributes
    sides = [
        next((attributes[f"{side}_{kind}"] for kind in ("int64s", "floats") if attributes.get(f"{side}_{kind}")), None)
        for side in ("keys", "values")
    ]
    keys, values = (
        np.array(side or (), np.int64 if isinstance(side and side[0], int) else np.float32) for side in sides
    )
    if not keys.size or not values.size:
        raise script.refused(
            "it works on text, but networks compute numbers; end the network before it with --output-names"
        )
    whole = values.dtype == np.int64
    rest = attributes.get("default_int64", -1) if whole else attributes.get("default_float", -0.0)
    x = script("Unsqueeze", script.node.inputs[0], script.constant("last", np.array([-1])))
    same = script("Equal", x, script.constant("keys", keys))
    if keys.dtype == np.float32 and np.isnan(keys).any():
        missing = script("And", script("IsNaN", x), script.constant("missing", np.isnan(keys)))
        same = script("Or", same, missing)
    # the first key that is equal counts: `first` is where it stands, behind all others where there is none
    order = np.arange(len(keys), 0, -1).astype(np.float32)
    ranks = script("Mul", script("Cast", same, to=TensorProto.FLOAT), script.constant("order", order))
    best = script("ReduceMax", ranks, script.constant("axis", np.array([-1])), keepdims=0)
    table = np.concatenate([np.array([rest], values.dtype), values[::-1]])
    places = script("Cast", best, to=TensorProto.INT64)
    script("Gather", script.constant("table", table), places, result=script.node.outputs[0])


def one_hot_encoder(script: Script) -> None:
    """1 in the column of the category, 0 elsewhere."""
    categories = script.node.attributes.get("cats_int64s")
    if not categories:
        raise script.refused(
            "its categories are texts, but networks compute numbers; start the network after it with --input-names"
        )
    x = script("Unsqueeze", script.node.inputs[0], script.constant("last", np.array([-1])))
    kind = script.types.elem_type(script.node.inputs[0])
    dtype = np.float32 if kind == TensorProto.FLOAT else np.int64
    same = script("Equal", x, script.constant("categories", np.array(categories, dtype)))
    script("Cast", same, to=TensorProto.FLOAT, result=script.node.outputs[0])


def array_feature_extractor(script: Script) -> None:
    """Columns of the last dimension."""
    x, places = script.node.inputs[:2]
    flat = script("Reshape", places, script.constant("flat", np.array([-1])))
    if len(script.shape(x)) == 1:
        x = script("Unsqueeze", x, script.constant("first", np.array([0])))
    script("Gather", x, flat, axis=-1, result=script.node.outputs[0])


def feature_vectorizer(script: Script) -> None:
    """Columns one behind the other, as floats."""
    parts = [floats(script, name) for name in script.node.inputs]
    script("Concat", *parts, axis=1, result=script.node.outputs[0])


def zip_map(script: Script) -> None:
    """The numbers without the names that a program would look them up by."""
    script("Identity", script.node.inputs[0], result=script.node.outputs[0])


LEARNED: Mapping[str, Callable[[Script], Any]] = {
    **TREES,
    **VECTORS,
    "ai.onnx.ml::ArrayFeatureExtractor": array_feature_extractor,
    "ai.onnx.ml::Binarizer": binarizer,
    "ai.onnx.ml::FeatureVectorizer": feature_vectorizer,
    "ai.onnx.ml::Imputer": imputer,
    "ai.onnx.ml::LabelEncoder": label_encoder,
    "ai.onnx.ml::LinearClassifier": linear_classifier,
    "ai.onnx.ml::LinearRegressor": linear_regressor,
    "ai.onnx.ml::Normalizer": normalizer,
    "ai.onnx.ml::OneHotEncoder": one_hot_encoder,
    "ai.onnx.ml::Scaler": scaler,
    "ai.onnx.ml::ZipMap": zip_map,
}
