"""Random raw fields of an instruction: what is read from them comes back from what it writes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tpuc.api import IllegalCommand
from tpuc.api.encoding import BitLayout, EncodedInstruction

TRIES = 100
ENOUGH = 10
"""So many of the tries must give codes that exist."""

DECIDING = {"accumulate", "destination_shape", "destination_size", "index_size", "source_size", "table"}
"""Attributes that decide what others are, or which of them are encoded."""


def random_fields(layout: BitLayout, rng: np.random.Generator, fixed: Mapping[str, int]) -> dict[str, int]:
    """Values of all fields, of few bits as often as of all."""
    kept = rng.choice((1, 3, 8, 64), len(layout.fields)).tolist()
    word = int.from_bytes(rng.bytes(layout.length_bytes), "little")
    places = zip(layout.fields.items(), kept, strict=True)
    drawn = {name: word >> offset & (1 << min(width, bits)) - 1 for (name, (offset, width)), bits in places}
    return {**drawn, **fixed}


Decode = Callable[[Mapping[str, int]], Any]


def check_round_trips(layout: BitLayout, fixed: Mapping[str, int], decode: Decode, seed: int) -> set[type[Any]]:
    """The classes that were read; each instruction is read again from the fields that it writes."""
    rng = np.random.default_rng(seed)
    found: list[EncodedInstruction] = []
    for _ in range(TRIES):
        read = decode(random_fields(layout, rng, fixed))
        if not isinstance(read, EncodedInstruction):
            continue
        instruction = dataclasses.replace(read, leftover=())
        again = decode({**layout.resets, **fixed, **instruction.fields()})
        if again is not None:  # else a field that follows from others has not enough bits
            assert again == instruction, f"{instruction}\ncomes back as {again}"
        check_mixtures(layout, fixed, decode, instruction, found)
        found.append(instruction)
    assert len(found) >= ENOUGH, f"only {len(found)} of {TRIES} tries have codes that exist"
    return {type(instruction) for instruction in found}


def check_mixtures(
    layout: BitLayout,
    fixed: Mapping[str, int],
    decode: Decode,
    instruction: EncodedInstruction,
    others: Sequence[EncodedInstruction],
) -> None:
    """With a number of another instruction all other numbers come back as they were: no two share a field."""
    mine = numbers(instruction)
    other = next((one for one in reversed(others) if kind_of(one) == kind_of(instruction)), None)
    for name, value in numbers(other).items() if other is not None else ():
        if name in DECIDING or mine.get(name) == value:
            continue
        try:
            again = decode({**layout.resets, **fixed, **dataclasses.replace(instruction, **{name: value}).fields()})
        except IllegalCommand:
            continue
        if again is not None and kind_of(again) == kind_of(instruction):
            after = numbers(again)
            assert {**after, name: 0} == {**mine, name: 0}, f"{name} = {value} changes {mine} to {after}"


def kind_of(instruction: EncodedInstruction) -> tuple[object, ...]:
    """What decides which attributes are encoded."""
    return (type(instruction), instruction.__dict__.get("operation"), instruction.__dict__.get("source", 0) >> 31)


def numbers(instruction: EncodedInstruction) -> dict[str, Any]:
    """The attributes that are numbers or tuples of them."""
    return {
        name: value
        for name, value in instruction.__dict__.items()
        if isinstance(value, (int, tuple)) and name != "leftover" and name != "operation"
    }
