"""TOP ops side by side in one file, all values visible, and how far their results may be from the float ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from tpuc.api import Module
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc_driver.session import Session
from tpuc_testing.kernel_conformance import sample_module
from tpuc_testing.values import build_exposed

from tests.chips.layer_cases import LayerCase
from tests.chips.lowered import EVERYTHING_IN_INTEGERS, Array, own_ranges, sample_of


@dataclass(frozen=True, eq=False)
class CompiledLayers:
    """Ops in one file, all values visible: each one's result is called after it."""

    session: Session
    final: Module
    data: bytes
    inputs: Mapping[str, Array]
    floats: Mapping[str, Array]
    """What the float ops give."""


def compile_layers(
    layers: Mapping[str, LayerCase], mode: str, opt: int | None = None, chip: str = "cv183x"
) -> CompiledLayers:
    """One network of the ops side by side, as far as the mode has them; `opt`: how local memory is planned."""
    session = Session(chip=chip, quantize=mode, opt=opt, pipelines=EVERYTHING_IN_INTEGERS)
    steps = session.chip.description.symmetric_divisor
    samples = {
        name: sample_of(
            layer, [_on_grid(x, steps) if isinstance(x, np.ndarray) and layer.steps else x for x in layer.operands]
        )
        for name, layer in layers.items()
        if layer.has(mode)
    }
    module, inputs = sample_module(samples, Registry())
    values = Interpreter(module).run(inputs, "all")
    final, data = build_exposed(session, module, own_ranges(values) if mode == "int8" else None)
    return CompiledLayers(session, final, data, inputs, values)


def _on_grid(array: Array, signed_steps: int) -> Array:
    """Values that 8 bits hold exactly when the threshold is the greatest magnitude, which is one of them."""
    greatest = float(np.abs(array).max())
    steps = 255 if array.min() >= 0 else signed_steps
    stored = np.clip(np.rint(array / greatest * steps), -steps, steps if steps == 255 else steps - 1)
    stored.flat[0] = steps if steps == 255 else -steps
    return (stored / steps).astype(np.float32) * np.float32(greatest)


def check_layers(
    layers: Mapping[str, LayerCase], mode: str, compiled: CompiledLayers, got: Mapping[str, Array]
) -> None:
    """Assert that all results are as close to those of the float ops as they must be."""
    wrong = [
        message
        for name, layer in layers.items()
        if layer.has(mode) and (message := _difference(name, layer, compiled, got))
    ]
    assert not wrong, "\n".join(wrong)


def _difference(name: str, layer: LayerCase, compiled: CompiledLayers, got: Mapping[str, Array]) -> str:
    wanted = compiled.floats[name]
    type_ = next(o.result.tensor for o in compiled.final.main.operations if o.results and o.name == name)
    found = got[name]
    if found.dtype == np.uint16:
        found = found.view(ml_dtypes.bfloat16)
    found = found.reshape(wanted.shape).astype(np.float64)
    if not type_.is_quantized:
        error = float(np.abs(found - wanted).max() / np.abs(wanted).max())
        return f"{name}: {error:.4f} of its range" if error > layer.error else ""
    ideal = np.clip(wanted / type_.uniform.scale, *type_.uniform.bounds)
    steps = float(np.abs(found - ideal).max())
    return f"{name}: {steps:.2f} steps" if steps > layer.steps else ""
