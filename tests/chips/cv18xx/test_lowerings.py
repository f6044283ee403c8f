"""What lowerings use of fields that other chips of the family have narrower."""

from __future__ import annotations

from tpuc.api import F32
from tpuc.registry import Registry
from tpuc_ops import top
from tpuc_testing import uniform
from tpuc_testing.kernel_conformance import Fixed, Sample, sample_module

from tests.chips.cv18xx import NAMES
from tests.families import each
from tests.models.rows import lower


@each(("stride", "moves"), [(31, False), (32, True)])
@each("chip", NAMES)
def test_strides_up_to_31_are_those_of_a_convolution(chip: str, stride: int, moves: bool) -> None:
    conv = top.Conv(kernel_shape=(3, 3), strides=(stride, stride), pads=(0, 0, 0, 0))
    sample = Sample(conv, [uniform(1, 2, 64, 64), Fixed(uniform(4, 2, 3, 3)), None], F32)
    module, _ = sample_module({"far": sample}, Registry())
    names = {operation.op.name for operation in lower(module, chip, None, "bf16").main.operations}
    assert ("tpu.Permute" in names) == moves


@each("chip", NAMES)
def test_means_of_float_inputs_larger_than_a_lane_are_those_of_bf16(chip: str) -> None:
    norm = Sample(top.InstanceNorm(), [uniform(1, 1, 40000), None, None])
    module, _ = sample_module({"norm": norm}, Registry())
    pools = [one for one in lower(module, chip, None, "bf16").main.operations if one.op.name == "tpu.Pool2D"]
    assert len(pools) >= 2  # strips, and their means
    assert {pool.operands[0].tensor.storage.name for pool in pools} == {"bf16"}
