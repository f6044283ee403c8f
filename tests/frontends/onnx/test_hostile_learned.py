"""Operators of ai.onnx.ml whose lists do not fit each other, or unfold without end, end in a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tpuc.api import InvalidModel, Unsupported
from tpuc_onnx import trees as importing

from tests.families import each
from tests.frontends.onnx.networks import read
from tests.frontends.onnx.test_learned import COLUMNS, Attributes, model_of, said, trees

SOUND = said(
    np.random.default_rng(0), trees(np.random.default_rng(0), 3, 3, ["BRANCH_LEQ"], missing=False), "target", [0, 1], -1
)
FIRST = SOUND["nodes_modes"].index("BRANCH_LEQ")


def changed(name: str, value: Any, place: int = FIRST) -> Attributes:
    values = [*SOUND[name]]
    values[place] = value
    return {**SOUND, "n_targets": 2, name: values}


def shared_sons(levels: int) -> Attributes:
    """Each decision leads to the next one either way: 2 ** levels leaves of a few numbers."""
    nodes: dict[str, list[Any]] = {
        "treeids": [0] * (levels + 1),
        "nodeids": [*range(levels + 1)],
        "featureids": [0] * (levels + 1),
        "values": [0.0] * (levels + 1),
        "modes": ["BRANCH_LEQ"] * levels + ["LEAF"],
        "truenodeids": [*range(1, levels + 1), 0],
        "falsenodeids": [*range(1, levels + 1), 0],
    }
    said_by_leaf: Attributes = {"target_treeids": [0], "target_nodeids": [levels], "target_ids": [0]}
    return {**{f"nodes_{name}": column for name, column in nodes.items()}, **said_by_leaf, "target_weights": [1.0]}


def vectors(counts: list[int], scores: int, **more: Any) -> Attributes:
    attributes = {"vectors_per_class": counts, "rho": [0.5] * scores, "kernel_params": [0.5, 0.0, 3.0]}
    attributes |= {"support_vectors": [0.5] * COLUMNS * 4, "coefficients": [0.5] * 4, "kernel_type": "RBF"}
    return {**attributes, "classlabels_ints": [*range(len(counts))], **more}


def refused(op: str, attributes: Attributes, outputs: str, folder: Path) -> str:
    with pytest.raises((InvalidModel, Unsupported)) as caught:
        read(model_of(op, attributes, outputs), folder)
    return str(caught.value)


@each(
    ("attributes", "expected"),
    [
        (changed("nodes_truenodeids", SOUND["nodes_nodeids"][FIRST]), "decisions of tree 0 lead back to themselves"),
        (changed("nodes_featureids", COLUMNS), "a decision asks for feature 4 of 4"),
        (changed("nodes_featureids", -1), "a decision asks for feature -1 of 4"),
        (
            changed("nodes_truenodeids", 1 << 40),
            "its attributes and operands contradict each other: (0, 1099511627776)",
        ),
        (changed("target_ids", -1), "a leaf speaks of target -1 of 2"),
        (changed("target_ids", 2), "a leaf speaks of target 2 of 2"),
        ({**SOUND, "n_targets": 1 << 24}, "numbers, more than 67108864; train fewer or shallower trees"),
        ({**SOUND, "nodes_values": SOUND["nodes_values"][1:]}, "nodes_values has"),
        ({**SOUND, "n_targets": 2, "aggregate_function": "MEDIAN"}, "supported ones are AVERAGE, MAX, MIN, SUM"),
        (shared_sons(40), "its trees take more than 16384 numbers as products; train fewer or shallower trees"),
    ],
)
def test_trees(attributes: Attributes, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "_MOST", 1 << 14)
    assert expected in refused("TreeEnsembleRegressor", attributes, "y", tmp_path)


@each(
    ("attributes", "expected"),
    [
        (vectors([1] * 3000, 3), "3000 classes have 4498500 pairs, and rho 3 numbers"),
        (vectors([3, -1], 1), "2 classes have 1 pairs, and rho 1 numbers"),
        (vectors([1 << 40, 2], 1), "its 2 classes and 1099511627778 vectors take"),
        (vectors([1] * 90, 4005, prob_a=[1.0] * 4005), "its 90 classes and 90 vectors take 32440500 numbers"),
    ],
)
def test_vectors(attributes: Attributes, expected: str, tmp_path: Path) -> None:
    assert expected in refused("SVMClassifier", attributes, "label p", tmp_path)
