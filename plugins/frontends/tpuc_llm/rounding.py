"""Rounding with error feedback: the error of every column is made up for in the columns that are not yet rounded.

Source: Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers",
https://arxiv.org/abs/2210.17323.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tpuc_ops.arrays import Array

from tpuc_llm.family import Linear
from tpuc_llm.quantization import Quantizer

DAMPING = 0.1
"""Added to the diagonal of the second moments, as a share of its mean."""
COLUMNS = 64
"""Columns that are rounded before all others are corrected at once."""


@dataclass(frozen=True)
class Feedback:
    """Rounds matrices for inputs with the second moments `moments`: [inputs, inputs]."""

    quantizer: Quantizer
    moments: Array

    def linear(self, linear: Linear) -> Linear:
        """Return the product with its matrix stored as integers, and as the floats that these mean."""
        depth = linear.weight.shape[1]
        quantizer = self.quantizer.suited(depth)
        moments = self.moments.astype(np.float64)
        unused = np.diag(moments) <= 0
        mean = float(np.diag(moments).mean()) or 1.0
        moments = moments + np.diag(np.where(unused, mean, DAMPING * mean))
        factor = _inverse_factor(moments).astype(np.float32)
        importance = quantizer.grouped(np.diag(self.moments)[None].astype(np.float32))
        rows = linear.weight.astype(np.float32).copy()
        wide = quantizer.grouped(rows)
        outputs, groups, group = wide.shape
        numbers = np.zeros((outputs, groups * group), np.float32)
        scale, zp = np.empty((outputs, groups), np.float32), np.empty((outputs, groups), np.float32)
        step = min(group, COLUMNS)
        for first in range(0, depth, step):
            end, place = min(first + step, depth), first // group
            if first % group == 0:
                filled = np.zeros((outputs, 1, group), np.float32)
                filled[:, 0, : min(group, depth - first)] = rows[:, first : first + group]
                found = quantizer.parameters(filled, importance[:, place : place + 1])
                scale[:, place], zp[:, place] = found[0][:, 0], found[1][:, 0]
            part = (scale[:, place : place + 1], zp[:, place : place + 1])
            errors = np.zeros((outputs, end - first), np.float32)
            for column in range(first, end):
                now = rows[:, column : column + 1]
                whole = quantizer.rounded(now[:, None], *part)
                numbers[:, column] = whole[:, 0, 0]
                error = (now - quantizer.real(whole, *part)[:, 0]) / factor[column, column]
                rows[:, column:end] -= error * factor[column, column:end]
                errors[:, column - first] = error[:, 0]
            rows[:, end:] -= errors @ factor[first:end, end:]
        filler = numbers.reshape(outputs, groups, group)
        filler[:, -1, group - (groups * group - depth) :] = zp[:, -1:]
        real = quantizer.real(filler, scale, zp).reshape(outputs, -1)[:, :depth]
        return Linear(real, linear.bias, quantizer.stored(filler.astype(np.uint8), scale, zp))


def _inverse_factor(moments: Array) -> Array:
    """Return the upper Cholesky factor of the inverse."""
    lower = np.linalg.cholesky(moments)
    half = np.linalg.inv(lower)
    return np.linalg.cholesky(half.T @ half).T
