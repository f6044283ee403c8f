"""Names of networks and their values that C has already, or that names of files have no room for."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import tpuc
from onnx import TensorProto, helper
from tpuc_c.description import FILE_NAME
from tpuc_plan.usmp.c_source import MOST_LETTERS, identifier, model_identifier

from tests.families import each

NAMES = ("pow", "main", "int", "a.b", "n" * MOST_LETTERS, "n" * (MOST_LETTERS + 1), "n" * 150)


def test_names_in_c() -> None:
    assert [identifier(one) for one in ("x", "a.b", "2d", "int", "default", "")] == [
        *("x", "a_b", "_2d", "int_", "default_", "_")
    ]
    assert [model_identifier(one) for one in ("net", "pow", "main", "while", NAMES[4])] == [
        *("net", "pow_", "main_", "while_", NAMES[4])
    ]
    long = [model_identifier("n" * 90 + end) for end in "ab"]
    assert len(set(long)) == 2
    assert {len(one) for one in long} == {MOST_LETTERS}
    assert FILE_NAME.fullmatch(f"{long[0]}_operators.c")


@each("name", NAMES)
def test_networks_of_any_name(name: str, tmp_path: Path) -> None:
    """Seven compilations of one op; an input and an output are keywords of C."""
    ends = [helper.make_tensor_value_info(one, TensorProto.FLOAT, [1, 4]) for one in ("int", "default")]
    graph = helper.make_graph([helper.make_node("Relu", ["int"], ["default"])], "net", ends[:1], ends[1:])
    path = tmp_path / f"{name}.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()
    )
    compiled = tpuc.load(path).compile("c")
    x = np.array([[-1, 0, 1, 2]], np.float32)
    (y,) = compiled.run({"int": x}).values()
    np.testing.assert_array_equal(y, np.maximum(x, 0))
    with tarfile.open(fileobj=io.BytesIO(compiled.save(tmp_path / "net.tar").read_bytes())) as archive:
        members = archive.getnames()
    assert f"{model_identifier(name)}_operators.c" in members


def test_ends_that_c_could_not_tell_apart(tmp_path: Path) -> None:
    names = ["a.b", "a_b", "a/b", "a_b_1", "int", "int_"]
    nodes = [helper.make_node("Neg", [one], [f"{one}:"]) for one in names]
    ends = [[helper.make_tensor_value_info(one + end, TensorProto.FLOAT, [3]) for one in names] for end in ("", ":")]
    graph = helper.make_graph(nodes, "net", *ends)
    path = tmp_path / "ends.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()
    )
    given = {one: np.full(3, number, np.float32) for number, one in enumerate(names, 1)}
    got = tpuc.load(path).compile("c").run(given)
    assert {name: float(array[0]) for name, array in got.items()} == {
        f"{one}:": -float(number) for number, one in enumerate(names, 1)
    }
