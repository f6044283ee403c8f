"""Outputs that already are scores, and reconstructions to compare with the input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from tpuc.api import UsageError
from tpuc.api.evaluation import Array

from tpuc_eval.protocols import Outputs, Postprocess, Sample, plain_shape


@dataclass(frozen=True)
class Scores(Postprocess):
    """Class scores, or a number: the network's only output, or the one named `output`."""

    name = "scores"
    output: str = ""

    def __call__(self, outputs: Outputs, sample: Sample) -> Array:
        found = named_output(self.name, outputs, self.output)
        if len(found) != len(sample.rows):
            found = found[: len(sample.rows)]  # the sample fills every place of a larger batch
        return found if len(sample.rows) == 1 else found.reshape(len(sample.rows), -1).mean(axis=0)


@dataclass(frozen=True)
class ReconstructionError(Postprocess):
    """The reconstruction error of an autoencoder: mean squared error, averaged over all rows."""

    name = "reconstruction-error"
    output: str = ""

    def __call__(self, outputs: Outputs, sample: Sample) -> Array:
        found = named_output(self.name, outputs, self.output).reshape(len(sample.rows), -1)
        wanted = np.array([row.reshape(-1) for row in sample.given], np.float64)
        if found.shape != wanted.shape:
            raise UsageError(
                f"post-processing '{self.name}': the output is {found.shape} but the data is {wanted.shape}; it is for "
                "networks that reconstruct their input, and for arrays."
            )
        return ((found - wanted) ** 2).mean(axis=1).mean()


def named_output(name: str, outputs: Outputs, output: str) -> Array:
    """Return the output with a name, or the only one; raises UsageError."""
    if not output and len(outputs) == 1:
        return next(iter(outputs.values()))
    if output not in outputs:
        raise UsageError(
            f"post-processing '{name}': "
            + (f"no output named '{output}'" if output else "several outputs")
            + f"; write {name}{{output=NAME}} with one of {', '.join(outputs)}."
        )
    return outputs[output]


def only_row(outputs: Outputs) -> list[Any]:
    """Return the first batch element of every output."""
    return [np.asarray(array[0], np.float64).reshape(plain_shape(array.shape)[1:]) for array in outputs.values()]
