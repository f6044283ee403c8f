"""TreeEnsemble of ai.onnx.ml 5, compared with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tpuc.api import InvalidModel, Unsupported
from tpuc.interpreter import Interpreter
from tpuc_onnx import trees

from tests.families import each
from tests.frontends.onnx.networks import network, node, read, run_onnx
from tests.frontends.onnx.test_learned import COLUMNS, ML, ROWS, Attributes, grid

MEMBER = 6
EXCHANGED = (0, 2, 1)
"""ONNX says that 1 is SOFTMAX and 2 LOGISTIC; ONNX Runtime 1.32 takes them the other way round, and
leaves a single target as it is.
"""
LISTS = ("featureids", "splits", "modes", "truenodeids", "trueleafs", "falsenodeids", "falseleafs")


def ensemble(random: np.random.Generator, count: int, modes: list[int], targets: int) -> Attributes:
    """Random trees; their roots decide, as leaves alone cannot be roots."""
    nodes: dict[str, list[Any]] = {name: [] for name in LISTS}
    members: list[float] = []
    leaves: list[int] = []

    def grown(depth: int) -> tuple[int, int]:
        """The number of a new decision, or of a new leaf, and which."""
        if depth and random.random() < 0.2 * depth:
            leaves.append(int(random.integers(targets)))
            return len(leaves) - 1, 1
        own, mode = len(nodes["modes"]), int(random.choice(modes))
        for name in LISTS:
            nodes[name].append(0)
        nodes["featureids"][own], nodes["modes"][own] = int(random.integers(COLUMNS)), mode
        nodes["splits"][own] = float(random.integers(-3, 4) / 2)
        if mode == MEMBER:
            members.extend([*random.choice([1.0, 2.0, 3.0], int(random.integers(1, 4)), replace=False), np.nan])
        for way in ("true", "false"):
            nodes[f"{way}nodeids"][own], nodes[f"{way}leafs"][own] = grown(depth + 1)
        return own, 0

    roots = [grown(0)[0] for _ in range(count)]
    found: Attributes = {f"nodes_{name}": column for name, column in nodes.items()}
    found["nodes_splits"] = numbers("nodes_splits", nodes["splits"])
    found["nodes_modes"] = helper.make_tensor("nodes_modes", TensorProto.UINT8, [len(nodes["modes"])], nodes["modes"])
    if members:
        found["membership_values"] = numbers("membership_values", members)
    weights = numbers("leaf_weights", random.uniform(-1, 1, len(leaves)).tolist())
    return {**found, "tree_roots": roots, "leaf_targetids": leaves, "leaf_weights": weights, "n_targets": targets}


def numbers(name: str, values: list[float]) -> onnx.TensorProto:
    return helper.make_tensor(name, TensorProto.FLOAT, [len(values)], values)


def model_of(attributes: Mapping[str, Any]) -> onnx.ModelProto:
    model = network([node("TreeEnsemble", "x", "y", domain=ML, **attributes)], {"x": (ROWS, COLUMNS)}, ["y"], opset=20)
    model.opset_import.append(helper.make_opsetid(ML, 5))
    return model


@each("seed", range(24))
def test_trees_with_leaves_apart(seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    modes = [seed % 7] if seed < 14 else [0, 1, 2, 3, 4, 5, MEMBER]
    attributes = ensemble(random, int(random.integers(1, 5)), modes, int(random.integers(1, 3)))
    attributes["aggregate_function"] = seed % 4
    is_holey = seed % 5 == 1 and MEMBER not in modes
    if is_holey:
        count = len(attributes["nodes_featureids"])
        attributes["nodes_missing_value_tracks_true"] = random.integers(0, 2, count).tolist()
    x, transform = grid(random, is_holey), (0, 1, 2)[seed % 3] if attributes["n_targets"] > 1 else 0
    got = Interpreter(read(model_of({**attributes, "post_transform": transform}), tmp_path)).run({"x": x})
    theirs = model_of({**attributes, "post_transform": EXCHANGED[transform]})
    np.testing.assert_allclose(got["y"], run_onnx(theirs, {"x": x})["y"], rtol=1e-4, atol=1e-5)


SOUND = ensemble(np.random.default_rng(1), 2, [0, MEMBER], 2)


@each(
    ("attributes", "expected"),
    [
        ({"tree_roots": [1 << 40]}, "a decision leads to 1099511627776, and there are"),
        ({"tree_roots": [-1]}, "a decision leads to -1, and there are"),
        ({"nodes_featureids": [0]}, "Attribute 'nodes_featureids' must have"),
        ({"leaf_targetids": [0]}, "'leaf_targetids' length is 1"),
        ({"leaf_targetids": [9] * len(SOUND["leaf_targetids"])}, "a leaf speaks of target 9 of 2"),
        ({"aggregate_function": 4}, "aggregate_function is 4, and there are 4"),
        ({"post_transform": -1}, "post_transform is -1, and there are 5"),
        ({"membership_values": numbers("membership_values", [np.nan] * 99)}, "a set of membership_values has no"),
        ({"membership_values": numbers("membership_values", [1.0])}, "membership_values has 0 sets for"),
        ({"nodes_missing_value_tracks_true": [0]}, "Attribute 'nodes_missing_value_tracks_true' must have"),
        (
            {name: [0] * len(SOUND["nodes_featureids"]) for name in ("nodes_truenodeids", "nodes_trueleafs")},
            "decisions of tree 0 lead back to themselves",
        ),
        (
            {
                "nodes_modes": helper.make_tensor(
                    "nodes_modes",
                    TensorProto.UINT8,
                    [len(SOUND["nodes_featureids"])],
                    [7] * len(SOUND["nodes_featureids"]),
                )
            },
            "a decision has mode 7, and there are 7",
        ),
    ],
)
def test_trees_that_contradict_themselves(attributes: Attributes, expected: str, tmp_path: Path) -> None:
    with pytest.raises((InvalidModel, Unsupported)) as caught:
        read(model_of({**SOUND, **attributes}), tmp_path)
    assert expected in str(caught.value)


def test_trees_that_share_all_decisions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short list of roots may ask for any number of copies."""
    monkeypatch.setattr(trees, "_MOST", 1 << 10)
    with pytest.raises(Unsupported, match="its 500 trees have more than 1024 nodes; train fewer or shallower trees"):
        read(model_of({**SOUND, "tree_roots": SOUND["tree_roots"][:1] * 500}), tmp_path)
