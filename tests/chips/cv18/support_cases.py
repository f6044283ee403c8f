"""What is compiled for a chip of the family, run and compared."""

from __future__ import annotations

from functools import cache

from tpuc.api import Op
from tpuc.registry import Registry
from tpuc_ops import top

from tests.chips import test_dynamic_quantization, test_ranks, weight_only
from tests.chips.cv18.more_lowering_cases import LAYERS
from tests.models.zoo import ops_of_networks

SHOWN = (
    *test_dynamic_quantization.SHOWN,
    *test_ranks.SHOWN,
    *weight_only.SHOWN,
    top.Arg(axis=3, keepdims=False, select_last_index=True),
    top.MaxPoolWithMask(kernel_shape=(2, 2), strides=(2, 2)),
    top.Split(axis=1, num=3, split_size=(2, 3, 4)),
)
"""Ops of several results, which have networks of their own."""
NETWORKS = cache(ops_of_networks)


def cases(chip: str) -> dict[str, list[Op]]:
    """The ops, by mode."""
    layers = [layer for _, group in LAYERS for layer in group.values()]
    return {
        mode: [*(layer.op for layer in layers if layer.has(mode)), *SHOWN, *NETWORKS()]
        for mode in Registry().get("tpuc.chips", chip).description.modes
    }
