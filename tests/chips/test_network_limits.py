"""Networks that a file cannot hold are refused by a sentence about them, before anything is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tpuc.errors import Unsupported
from tpuc_driver.session import Session

from tests.families import each

pytestmark = pytest.mark.chip("bm1684x")


def save(folder: Path, node: onnx.NodeProto, x: tuple[int, ...], y: tuple[int, ...]) -> Path:
    ends = [[helper.make_tensor_value_info(*end)] for end in (("x", TensorProto.FLOAT, x), ("y", TensorProto.FLOAT, y))]
    graph = helper.make_graph([node], "net", *ends, [numpy_helper.from_array(np.array(y, np.int64), "shape")])
    path = folder / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@each("rank", [8, 9])
def test_eight_dimensions_at_most(rank: int, tmp_path: Path) -> None:
    path = save(tmp_path, helper.make_node("Relu", ["x"], ["y"]), (1,) * rank, (1,) * rank)
    session, target = Session(chip="bm1684x"), tmp_path / "net.bmodel"
    if rank == 8:
        assert session.compile(path, target).outputs[0].shape == (1,) * rank
        return
    sentence = r"^value 'x' has 9 dimensions; inputs and outputs of this chip have at most 8; reshape it"
    with pytest.raises(Unsupported, match=sentence):
        session.compile(path, target)
    assert not target.exists()


def test_more_bytes_than_ddr(tmp_path: Path) -> None:
    path = save(tmp_path, helper.make_node("Expand", ["x", "shape"], ["y"]), (1,), (2**31,))
    sentence = r"^net: its weights and values take [0-9,]{13,} bytes of DDR, more than the 4,2"
    with pytest.raises(Unsupported, match=sentence):
        Session(chip="bm1684x").compile(path, tmp_path / "net.bmodel")
    assert not (tmp_path / "net.bmodel").exists()
