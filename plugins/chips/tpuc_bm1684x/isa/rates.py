"""What transfers cost in the vendor's kernel libraries."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Way:
    """Transfers from one kind of memory to another: the rates of strided copies and of transposes of C and W, and the
    cycles before the first byte. Without a rate of their own transposes cost what copies cost.
    """

    copy: float
    turn: float | None
    start: int = 0


@dataclass(frozen=True)
class Rates:
    """Transfers to local memory, from it, in DDR, and within local memory.

    Bytes / rate * `scale` are cycles; strided copies have a scale of their own, `copy_scale`. `fill` is the rate of
    broadcasts too, `linear` that of gathered rows too. A contiguous run costs at least `line_bytes`. DDR channels are
    interleaved by `page_bytes`.
    """

    load: Way
    store: Way
    move: Way
    local: Way
    fill: float
    linear: float
    matrix_load: float
    matrix_store: float
    matrix_turn: float
    copy_scale: float
    scale: float
    line_bytes: int
    page_bytes: int

    def way(self, *, from_local: bool, to_local: bool) -> Way:
        """The entry of a transfer."""
        if from_local:
            return self.local if to_local else self.store
        return self.load if to_local else self.move


@dataclass(frozen=True)
class Profile:
    """A timing model: the source and certainty of its figures, and its rates."""

    note: str
    rates: Rates


FIRST = Rates(
    load=Way(58, 64),
    store=Way(44, 64),
    move=Way(28, 64),
    local=Way(28, 32),
    fill=58,
    linear=64,
    matrix_load=58,
    matrix_store=44,
    matrix_turn=43.5,
    copy_scale=2**30 / 1e9,
    scale=1,
    line_bytes=256,
    page_bytes=4096,
)
"""BM1684X at 1 GHz, in bytes per nanosecond. The library counts 2**30 bytes as a GB in strided copies."""
_MOVE, _HERTZ = 12e9, 900e6
"""The second generation within one kind of memory, in bytes per second, and its clock."""


def second(load: float) -> Rates:
    """The second generation, with `load` bytes per second between DDR and local memory."""
    return Rates(
        load=Way(load, None, 290),
        store=Way(load, load, 170),
        move=Way(_MOVE, _MOVE, 290),
        local=Way(_MOVE, None, 60),
        fill=load,
        linear=_MOVE,
        matrix_load=load,
        matrix_store=load,
        matrix_turn=load * 3 / 4,
        copy_scale=_HERTZ,
        scale=_HERTZ,
        line_bytes=80,
        page_bytes=256,
    )
