"""Estimates how long a network runs on the host."""

from __future__ import annotations

from tpuc.api import Module

SECONDS_PER_FLOP = 1 / 40e9
SECONDS_PER_ELEMENT = 5e-9
SECONDS_PER_OP = 2e-5
"""What `FakeNetwork` takes on one core of a server. Measured with twelve networks (digits to YOLOX nano, 0.5 M to 1.1 G
operations): least squares give 18 G operations a second, 2.0 ns per element and 16 us per op; these numbers say 0.4 to
1.7 times what was measured. Only how many runs fit into a time follows from them.
"""

THREADED_SECONDS = 0.05
"""Networks that run no longer are calibrated in one thread: numpy's calls are short there, and threads wait for each
other between them. On two cores ten networks of 0.2 to 40 ms took 5 to 50 % more processor time in two threads and up
to 35 % longer; one of 52 ms was 6 % faster.
"""


def seconds_of(module: Module) -> float:
    """About how long a network runs, from the network alone: the same on every machine."""
    operations = [operation for operation in module.main.operations if operation.results and operation.operands]
    flops = sum(operation.op.flops(operation.node()) for operation in operations)
    elements = sum(operation.result.tensor.size for operation in operations)
    return flops * SECONDS_PER_FLOP + elements * SECONDS_PER_ELEMENT + len(operations) * SECONDS_PER_OP
