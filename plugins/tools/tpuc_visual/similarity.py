"""Run both networks on one sample and compare their tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tpuc.api import Module, Registry, TensorType, UsageError
from tpuc.api.evaluation import Array, Interpreter, real_values
from tpuc_driver.api.host import cosine, euclidean, inputs_of, paired_inputs, sqnr_db

from tpuc_visual.pictures import Picture, picture

IMAGE_AXES = 4
"""Ranks of inputs whose names may differ: images, which fused preprocessing takes as pixels."""


@dataclass(frozen=True)
class Alike:
    """Similarity of one tensor to the float network's, with the range of each, and what a page draws of both."""

    cosine: float
    euclidean: float
    sqnr_db: float
    exact_range: tuple[float, float]
    quantized_range: tuple[float, float]
    picture: Picture | None = None


def compare_networks(exact: Module, quantized: Module, inputs: Sequence[Path], registry: Registry) -> dict[str, Alike]:
    """Compare the tensors that both networks have, by name; raises UsageError if there are none."""
    _check_inputs(exact, quantized)
    for_exact, for_quantized = paired_inputs(exact, quantized, inputs, registry)
    wanted = Interpreter(exact).run(for_exact, "all")
    got = Interpreter(quantized).run(for_quantized, "all")
    types, own = _types(quantized), _types(exact)
    found: dict[str, Alike] = {}
    for name, array in got.items():
        if name in wanted and name in types and name in own and wanted[name].size == array.size and array.size:
            real = real_values(array, types[name])
            found[name] = _alike(real, real_values(wanted[name], own[name]), types[name])
    if not found:
        raise UsageError(
            f"modules '{exact.name}' and '{quantized.name}' have no tensor name in common; give a TOP module and a "
            "module lowered from it."
        )
    return found


def _check_inputs(exact: Module, quantized: Module) -> None:
    """Check that inputs have the same names, except images that the quantized network normalizes itself."""
    ours, theirs = inputs_of(exact), inputs_of(quantized)
    pairs = zip(ours, theirs, strict=False)
    if len(ours) != len(theirs) or any(a.name != b.name and len(b.shape) != IMAGE_AXES for a, b in pairs):
        raise UsageError(
            f"modules '{exact.name}' and '{quantized.name}' take different inputs; give a TOP module and a module "
            "lowered from it."
        )


def _alike(got: Array, wanted: Array, kind: TensorType) -> Alike:
    got = got.reshape(wanted.shape)
    figures = cosine(got, wanted), euclidean(got, wanted), sqnr_db(got, wanted)
    return Alike(*figures, _range(wanted), _range(got), picture(wanted, got, kind.element))


def _range(array: Array) -> tuple[float, float]:
    return float(np.min(array)), float(np.max(array))


def _types(module: Module) -> Mapping[str, TensorType]:
    results: list[Any] = [result for operation in module.walk() for result in operation.results]
    return {result.name: result.type for result in results if isinstance(result.type, TensorType)}
