"""Budgets of quantization, in network evaluations and in operations: the same on every machine."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.api import Module


@dataclass(frozen=True)
class Budgets:
    """Cost limits of each part of a search, in network evaluations. Where a budget is in operations (multiplications
    and additions of the network, with fixed costs per call and element), it pays for a number of samples, within
    limits: fast networks get more.
    """

    per_element: float = 200.0
    """Operations that writing one element counts as. With twelve networks (digits to YOLOX nano, 0.5 M to 1.1 G
    operations) these two say 0.4 to 1.7 times what was measured; least squares give 36 for an element.
    """
    per_op: float = 8e5
    """Operations that one call of an op counts as; least squares give 3e5."""
    least: int = 4
    """Samples for every part, however slow the network is: two in each half, since scores compare halves."""
    evaluation: float = 1e10
    """Operations for scoring one candidate table, and for the tuning samples of the per-op search."""
    most_evaluated: int = 200
    """Samples for scoring one candidate. With 200 instead of 48 five small networks were 1 dB nearer on data of their
    own in the median (-0.2 to 6.5).
    """
    observation: float = 6.4e10
    """Operations for one float run over the samples for tuning and those for biases; and for each check of samples
    outside the search: channel order, equalized filters, self-check of seen samples. With half YOLOX has 11.8 dB
    instead of 13.2, SqueezeNet 26.8 instead of 27.6, for 20 % less time; other networks are not limited by it.
    """
    alike: int = 8
    """Samples for quantities that hardly differ between them: mean errors of filters alone, and whether equalized
    filters are clearly better. With 4 or 16 three small networks lose 0.3 or 0.1 dB in the mean.
    """
    rounding: int = 16
    """Samples whose operands guide the rounding of filters. With 8 three small networks lose 0.5 dB in the mean; with
    32 they gain 0.7, for twice the work.
    """
    quick: float = 1.2e8
    """Operations of one run up to which filters are rounded unasked: it takes as long as 30 runs or more. Without it
    seven networks lose 0.2 dB in the mean (-1.0 to 1.8).
    """
    most_checked: int = 16
    """Samples of a self-check that calibration has seen; they prove little."""
    least_colors: int = 10
    """Fewest samples for the channel order: with ten, chance alone finds a swap in 1 of 33 cases."""
    most_colors: int = 32
    """Most samples for the channel order."""
    threads: float = 2e9
    """Operations of one run up to which a network is calibrated in one thread: numpy's calls are short there. On two
    cores ten networks of 0.2 to 40 ms took 5 to 50 % more processor time in two threads and up to 35 % longer.
    """


BUDGETS = Budgets()


def operations_of(module: Module) -> float:
    """The operations that one run counts as, computed from the network alone."""
    operations = [operation for operation in module.main.operations if operation.results and operation.operands]
    flops = sum(operation.op.flops(operation.node()) for operation in operations)
    elements = sum(operation.result.tensor.size for operation in operations)
    return flops + elements * BUDGETS.per_element + len(operations) * BUDGETS.per_op


def affordable(module: Module, budget: float, most: int, least: int | None = None) -> int:
    """The number of samples that a budget in operations pays for, within limits."""
    return min(most, max(BUDGETS.least if least is None else least, int(budget / operations_of(module))))


def color_samples(module: Module, count: int) -> int:
    """The number of `count` samples on which the order of channels and other presets are checked."""
    return affordable(module, BUDGETS.observation, min(BUDGETS.most_colors, count), min(BUDGETS.least_colors, count))
