"""Graphs that a test makes itself, ready to be judged."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.fuzz.graphs.judge import Subject
from tests.fuzz.graphs.maker import SAMPLES, Array, Maker, model_of


def one_node(op_type: str, x: Array, *constants: Array, opset: int = 17, **attributes: object) -> Maker:
    """A graph of one node on an input."""
    m = Maker(np.random.default_rng(0), opset)
    value = m.added_input((x,) * SAMPLES)
    m.node(op_type, value, *(m.constant(array) for array in constants), **attributes)
    return m


def subject_of(m: Maker, folder: Path) -> Subject:
    outputs = {value.name: value.arrays[0] for value in m.values if not value.uses}
    model = model_of(m.nodes, {value.name: value.arrays[0] for value in m.inputs}, outputs, m.weights, m.opset)
    return Subject(
        model, tuple({value.name: value.arrays[index] for value in m.inputs} for index in range(SAMPLES)), folder
    )
