"""Support vector machines of ai.onnx.ml: kernel values with vectors, a decision for each pair of classes, votes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto
from tpuc_ops.arrays import Array

from tpuc_onnx.decisions import attribute, both, decided, floats, labels_of, number, transformed
from tpuc_onnx.script import Script

_MOST = 1 << 24
"""Numbers of the matrices from vectors, and from classes, to pairs of classes."""


def svm_regressor(script: Script) -> None:
    """Likenesses with the support vectors, or a linear model."""
    attributes = script.node.attributes
    count, coefficients = attributes.get("n_supports", 0), attribute(script, "coefficients")
    x = script.node.inputs[0]
    likeness = _kernel(script, _vectors(script, count)) if count else floats(script, x)
    values = script("MatMul", likeness, script.constant("coefficients", coefficients[:, None]))
    values = script("Add", values, script.constant("rho", attribute(script, "rho")[None, :1]))
    if attributes.get("one_class", 0):
        positive = script("Cast", script("Greater", values, number(script, "zero", 0)), to=TensorProto.FLOAT)
        values = script("Sub", script("Mul", positive, number(script, "two", 2)), number(script, "one", 1))
    transformed(script, values, attributes.get("post_transform", "NONE"), script.node.outputs[0])


def svm_classifier(script: Script) -> None:
    """Scores of a linear model, or a decision for each pair of classes, with probabilities where the file has their
    curves.
    """
    labels, counts = labels_of(script), [int(count) for count in script.node.attributes.get("vectors_per_class", ())]
    transform = script.node.attributes.get("post_transform", "NONE")
    if not sum(counts):
        _by_scores(script, labels, transform)
        return
    _check_counts(script, counts)
    pairs = [(i, j) for i in range(len(counts)) for j in range(i + 1, len(counts))]
    scores = _decisions(script, counts, pairs)
    won = script("Cast", script("Greater", scores, number(script, "zero", 0)), to=TensorProto.FLOAT)
    winners, losers = _places(pairs, len(counts))
    decided(script, _shared(script, won, winners, losers, "votes"), labels)
    if len(script.node.outputs) < 2 or not script.node.outputs[1]:
        return
    if attribute(script, "prob_a").size:
        scores = _probabilities(script, scores, pairs, len(counts))
    elif len(pairs) == 1:
        # ONNX Runtime takes no softmax of one score
        is_logistic = transform == "LOGISTIC"
        scores = both(script, scores, "negative" if is_logistic or transform == "NONE" else "whole")
        transform = transform if is_logistic else "NONE"
    transformed(script, scores, transform, script.node.outputs[1])


def _check_counts(script: Script, counts: Sequence[int]) -> None:
    """Raise ValueError for lists that do not fit each other, and Unsupported for more numbers than a network has."""
    classes, vectors, scores = len(counts), sum(counts), attribute(script, "rho").size
    pairs = classes * (classes - 1) // 2
    if min(counts) < 0 or scores != pairs:
        raise ValueError(f"{classes} classes have {pairs} pairs, and rho {scores} numbers")
    curves = classes**2 if attribute(script, "prob_a").size and classes > 2 else classes
    if pairs * max(vectors, curves) > _MOST:
        raise script.refused(
            f"its {classes} classes and {vectors} vectors take {pairs * max(vectors, curves)} numbers as "
            f"products, more than {_MOST}; train it with fewer of them"
        )


def _by_scores(script: Script, labels: Array, transform: str) -> None:
    coefficients = attribute(script, "coefficients").reshape(max(len(labels), 1), -1)
    matrix = script.constant("coefficients", np.ascontiguousarray(coefficients.T))
    product = script("MatMul", floats(script, script.node.inputs[0]), matrix)
    scores = script("Add", product, script.constant("rho", attribute(script, "rho")[None, :1]))
    decided(script, scores, labels)
    transformed(script, scores, transform, script.node.outputs[1])


def _decisions(script: Script, counts: Sequence[int], pairs: Sequence[tuple[int, int]]) -> str:
    """The score of each pair of classes: above 0 the first one has a vote, else the second."""
    starts = np.concatenate([[0], np.cumsum(counts)])
    coefficients = attribute(script, "coefficients").reshape(len(counts) - 1, -1)
    matrix = np.zeros((coefficients.shape[1], len(pairs)), np.float32)
    for index, (first, second) in enumerate(pairs):
        for own, other in ((first, second - 1), (second, first)):
            vectors = slice(starts[own], starts[own + 1])
            matrix[vectors, index] = coefficients[other, vectors]
    likeness = _kernel(script, _vectors(script, sum(counts)))
    product = script("MatMul", likeness, script.constant("coefficients", matrix))
    return script("Add", product, script.constant("rho", attribute(script, "rho")[None]))


def _places(pairs: Sequence[tuple[int, int]], count: int) -> tuple[Array, Array]:
    """From pairs to their first and their second class, `[pairs, classes]`."""
    classes = np.eye(count, dtype=np.float32)
    return classes[[first for first, _ in pairs]], classes[[second for _, second in pairs]]


def _shared(script: Script, shares: str, first: Array, second: Array, name: str) -> str:
    """The shares of pairs `[n, pairs]` summed in the columns `first`, and what is left of 1 in the columns `second`."""
    product = script("MatMul", shares, script.constant(f"{name}_columns", first - second))
    return script("Add", product, script.constant(f"{name}_rest", second.sum(0, keepdims=True)))


def _probabilities(script: Script, scores: str, pairs: Sequence[tuple[int, int]], count: int) -> str:
    """Those of all classes from those inside each pair, which a logistic curve gives: r[i, j] of i against j.

    The probabilities p minimize the sum of (r[j, i] p[i] - r[i, j] p[j])^2 over all pairs (Wu, Lin and Weng, 2004).
    ONNX Runtime approaches them until what is left is below 0.005 / classes; this is the exact solution.
    """
    slopes, offsets = (attribute(script, name)[None] for name in ("prob_a", "prob_b"))
    curve = script("Mul", scores, script.constant("slopes", -slopes))
    curve = script("Sigmoid", script("Sub", curve, script.constant("offsets", offsets)))
    inside = script("Clip", curve, number(script, "least", 1e-7), number(script, "most", 1 - 1e-7))
    if count == 2:
        return script("Concat", inside, script("Sub", number(script, "whole", 1), inside), axis=1)
    # r[j, i] in row i: what i loses to j
    places = np.eye(count * count, dtype=np.float32)
    won, lost = ([i * count + j for i, j in pairs], [j * count + i for i, j in pairs])
    losses = _shared(script, inside, places[lost], places[won], "losses")
    size = script.constant("square", np.array([script.shape(script.node.inputs[0])[0], count, count]))
    losses = script("Reshape", losses, size)
    last = script.constant("last", np.array([-1]))
    weights = script("ReduceSum", script("Mul", losses, losses), last, keepdims=1)
    crossed = script("Mul", losses, script("Transpose", losses, perm=[0, 2, 1]))
    matrix = script(
        "Sub", script("Mul", weights, script.constant("identity", np.eye(count, dtype=np.float32))), crossed
    )
    # ones make the matrix regular and only scale the solution
    solution = _solved(script, script("Add", matrix, number(script, "one", 1)), count)
    return script("Div", solution, script("ReduceSum", solution, last, keepdims=1))


def _solved(script: Script, matrix: str, count: int) -> str:
    """`[n, count]`: what times the symmetric positive definite matrix gives ones, by elimination."""
    ones = script.constant("ones", np.ones((1, count, 1), np.float32))
    first = script("Mul", script("Slice", matrix, *_span(script, 0, 1, 2)), number(script, "nothing", 0))
    system = script("Concat", matrix, script("Add", first, ones), axis=2)
    for index in range(count):
        row = script("Slice", system, *_span(script, index, index + 1, 1))
        row = script("Div", row, script("Slice", row, *_span(script, index, index + 1, 2)))
        column = script("Slice", system, *_span(script, index, index + 1, 2))
        unit = np.eye(count, dtype=np.float32)[None, :, index : index + 1]
        others = script("Sub", column, script.constant(f"unit{index}", unit))
        system = script("Sub", system, script("MatMul", others, row))
    return script(
        "Squeeze", script("Slice", system, *_span(script, count, count + 1, 2)), script.constant("two_", np.array([2]))
    )


def _span(script: Script, start: int, end: int, axis: int) -> list[str]:
    return [
        script.constant(f"{word}{number}", np.array([number]))
        for word, number in zip(("from", "to", "axis"), (start, end, axis), strict=True)
    ]


def _vectors(script: Script, count: int) -> Array:
    return attribute(script, "support_vectors").reshape(count, -1)


def _kernel(script: Script, vectors: Array) -> str:
    """The likeness of each row with each vector, `[n, vectors]`."""
    gamma, offset, degree = (*attribute(script, "kernel_params"), 0.0, 0.0, 0.0)[:3]
    x, kind = floats(script, script.node.inputs[0]), script.node.attributes.get("kernel_type", "LINEAR")
    product = script("MatMul", x, script.constant("vectors", np.ascontiguousarray(vectors.T)))
    if kind == "LINEAR":
        return product
    if kind == "RBF":
        # |x - v|^2 as a sum of squares: the difference of large squares would lose what is near
        apart = script("Unsqueeze", x, script.constant("middle", np.array([1])))
        apart = script("Sub", apart, script.constant("all_vectors", vectors[None]))
        squares = script("ReduceSum", script("Mul", apart, apart), script.constant("last", np.array([2])), keepdims=0)
        return script("Exp", script("Mul", squares, number(script, "gamma", -gamma)))
    scaled = script("Mul", product, number(script, "gamma", gamma))
    scaled = script("Add", scaled, number(script, "offset", offset))
    if kind == "POLY":
        return script("Pow", scaled, number(script, "degree", degree))
    if kind == "SIGMOID":
        return script("Tanh", scaled)
    raise script.refused(f"kernel_type {kind} is not supported; the supported ones are LINEAR, POLY, RBF, SIGMOID")


VECTORS = {
    "ai.onnx.ml::SVMClassifier": svm_classifier,
    "ai.onnx.ml::SVMRegressor": svm_regressor,
}
