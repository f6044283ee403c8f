"""Operators of ai.onnx.ml, compared with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tpuc.api import Unsupported
from tpuc.interpreter import Interpreter

from tests.families import each
from tests.frontends.onnx.networks import Array, network, node, read, run_onnx, values

ML = "ai.onnx.ml"
ROWS, COLUMNS = 6, 4
Attributes: TypeAlias = dict[str, Any]


def model_of(
    op: str, attributes: Mapping[str, Any], outputs: str, elem_type: int = TensorProto.FLOAT
) -> onnx.ModelProto:
    """A network of one operator with one input of `ROWS` x `COLUMNS`."""
    model = network(
        [node(op, "x", outputs, domain=ML, **attributes)], {"x": (ROWS, COLUMNS)}, outputs.split(), opset=17
    )
    model.graph.input[0].type.tensor_type.elem_type = elem_type
    model.opset_import.append(helper.make_opsetid(ML, 3))
    return model


def assert_equal(model: onnx.ModelProto, x: Array, folder: Path, tolerance: float = 1e-5) -> None:
    got = Interpreter(read(model, folder)).run({"x": x.astype(np.float32)})
    for name, wanted in run_onnx(model, {"x": x}).items():
        rows = [[row[key] for key in sorted(row)] for row in wanted] if isinstance(wanted, list) else wanted
        np.testing.assert_allclose(np.ravel(got[name]), np.ravel(rows), rtol=1e-4, atol=tolerance, err_msg=name)


def trees(random: np.random.Generator, count: int, depth: int, modes: list[str], missing: bool) -> Attributes:
    """Random trees: their nodes, and the leaves as (tree, node)."""
    nodes: dict[str, list[Any]] = {
        name: [] for name in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    }
    leaves: list[tuple[int, int]] = []
    for tree in range(count):
        open_nodes, following = [(0, 0)], 1
        while open_nodes:
            own, level = open_nodes.pop(0)
            is_leaf = level == depth or (level > 0 and random.random() < 0.3)
            sons = (0, 0) if is_leaf else (following, following + 1)
            mode = "LEAF" if is_leaf else str(random.choice(modes))
            limit = 0.0 if is_leaf else float(np.float32(random.integers(-3, 4) / 2))
            for name, value in zip(nodes, (tree, own, int(random.integers(COLUMNS)), limit, mode, *sons), strict=True):
                nodes[name].append(value)
            if is_leaf:
                leaves.append((tree, own))
            else:
                open_nodes += [(son, level + 1) for son in sons]
                following += 2
    found: Attributes = {f"nodes_{name}": column for name, column in nodes.items()}
    if missing:
        found["nodes_missing_value_tracks_true"] = random.integers(0, 2, len(nodes["modes"])).tolist()
    return {**found, "leaves": leaves}


def said(random: np.random.Generator, attributes: Attributes, kind: str, classes: list[int], low: float) -> Attributes:
    """The trees with numbers for the leaves: one for each of `classes`, from `low` to 1."""
    rest = {name: value for name, value in attributes.items() if name != "leaves"}
    pairs = [(tree, own, index) for tree, own in attributes["leaves"] for index in classes]
    columns = [list(column) for column in zip(*pairs, strict=True)]
    names = [f"{kind}_{name}" for name in ("treeids", "nodeids", "ids")]
    return {
        **rest,
        **dict(zip(names, columns, strict=True)),
        f"{kind}_weights": random.uniform(low, 1, len(pairs)).tolist(),
    }


def grid(random: np.random.Generator, holes: bool = False) -> Array:
    """Halves, so that values equal the limits of trees, some of them missing."""
    x = (random.integers(-4, 5, (ROWS, COLUMNS)) / 2).astype(np.float32)
    return np.where(random.random(x.shape) < 0.2, np.float32(np.nan), x) if holes else x


COMPARED = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


@each("seed", range(12))
def test_regression_trees(seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    modes = [COMPARED[seed % 6]] if seed < 6 else COMPARED[:1]
    nodes = trees(random, int(random.integers(1, 5)), int(random.integers(0, 4)), modes, missing=seed % 2 == 1)
    targets = int(random.integers(1, 3))
    attributes = said(random, nodes, "target", [*range(targets)], -1)
    how = ("SUM", "AVERAGE", "MIN", "MAX")[seed % 4]
    attributes |= {"n_targets": targets, "aggregate_function": how}
    if seed % 3:
        attributes["base_values"] = random.uniform(-1, 1, targets).tolist()
    assert_equal(model_of("TreeEnsembleRegressor", attributes, "y"), grid(random, seed % 2 == 1), tmp_path)


@each("seed", range(32))
def test_classification_trees(seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    count = (2, 2, 3, 5)[seed % 4]
    named = ([0], [0, 1], [1])[seed % 3] if count == 2 else [*range(count)]
    nodes = trees(random, int(random.integers(1, 4)), 3, COMPARED[:2], missing=False)
    attributes = said(random, nodes, "class", named, (0.0, -1.0)[seed // 4 % 2])
    attributes["post_transform"] = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")[seed // 4 % 4]
    if named in ([0], [0, 1, 2]):
        attributes["base_values"] = random.uniform(-1, 1, len(named)).tolist()
    attributes["classlabels_int64s"] = [*range(count)] if seed % 3 else [7 * index - 3 for index in range(count)]
    assert_equal(model_of("TreeEnsembleClassifier", attributes, "label scores"), grid(random), tmp_path)


@each("kind", ["LINEAR", "POLY", "RBF", "SIGMOID"])
@each("curves", [False, True])
@each("classes", [2, 3, 5])
def test_support_vectors(kind: str, curves: bool, classes: int, tmp_path: Path) -> None:
    random = np.random.default_rng(classes)
    counts, pairs = [2, 1, 3, 2, 1][:classes], classes * (classes - 1) // 2
    attributes = {
        "classlabels_ints": [3 * index + 1 for index in range(classes)],
        "vectors_per_class": counts,
        "support_vectors": random.normal(size=sum(counts) * COLUMNS).tolist(),
        "coefficients": random.normal(size=sum(counts) * (classes - 1)).tolist(),
        "rho": random.normal(size=pairs).tolist(),
        "kernel_type": kind,
        "kernel_params": [0.4, 0.3, 2.0],
    }
    if curves:
        attributes |= {name: random.uniform(-2, -0.5, pairs).tolist() for name in ("prob_a", "prob_b")}
    else:
        attributes["post_transform"] = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")[(classes + len(kind)) % 4]
    # ONNX Runtime ends its approach to probabilities early
    tolerance = 0.005 if curves else 1e-5
    assert_equal(model_of("SVMClassifier", attributes, "label scores"), values(ROWS, COLUMNS), tmp_path, tolerance)


REGRESSION: Attributes = {
    "coefficients": [0.5, -1.0, 0.25, 2.0],
    "rho": [0.3],
    "kernel_params": [0.3, 0.1, 2.0],
    "n_supports": 4,
    "support_vectors": values(16, seed=3).tolist(),
}
MODELS: Mapping[str, tuple[str, Attributes, str]] = {
    "linear SVM": (
        "SVMClassifier",
        {
            "classlabels_ints": [4, 5, 9],
            "coefficients": values(3 * COLUMNS, seed=1).tolist(),
            "rho": [0.2, 0.1, 0.4],
            "kernel_params": [0.0, 0.0, 0.0],
        },
        "label scores",
    ),
    "SVR of a kernel": ("SVMRegressor", {**REGRESSION, "kernel_type": "RBF"}, "y"),
    "SVR of a product": ("SVMRegressor", {**REGRESSION, "kernel_type": "LINEAR", "n_supports": 0}, "y"),
    "one class": ("SVMRegressor", {**REGRESSION, "kernel_type": "POLY", "one_class": 1}, "y"),
    "one score": (
        "LinearClassifier",
        {"coefficients": [0.5, -1.0, 0.25, 2.0], "intercepts": [0.1], "classlabels_ints": [0, 1]},
        "label scores",
    ),
    "scores": (
        "LinearClassifier",
        {
            "coefficients": values(3 * COLUMNS).tolist(),
            "intercepts": [0.1, 0.2, -0.3],
            "classlabels_ints": [4, 8, 2],
            "post_transform": "SOFTMAX",
        },
        "label scores",
    ),
    "two targets": (
        "LinearRegressor",
        {"coefficients": values(2 * COLUMNS).tolist(), "intercepts": [0.1, 0.2], "targets": 2},
        "y",
    ),
    "scaler": ("Scaler", {"offset": [0.1, 0.2, 0.3, 0.4], "scale": [1.0, 2.0, 0.5, -1.0]}, "y"),
    "scaler of one number": ("Scaler", {"offset": [0.1], "scale": [2.0]}, "y"),
    "normalizer MAX": ("Normalizer", {"norm": "MAX"}, "y"),
    "normalizer L1": ("Normalizer", {"norm": "L1"}, "y"),
    "normalizer L2": ("Normalizer", {"norm": "L2"}, "y"),
    "binarizer": ("Binarizer", {"threshold": 0.5}, "y"),
    "imputer": ("Imputer", {"imputed_value_floats": [1.0, 2.0, 3.0, 4.0], "replaced_value_float": 0.5}, "y"),
    "imputer of what is missing": (
        "Imputer",
        {"imputed_value_floats": [9.0], "replaced_value_float": float("nan")},
        "y",
    ),
    "labels": (
        "LabelEncoder",
        {"keys_floats": [0.5, -1.0, 0.0, 0.5], "values_floats": [1.0, 2.0, 3.0, 4.0], "default_float": -9.0},
        "y",
    ),
    "labels of whole numbers": (
        "LabelEncoder",
        {"keys_floats": [0.5, 1.0], "values_int64s": [7, 8], "default_int64": 3},
        "y",
    ),
    "features": ("FeatureVectorizer", {"inputdimensions": [COLUMNS]}, "y"),
}


@each("case", MODELS)
def test_models_and_scalers(case: str, tmp_path: Path) -> None:
    op, attributes, outputs = MODELS[case]
    x = grid(np.random.default_rng(5), holes="missing" in case)
    x[1] = np.where(np.isnan(x[1]), x[1], 0)
    assert_equal(model_of(op, attributes, outputs), x, tmp_path)


TREE: Attributes = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [0, 0, 0],
    "nodes_values": [0.5, 0.0, 0.0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
    "class_treeids": [0, 0],
    "class_nodeids": [1, 2],
    "class_ids": [0, 0],
    "class_weights": [0.25, 0.75],
    "classlabels_int64s": [0, 1],
}


@each(
    ("op", "attributes", "expected"),
    [
        (
            "TreeEnsembleClassifier",
            {**TREE, "base_values": [0.5, 0.25]},
            (
                "its trees score one class, but base_values has 2 numbers, and the combination is ambiguous; add them "
                "to the leaves of a tree."
            ),
        ),
        (
            "TreeEnsembleClassifier",
            {**TREE, "nodes_modes": ["BRANCH_SOME", "LEAF", "LEAF"]},
            "decisions of the mode BRANCH_SOME are not supported.",
        ),
        (
            "LinearRegressor",
            {"coefficients": [1.0] * COLUMNS, "post_transform": "PROBIT"},
            "post_transform PROBIT is not supported; the supported ones are LOGISTIC, NONE, SOFTMAX, SOFTMAX_ZERO.",
        ),
        (
            "SVMRegressor",
            {**REGRESSION, "kernel_type": "OTHER"},
            "kernel_type OTHER is not supported; the supported ones are LINEAR, POLY, RBF, SIGMOID.",
        ),
        (
            "LabelEncoder",
            {"keys_floats": [1.0], "values_strings": ["a"]},
            "it works on text, but networks compute numbers; end the network before it with --output-names.",
        ),
        (
            "OneHotEncoder",
            {"cats_strings": ["a"]},
            "its categories are texts, but networks compute numbers; start the network after it with --input-names.",
        ),
    ],
)
def test_refusals(op: str, attributes: Attributes, expected: str, tmp_path: Path) -> None:
    outputs = "label scores" if op.endswith("Classifier") else "y"
    with pytest.raises(Unsupported) as caught:
        read(model_of(op, attributes, outputs), tmp_path)
    assert str(caught.value).endswith(f"({op}): {expected}")


def test_large_ensembles_are_refused(tmp_path: Path) -> None:
    """Above 2^24 numbers from decisions to leaves: here a tree of 4,200 decisions one behind the other."""
    count = 4200
    numbers = [*range(2 * count + 1)]
    attributes: Attributes = {
        "nodes_treeids": [0] * len(numbers),
        "nodes_nodeids": numbers,
        "nodes_featureids": [0] * len(numbers),
        "nodes_values": [0.0] * len(numbers),
        "nodes_modes": ["LEAF" if own >= count else "BRANCH_LT" for own in numbers],
        "nodes_truenodeids": [own + count if own < count else 0 for own in numbers],
        "nodes_falsenodeids": [own + 1 if own + 1 < count else 2 * count if own < count else 0 for own in numbers],
        "target_treeids": [0] * (count + 1),
        "target_nodeids": numbers[count:],
        "target_ids": [0] * (count + 1),
        "target_weights": [1.0] * (count + 1),
    }
    with pytest.raises(Unsupported, match="1 trees of up to 4201 leaves take 17644200 numbers as products, more than"):
        read(model_of("TreeEnsembleRegressor", attributes, "y"), tmp_path)


def sequence(nodes: list[onnx.NodeProto], outputs: list[str], inputs: Mapping[str, Any]) -> onnx.ModelProto:
    model = network(nodes, inputs, outputs, opset=17)
    model.opset_import.append(helper.make_opsetid(ML, 3))
    return model


def test_a_pipeline_with_named_probabilities(tmp_path: Path) -> None:
    """The dictionaries of ZipMap become a tensor with a column for each class."""
    nodes = [
        node("Scaler", "x", "s", domain=ML, offset=[0.5], scale=[2.0]),
        node(
            "LinearClassifier",
            "s",
            "label p",
            domain=ML,
            coefficients=values(3 * COLUMNS).tolist(),
            intercepts=[0.1, 0.2, 0.3],
            classlabels_ints=[1, 2, 3],
            post_transform="SOFTMAX",
        ),
        node("ZipMap", "p", "named", domain=ML, classlabels_int64s=[1, 2, 3]),
    ]
    assert_equal(sequence(nodes, ["label", "named"], {"x": (ROWS, COLUMNS)}), values(ROWS, COLUMNS), tmp_path)


@each(
    ("op", "inputs", "attributes"),
    [("ArrayFeatureExtractor", "x places", {}), ("OneHotEncoder", "x", {"cats_int64s": [3, -1, 0], "zeros": 1})],
)
def test_columns_and_categories(op: str, inputs: str, attributes: Attributes, tmp_path: Path) -> None:
    model = sequence([node(op, inputs, "y", domain=ML, **attributes)], ["y"], {"x": (ROWS, COLUMNS)})
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([2, 0, 2]), "places"))
    assert_equal(model, np.random.default_rng(1).integers(-1, 4, (ROWS, COLUMNS)).astype(np.float32), tmp_path)
