"""top.Depth2Space."""

from __future__ import annotations

import pytest
from tpuc.api import F32, Node, TensorType
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, onnx_node, uniform

from tests.families import each


class TestDepth2Space(OpConformance):
    op = top.Depth2Space(block_h=2, block_w=2, is_CRD=False, is_inversed=False)
    reference = onnx_node("DepthToSpace", blocksize=2, mode="DCR")
    samples = [uniform(1, 8, 2, 3)], [uniform(2, 4, 1, 1)]
    flops = 0


class TestDepth2SpaceWithChannelsFirst(OpConformance):
    op = top.Depth2Space(block_h=2, block_w=2, is_CRD=True, is_inversed=False)
    reference = onnx_node("DepthToSpace", blocksize=2, mode="CRD")
    samples = ([uniform(1, 8, 2, 3)],)
    flops = 0


class TestSpaceToDepth(OpConformance):
    op = top.Depth2Space(block_h=2, block_w=2, is_CRD=False, is_inversed=True)
    reference = onnx_node("SpaceToDepth", blocksize=2)
    samples = ([uniform(1, 2, 4, 6)],)
    flops = 0


class TestSpaceToDepthWithChannelsFirst(OpConformance):
    op = top.Depth2Space(block_h=2, block_w=3, is_CRD=True, is_inversed=True)

    @staticmethod
    def reference(x: Array) -> Array:
        return x.reshape(1, 2, 2, 2, 2, 3).transpose(0, 1, 3, 5, 2, 4).reshape(1, 12, 2, 2)

    samples = ([uniform(1, 2, 4, 6)],)
    flops = 0


@each("is_crd", [False, True])
def test_inverse_restores(is_crd: bool) -> None:
    x = uniform(1, 12, 2, 3)
    there = top.Depth2Space(block_h=2, block_w=3, is_CRD=is_crd, is_inversed=False)
    back = top.Depth2Space(block_h=2, block_w=3, is_CRD=is_crd, is_inversed=True)
    types = (TensorType(x.shape, F32),)
    middle = there.infer(types)
    (y,) = there.evaluate(Node(there, types, middle), [x])
    (z,) = back.evaluate(Node(back, middle, types), [y])
    assert (z == x).all()


def test_blocks_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ValueError, match="blocks of 2x2 do not divide 6 channels"):
        top.Depth2Space(block_h=2, block_w=2, is_CRD=True, is_inversed=False).infer((TensorType((1, 6, 2, 2), F32),))
