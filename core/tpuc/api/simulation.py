"""Building blocks for simulators of chips: the meaning of instructions, and runnable files. Imports numpy."""

from __future__ import annotations

from tpuc.api.simulated import SimulatedModel, errors_name, stored_element
from tpuc.machine.windows import Pads, Product, SlidingWindow, convolve, exact_matmul, exact_product

__all__ = [
    "Pads",
    "Product",
    "SimulatedModel",
    "SlidingWindow",
    "convolve",
    "errors_name",
    "exact_matmul",
    "exact_product",
    "stored_element",
]
