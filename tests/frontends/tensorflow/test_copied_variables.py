"""Keras 3 saves copies of the variables that a network computes with; both have the values of the checkpoint."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc_tensorflow.loading import variables
from tpuc_tensorflow.loading.graphs import Graph, GraphNode

KERNEL = np.arange(6, dtype=np.float32).reshape(2, 3)


class Checkpoint:
    """One tensor by its key."""

    def __init__(self, prefix: Path) -> None:
        self.prefix = prefix

    def __contains__(self, name: str) -> bool:
        return name == "_layers/1/_kernel"

    def array(self, name: str) -> NDArray[np.float32]:
        assert name in self
        return KERNEL


def node(name: str, op: str, *inputs: str, array: NDArray[np.object_] | None = None) -> GraphNode:
    return GraphNode(name, op, inputs, (), {}, array)


@pytest.mark.parametrize("is_copied", [True, False])
def test_a_variable_that_begins_a_saved_one(is_copied: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(variables, "Bundle", Checkpoint)
    copy = [
        node("Variable/Read", "ReadVariableOp", "dense/kernel"),
        node("Assign", "AssignVariableOp", "Variable", "Variable/Read"),
    ]
    nodes = (
        node("dense/kernel", "VarHandleOp"),
        node("Variable", "VarHandleOp"),
        *(copy if is_copied else []),
        node("names", "Const", array=np.array([b"_layers/1/_kernel"], object)),
        node("restored", "RestoreV2", "prefix", "names"),
        node("Restore", "AssignVariableOp", "Variable", "restored"),
    )
    found = {one.name: one for one in variables.with_variables(Graph("net", nodes), tmp_path / "variables").nodes}
    np.testing.assert_array_equal(found["Variable"].array, KERNEL)
    assert (found["dense/kernel"].op == "Const") is is_copied
    if is_copied:
        np.testing.assert_array_equal(found["dense/kernel"].array, KERNEL)
