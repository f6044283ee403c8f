"""Compiled files, given floats whatever their inputs are stored as."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray
from tpuc.api import LoadedModel
from tpuc_driver.data import quantizer

Array = NDArray[Any]


def run_on_floats(loaded: LoadedModel, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs; floats become integers where the file says how."""
    stores = {info.name: quantizer(info.name, info.element, rounds_evenly=info.rounds_evenly) for info in loaded.inputs}
    given = {name: (array, stores[name]) for name, array in inputs.items()}
    return loaded.run({name: array if store is None else store(array) for name, (array, store) in given.items()})
