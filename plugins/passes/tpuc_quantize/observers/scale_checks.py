"""Detect samples that are 255 times too small or too large for the biases of a network, whatever it computes.

The first product of a trained network answers samples with values of about the size of its biases. Where it does not,
the network runs on few samples at the other scale: if its outputs differ far more between samples there, or are no
longer zeros and ones, the samples were probably scaled by 255. Networks without biases work at any scale.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from tpuc.api import Module
from tpuc.api.evaluation import Array, Interpreter
from tpuc_driver.api.host import SampleReader, SampleSource
from tpuc_ops.quantized import Product

from tpuc_quantize.observers.held_out import spread
from tpuc_quantize.observers.histogram import LARGEST_BYTE
from tpuc_quantize.options.budgets import BUDGETS
from tpuc_quantize.options.tuning import CHECKS
from tpuc_quantize.simulation.network import FakeNetwork


def wrong_scales(module: Module, samples: SampleSource) -> Iterable[str]:
    """A sentence if the samples of the only input seem to be scaled by 255."""
    if len(samples.inputs) != 1 or np.dtype(samples.inputs[0].dtype).kind != "f" or len(samples) < BUDGETS.alike:
        return
    reader = SampleReader(samples)
    rows = [row for place in spread(len(samples), BUDGETS.alike) if (row := reader.find(place))]
    answer = _first_answer(module, rows) if len(rows) == BUDGETS.alike else None
    if answer is None or CHECKS.answer_small <= answer <= CHECKS.answer_large:
        return
    factor, word = (LARGEST_BYTE, "small") if answer < CHECKS.answer_small else (1 / LARGEST_BYTE, "large")
    (own, certain), (other, doubtful) = (_observed(module, rows, one) for one in (1.0, factor))
    if other > CHECKS.scale_gain * own:
        times = "many" if own == 0 or other > 1e3 * own else f"{other / own:.3g}"
        seen = f"differ {times} times as much between samples"
    elif certain >= CHECKS.certain and certain > CHECKS.scale_gain * doubtful:
        seen = f"are {certain:.0%} zeros and ones, but not"
    else:
        return
    yield (
        f"Input '{samples.inputs[0].name}': its values are too {word} beside the biases of the network, and its "
        f"outputs {seen} when values are {'multiplied' if factor > 1 else 'divided'} by {LARGEST_BYTE:g}: check the "
        "scale (--scale, --preprocess)."
    )


def _first_answer(module: Module, rows: Sequence[Mapping[str, Array]]) -> float | None:
    """The deviation of the first product's results over the size of its bias, in the median over channels; None where
    there is no bias.
    """
    net = FakeNetwork(module)
    index = next((i for i, step in enumerate(net.plan.steps) if isinstance(step.operation.op, Product)), None)
    step = None if index is None else net.plan.steps[index]
    bias = None if step is None or len(step.operands) < 3 else net.constant(step.operands[2])
    if index is None or step is None or bias is None or not bias.any():
        return None
    found = [net.run(row, integer=False, keep=frozenset(step.results), steps=index + 1) for row in rows]
    results = np.stack([np.asarray(state.values[step.results[0]], np.float64) for state in found])
    axis = next((axis for axis in (2, results.ndim - 1) if results.shape[axis] == bias.size), None)
    if axis is None:
        return None
    channels = np.moveaxis(results, axis, 0).reshape(bias.size, -1)
    return float(np.median(channels.std(1)) / max(float(np.median(np.abs(bias))), 1e-30))


def _observed(module: Module, rows: Sequence[Mapping[str, Array]], factor: float) -> tuple[float, float]:
    """The deviation of outputs over samples by their magnitude, and the share of zeros and ones in probabilities."""
    interpreter = Interpreter(module)
    runs = [interpreter.run({name: x * x.dtype.type(factor) for name, x in row.items()}) for row in rows]
    outputs = np.stack([np.concatenate([one.reshape(-1) for one in run.values()]) for run in runs]).astype(np.float64)
    if not np.isfinite(outputs).all():
        return 0.0, 0.0
    certain = float(np.isin(outputs, (0, 1)).mean()) if outputs.min() >= 0 and outputs.max() <= 1 else 0.0
    return float(outputs.std(0).mean() / max(np.abs(outputs).mean(), 1e-30)), certain
