"""The op is its definition, and networks have it: read from ONNX, and composed on chips without cells for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from acme_ops.gelu7 import Gelu7
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info
from tpuc.api.evaluation import Array, Interpreter
from tpuc_driver.api.host import Session
from tpuc_testing import OpConformance, f32, zeros


def reference(x: Array) -> Array:
    """The definition, one number after the other."""
    found = [min(max(value, 0.0), 7.0) + min(max(value, -2.0), 0.0) / 8 for value in x.reshape(-1).tolist()]
    return np.array(found, np.float32).reshape(x.shape)


class TestGelu7(OpConformance):
    op = Gelu7()
    reference = reference
    samples = [f32(-9, -2, -1, -0.125, 0, 0.5, 7, 8)], [zeros(2, 3, 4)]
    flops = 4


def network(folder: Path) -> Path:
    """An ONNX file with the op."""
    x, y = (make_tensor_value_info(name, onnx.TensorProto.FLOAT, (1, 3, 4, 5)) for name in ("x", "y"))
    graph = make_graph([make_node("Gelu7", ["x"], ["y"], domain="acme")], "net", [x], [y])
    path = folder / "net.onnx"
    model = make_model(graph, opset_imports=[make_opsetid("", 17), make_opsetid("acme", 1)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def test_a_network_with_the_op_is_read(tmp_path: Path) -> None:
    x = np.linspace(-9, 9, 60, dtype=np.float32).reshape(1, 3, 4, 5)
    module = Session().transform(network(tmp_path))
    (y,) = Interpreter(module).run({"x": x}).values()
    np.testing.assert_allclose(y, reference(x), rtol=1e-6)


def test_chips_without_cells_for_it_compose_it(tmp_path: Path) -> None:
    x = np.linspace(-9, 9, 60, dtype=np.float32).reshape(1, 3, 4, 5)
    session = Session(chip="bm1684x", quantize="f32")
    built = session.build(session.transform(network(tmp_path)))
    (y,) = session.chip.load(built.data).run({"x": x}).values()
    np.testing.assert_allclose(y, reference(x), rtol=1e-5)
