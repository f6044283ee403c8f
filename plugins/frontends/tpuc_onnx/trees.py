"""Trees of decisions (ai.onnx.ml), in products: which decisions are true, which leaf they lead to, what it says.

The decisions of all trees are compared at once. A leaf is reached where as many decisions on its path are true, less
those that should be false and are true, as should be: counts are exact in floats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto
from tpuc.api import Unsupported
from tpuc_ops.arrays import Array

from tpuc_onnx.decisions import attribute, both, decided, decided_by_one, floats, labels_of, transformed
from tpuc_onnx.script import Script

_COMPARED = {
    "BRANCH_EQ": "Equal",
    "BRANCH_GT": "Greater",
    "BRANCH_GTE": "GreaterOrEqual",
    "BRANCH_LEQ": "LessOrEqual",
    "BRANCH_LT": "Less",
}
_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_EQ")
"""The modes of TreeEnsemble by number; the last asks for membership of a set."""
_MEMBER = len(_MODES) - 1
_LISTS = [f"nodes_{name}" for name in ("featureids", "values", "modes", "truenodeids", "falsenodeids")]
_MOST = 1 << 24
"""Numbers of the matrix from decisions to leaves, padded to the largest tree."""
_MOST_SAID = 1 << 26
"""Numbers of the matrix from leaves to what they say."""


@dataclass(frozen=True)
class Tree:
    """The places of its decisions among all nodes, and for each leaf its place and the path: decision and outcome."""

    decisions: Sequence[int]
    leaves: Sequence[tuple[int, Sequence[tuple[int, bool]]]]


@dataclass(frozen=True)
class Ensemble:
    """Nodes of all trees as the attributes of the operator list them."""

    attributes: Mapping[str, Any]
    trees: Sequence[Tree]
    places: Mapping[tuple[int, int], int]
    """Of a node by its tree and its number."""


def read(script: Script, attributes: Mapping[str, Any]) -> Ensemble:
    """The trees in the order of their first node. Raises ValueError for lists that do not fit each other."""
    numbers = list(zip(attributes["nodes_treeids"], attributes["nodes_nodeids"], strict=True))
    for name in _LISTS:
        if len(attributes[name]) != len(numbers):
            raise ValueError(f"{name} has {len(attributes[name])} entries for {len(numbers)} nodes")
    places = {(int(tree), int(node)): index for index, (tree, node) in enumerate(numbers)}
    roots: dict[int, int] = {}
    for index, (tree, _) in enumerate(numbers):
        roots.setdefault(int(tree), index)
    trees: list[Tree] = []
    left = _MOST
    for tree, root in roots.items():
        trees.append(_tree(script, attributes, places, tree, root, left))
        left -= sum(len(path) for _, path in trees[-1].leaves)
    return Ensemble(attributes, trees, places)


def _tree(
    script: Script,
    attributes: Mapping[str, Any],
    places: Mapping[tuple[int, int], int],
    tree: int,
    root: int,
    most: int,
) -> Tree:
    """The lengths of all paths together, which are less than decisions x leaves, may be `most`."""
    total = 0
    decisions: list[int] = []
    leaves: list[tuple[int, Sequence[tuple[int, bool]]]] = []
    left: list[tuple[int, tuple[tuple[int, bool], ...]]] = [(root, ())]
    while left:
        index, path = left.pop()
        if attributes["nodes_modes"][index] == "LEAF":
            leaves.append((index, path))
            continue
        number = len(decisions)
        decisions.append(index)
        total += len(path)
        if len(path) >= len(places):
            raise ValueError(f"the decisions of tree {tree} lead back to themselves")
        if total > most:
            raise _too_large(script, f"its trees take more than {_MOST} numbers as products")
        for name, outcome in (("nodes_falsenodeids", False), ("nodes_truenodeids", True)):
            left.append((places[tree, int(attributes[name][index])], (*path, (number, outcome))))
    return Tree(decisions, leaves)


def _too_large(script: Script, what: str) -> Unsupported:
    return script.refused(f"{what}; train fewer or shallower trees")


def _reached(script: Script, ensemble: Ensemble) -> str:
    """1 for the leaf that each tree leads to, `[trees, n, leaves]`."""
    trees = ensemble.trees
    width = max(1, *(len(tree.decisions) for tree in trees))
    most = max(len(tree.leaves) for tree in trees)
    if len(trees) * width * most > _MOST:
        count = len(trees) * width * most
        raise _too_large(
            script, f"its {len(trees)} trees of up to {most} leaves take {count} numbers as products, more than {_MOST}"
        )
    nodes = np.full((len(trees), width), -1)
    paths, wanted = np.zeros((len(trees), width, most), np.float32), np.full((len(trees), 1, most), -1, np.float32)
    for index, tree in enumerate(trees):
        nodes[index, : len(tree.decisions)] = tree.decisions
        for leaf, (_, path) in enumerate(tree.leaves):
            for decision, outcome in path:
                paths[index, decision, leaf] = 1 if outcome else -1
            wanted[index, 0, leaf] = sum(outcome for _, outcome in path)
    truths = _truths(script, ensemble.attributes, nodes)
    counts = script("MatMul", truths, script.constant("paths", paths))
    return script("Cast", script("Equal", counts, script.constant("wanted", wanted)), to=TensorProto.FLOAT)


def _truths(script: Script, attributes: Mapping[str, Any], nodes: Array) -> str:
    """Which decisions `[trees, n, decisions]` are true, as 0 and 1."""
    modes = {str(mode) for mode in np.array(attributes["nodes_modes"])[nodes[nodes >= 0]]}
    rows = script("Unsqueeze", floats(script, script.node.inputs[0]), script.constant("first", np.array([0])))
    count = script.shape(script.node.inputs[0])[0]
    features = np.where(nodes >= 0, np.array(attributes["nodes_featureids"])[nodes], 0)
    width = script.shape(script.node.inputs[0])[-1]
    if features.min() < 0 or features.max() >= width:
        wrong = features.min() if features.min() < 0 else features.max()
        raise ValueError(f"a decision asks for feature {wrong} of {width}")
    picked = script("Gather", rows, script.constant("features", features.reshape(-1)), axis=2)
    picked = script("Reshape", picked, script.constant("apart", np.array([count, *nodes.shape])))
    picked = script("Transpose", picked, perm=[1, 0, 2])
    limits = np.where(nodes >= 0, np.array(attributes["nodes_values"], np.float32)[nodes], 0)[:, None]
    limit = script.constant("limits", limits.astype(np.float32))
    truths: list[str] = []
    for mode in sorted(modes) or ["BRANCH_LEQ"]:
        own = np.array([[index >= 0 and attributes["nodes_modes"][index] == mode for index in row] for row in nodes])
        kind = _COMPARED.get(mode)
        if mode == "BRANCH_NEQ":
            truth = script("Not", script("Equal", picked, limit))
        elif kind is None:
            raise script.refused(f"decisions of the mode {mode} are not supported")
        else:
            truth = script(kind, picked, limit)
        truth = script("Cast", truth, to=TensorProto.FLOAT)
        if len(modes) > 1:
            truth = script("Mul", truth, script.constant(f"own_{mode}", own[:, None].astype(np.float32)))
        truths.append(truth)
    total = truths[0]
    for other in truths[1:]:
        total = script("Add", total, other)
    return _with_missing(script, attributes, nodes, picked, total)


def _with_missing(script: Script, attributes: Mapping[str, Any], nodes: Array, picked: str, truths: str) -> str:
    """Numbers that are missing go where `nodes_missing_value_tracks_true` says."""
    tracks = np.array(attributes.get("nodes_missing_value_tracks_true", ()))
    if not tracks.any():
        return truths
    true = np.where(nodes >= 0, tracks[nodes], 0)[:, None].astype(np.float32)
    missing = script("Cast", script("IsNaN", picked), to=TensorProto.FLOAT)
    return script("Max", truths, script("Mul", missing, script.constant("tracks", true)))


def _weights(script: Script, ensemble: Ensemble, kind: str, count: int) -> tuple[Array, Array]:
    """What each leaf says, `[trees, leaves, count]`, and of what it says something."""
    attributes, trees = ensemble.attributes, ensemble.trees
    most = max(len(tree.leaves) for tree in trees)
    if len(trees) * most * count > _MOST_SAID:
        raise _too_large(
            script, f"what its leaves say takes {len(trees) * most * count} numbers, more than {_MOST_SAID}"
        )
    weights = np.zeros((len(trees), most, count), np.float32)
    says = np.zeros(weights.shape, bool)
    where: dict[int, list[tuple[int, int]]] = {}
    for index, tree in enumerate(trees):
        for leaf, (place, _) in enumerate(tree.leaves):
            where.setdefault(place, []).append((index, leaf))
    names = [attributes[f"{kind}_{name}"] for name in ("treeids", "nodeids", "ids", "weights")]
    for tree, node, index, weight in zip(*names, strict=True):
        if not 0 <= int(index) < count:
            raise ValueError(f"a leaf speaks of {kind} {index} of {count}")
        for place in where.get(ensemble.places[int(tree), int(node)], ()):
            weights[(*place, int(index))] += np.float32(weight)
            says[(*place, int(index))] = True
    return weights, says


def _said(script: Script, ensemble: Ensemble, kind: str, count: int, how: str) -> str:
    """What all trees say together, `[n, count]`."""
    weights, says = _weights(script, ensemble, kind, count)
    reached = _reached(script, ensemble)
    if how in ("MIN", "MAX"):
        return _extreme(script, reached, weights, says, how)
    each = script("MatMul", reached, script.constant("weights", weights))
    if how not in ("SUM", "AVERAGE"):
        raise script.refused(
            f"aggregate_function {how} is not supported; the supported ones are AVERAGE, MAX, MIN, SUM"
        )
    total = script("ReduceSum", each, script.constant("trees", np.array([0])), keepdims=0)
    if how != "AVERAGE":
        return total
    return script("Mul", total, script.constant("share", np.float32(1 / len(ensemble.trees))))


def _extreme(script: Script, reached: str, weights: Array, says: Array, how: str) -> str:
    """The least or largest of what is said, or 0 where no tree says anything.

    A leaf that says nothing of a target gets what changes no extreme: the largest or least that any leaf says of it.
    """
    trees = script.constant("trees", np.array([0]))
    least = how == "MIN"
    kept = np.where(says, weights, -np.inf if least else np.inf)
    other = kept.max(axis=(0, 1)) if least else kept.min(axis=(0, 1))
    filled = np.where(says, weights, np.where(np.isfinite(other), other, 0)).astype(np.float32)
    each = script("MatMul", reached, script.constant("weights", filled))
    extreme = script("ReduceMin" if least else "ReduceMax", each, trees, keepdims=0)
    leaves = np.array([[one.any() for one in tree] for tree in says])
    if all(tree[used].all() for tree, used in zip(says, leaves, strict=True)):
        return extreme
    spoken = script("MatMul", reached, script.constant("says", says.astype(np.float32)))
    return script("Mul", extreme, script("ReduceMax", spoken, trees, keepdims=0))


def _with_base(script: Script, scores: str) -> str:
    base = attribute(script, "base_values")
    return script("Add", scores, script.constant("base", base[None])) if base.size else scores


def tree_ensemble_regressor(script: Script) -> None:
    """The sum, mean, least or largest of what the leaves say."""
    attributes = script.node.attributes
    how = attributes.get("aggregate_function", "SUM")
    scores = _said(script, read(script, attributes), "target", attributes.get("n_targets", 1), how)
    transformed(script, _with_base(script, scores), attributes.get("post_transform", "NONE"), script.node.outputs[0])


def tree_ensemble_classifier(script: Script) -> None:
    """Sums of what the leaves say of each class; of two classes only one may have a score."""
    attributes, labels = script.node.attributes, labels_of(script)
    named = {int(index) for index in attributes["class_ids"]}
    scores = _said(script, read(script, attributes), "class", len(labels), "SUM")
    if len(labels) == 2:
        _decided_of_two(script, scores, labels, sorted(named))
        return
    scores = _with_base(script, scores)
    unknown = np.array([index not in named for index in range(len(labels))])
    decided(script, scores, labels, None if attribute(script, "base_values").size else unknown)
    transformed(script, scores, attributes.get("post_transform", "NONE"), script.node.outputs[1])


def _decided_of_two(script: Script, scores: str, labels: Array, named: Sequence[int]) -> None:
    """ONNX Runtime asks the score of the second class alone, or the only one, whichever class that is given to."""
    attributes = script.node.attributes
    transform, base = attributes.get("post_transform", "NONE"), attribute(script, "base_values").size
    if base > (named == [0]):
        raise script.refused(
            f"its trees score {'one class' if len(named) == 1 else 'both classes'}, but base_values has "
            f"{base} numbers, and the combination is ambiguous; add them to the leaves of a tree"
        )
    score = script("Gather", scores, script.constant("own", np.array([named[-1]])), axis=1)
    score = _with_base(script, score)
    is_share = len(named) == 1 and bool((attribute(script, "class_weights") >= 0).all())
    decided_by_one(script, score, labels, 0.5 if is_share else 0.0)
    if named == [0]:
        is_logistic = transform == "LOGISTIC"
        scores = both(script, score, "whole" if is_share and not is_logistic else "negative")
        transform = transform if is_logistic else "NONE"
    transformed(script, scores, transform, script.node.outputs[1])


def tree_ensemble(script: Script) -> None:
    """The operator of version 5, which keeps leaves apart from decisions and names its choices by numbers."""
    attributes = script.node.attributes
    how = _named(script, "aggregate_function", 1, ("AVERAGE", "SUM", "MIN", "MAX"))
    transform = _named(script, "post_transform", 0, ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"))
    ensemble = read(script, _of_older_kind(script, attributes))
    scores = _said(script, ensemble, "target", attributes.get("n_targets", 1), how)
    transformed(script, scores, transform, script.node.outputs[0])


def _named(script: Script, name: str, usual: int, names: Sequence[str]) -> str:
    number = int(script.node.attributes.get(name, usual))
    if not 0 <= number < len(names):
        raise ValueError(f"{name} is {number}, and there are {len(names)}")
    return names[number]


def _of_older_kind(script: Script, attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """The lists of the operators before, tree by tree: a leaf has the numbers behind those of all decisions.

    A decision about membership of a set becomes one about equality for each member, one after the other.
    """
    values, modes = np.ravel(attributes["nodes_splits"]), np.ravel(attributes["nodes_modes"])
    count, said = len(modes), np.ravel(attributes["leaf_weights"])
    features, targets = attributes["nodes_featureids"], attributes["leaf_targetids"]
    tracks = attributes.get("nodes_missing_value_tracks_true") or [0] * count
    ways = [
        np.asarray(attributes[f"nodes_{way}nodeids"]) + count * (np.asarray(attributes[f"nodes_{way}leafs"]) != 0)
        for way in ("true", "false")
    ]
    if modes.max(initial=0) >= len(_MODES):
        raise ValueError(f"a decision has mode {modes.max()}, and there are {len(_MODES)}")
    members, end = _members(attributes, modes), count + len(targets)
    rows: list[tuple[int, int, int, float, str, int, int, int]] = []
    leaves: list[tuple[int, int]] = []
    for tree, root in enumerate(attributes["tree_roots"]):
        seen, left, extra = set[int](), [int(root)], end
        while left:
            node = left.pop()
            if node in seen:
                continue
            seen.add(node)
            if len(rows) > _MOST:  # trees may share all their decisions
                raise _too_large(script, f"its {len(attributes['tree_roots'])} trees have more than {_MOST} nodes")
            if not 0 <= node < end:
                raise ValueError(f"a decision leads to {node}, and there are {end} decisions and leaves")
            if node >= count:
                leaves.append((tree, node))
                rows.append((tree, node, 0, 0.0, "LEAF", 0, 0, 0))
                continue
            true, false = (int(way[node]) for way in ways)
            left += [true, false]
            asked = members.get(node, [values[node]])
            mode = _MODES[int(modes[node])]
            numbers = [node, *range(extra, extra + len(asked) - 1), false]
            extra += len(asked) - 1
            for number, other, value in zip(numbers, numbers[1:], asked, strict=False):
                rows.append((tree, number, int(features[node]), float(value), mode, true, other, int(tracks[node])))
    names = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    lists = [*zip(*rows, strict=True)] or [()] * 8
    return {
        **{f"nodes_{name}": one for name, one in zip(names, lists, strict=False)},
        "nodes_missing_value_tracks_true": lists[-1],
        "target_treeids": [tree for tree, _ in leaves],
        "target_nodeids": [node for _, node in leaves],
        "target_ids": [targets[node - count] for _, node in leaves],
        "target_weights": [said[node - count] for _, node in leaves],
    }


def _members(attributes: Mapping[str, Any], modes: Array) -> Mapping[int, Array]:
    """The members of each decision about a set: in order of the decisions, with NaN behind each set."""
    asking = np.flatnonzero(modes == _MEMBER)
    values = np.ravel(attributes.get("membership_values", ()))
    ends = np.flatnonzero(np.isnan(values))
    if len(ends) < len(asking):
        raise ValueError(f"membership_values has {len(ends)} sets for {len(asking)} decisions")
    starts = [0, *(ends + 1)]
    sets = [values[start:end] for start, end in zip(starts, ends, strict=False)]
    if not all(map(len, sets)):
        raise ValueError("a set of membership_values has no members")
    return dict(zip(asking.tolist(), sets, strict=False))


TREES = {
    "ai.onnx.ml::TreeEnsemble": tree_ensemble,
    "ai.onnx.ml::TreeEnsembleClassifier": tree_ensemble_classifier,
    "ai.onnx.ml::TreeEnsembleRegressor": tree_ensemble_regressor,
}
