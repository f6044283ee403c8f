"""Of many samples of kernels those that a quick comparison takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tpuc_testing.kernel_conformance import Sample


def _kind(sample: Sample) -> tuple[object, ...]:
    """What a kernel tells samples apart by: the op and its mode, which operands are computed, types and dimensions."""
    operands: list[Any] = [getattr(operand, "array", operand) for operand in sample.operands]
    forms = [None if array is None else (array.dtype, array.ndim) for array in operands]
    mode = getattr(sample.op, "mode", None)
    return (sample.op.name, mode, *map(type, sample.operands), *forms, str(sample.result), bool(sample.tilings))


def one_of_each(samples: Mapping[str, Sample]) -> dict[str, Sample]:
    """The first sample of each kind."""
    kinds = {_kind(sample): name for name, sample in reversed([*samples.items()])}
    return {name: sample for name, sample in samples.items() if kinds[_kind(sample)] == name}


def chosen(samples: Mapping[str, Sample], thorough: bool) -> Mapping[str, Sample]:
    """All samples, or the first of each kind under the chosen tiling alone: how a kernel is tiled is compared with the
    simulator, whose instructions are those of the vendor's model.
    """
    if thorough:
        return samples
    return {name: replace(sample, tilings=()) for name, sample in one_of_each(samples).items()}
