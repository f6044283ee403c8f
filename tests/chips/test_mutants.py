"""Mutants of waits."""

from __future__ import annotations

from tpuc.api import Command

from tests.chips.mutants import mutants_of
from tests.core.test_hazards import Compute, Dma


def test_each_wait_is_removed_and_weakened_in_turn() -> None:
    """A load, two commands that wait for it, a store that waits for the second."""
    compute = [Command(Compute(), 1, 1), Command(Compute(), 2, 1)]
    dma = [Command(Dma(), 1, 0), Command(Dma(), 2, 2)]
    lowered = [(str(one), [command.wait for command in (*one.compute, *one.dma)]) for one in mutants_of(compute, dma)]
    assert lowered == [
        ("compute command 1 waits for 0, not 1 (removed)", [0, 1, 0, 2]),
        ("compute command 1 waits for 0, not 1 (weakened)", [0, 1, 0, 2]),
        ("compute command 1 waits for 0, not 1 (removed with repeats)", [0, 0, 0, 2]),
        ("compute command 1 waits for 0, not 1 (weakened with repeats)", [0, 0, 0, 2]),
        ("compute command 2 waits for 0, not 1 (removed)", [1, 0, 0, 2]),
        ("DMA command 2 waits for 0, not 2 (removed)", [1, 1, 0, 0]),
        ("DMA command 2 waits for 1, not 2 (weakened)", [1, 1, 0, 1]),
        ("DMA command 2 waits for 0, not 2 (removed with repeats)", [1, 1, 0, 0]),
        ("DMA command 2 waits for 1, not 2 (weakened with repeats)", [1, 1, 0, 1]),
    ]
