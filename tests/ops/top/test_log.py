"""top.Log."""

from __future__ import annotations

from tpuc.testing import OpConformance, onnx_node, uniform
from tpuc_ops.top.log import Log


class TestLog(OpConformance):
    op = Log()
    reference = onnx_node("Log")
    samples = ([uniform(2, 3, low=0.1, high=9)],)
