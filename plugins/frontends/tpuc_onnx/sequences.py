"""Sequences of tensors with known lengths: lists of names while the graph is read; they do not exist in the network."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tpuc_onnx.script import Script

MOST_PARTS = 1024
"""Maximum length of a sequence; each part becomes a separate operation."""


def construct(script: Script) -> None:
    """SequenceConstruct: return the operands."""
    _note(script, script.node.inputs)


def empty(script: Script) -> None:
    """SequenceEmpty: return an empty list."""
    _note(script, ())


def insert(script: Script) -> None:
    """SequenceInsert: insert at a constant position, or at the end."""
    parts = list(_parts(script))
    given = script.known(2, "the position")
    place = len(parts) if given is None else _place(script, int(given.reshape(())), len(parts), len(parts))
    _note(script, (*parts[:place], script.node.inputs[1], *parts[place:]))


def erase(script: Script) -> None:
    """SequenceErase: remove the part at a constant position, or the last."""
    parts = list(_parts(script))
    given = script.known(1, "the position")
    place = _place(script, -1 if given is None else int(given.reshape(())), len(parts), len(parts) - 1)
    _note(script, (*parts[:place], *parts[place + 1 :]))


def at(script: Script) -> None:
    """SequenceAt: return the part at a constant position."""
    parts = _parts(script)
    position = int(script.required(1, "the position").reshape(()))
    script("Identity", parts[_place(script, position, len(parts), len(parts) - 1)], result=script.node.outputs[0])


def length(script: Script) -> None:
    """SequenceLength: return a constant."""
    script.types.constants[script.node.outputs[0]] = np.array(len(_parts(script)), np.int64)


def split(script: Script) -> None:
    """SplitToSequence: split into stated extents, equal extents, or single rows."""
    x = script.node.inputs[0]
    axis: int = script.node.attributes.get("axis", 0)
    total = script.shape(x)[axis]
    given = script.known(1, "the list of extents")
    if given is None or given.ndim == 0:
        step = 1 if given is None else int(given)
        sizes = [min(step, total - start) for start in range(0, total, step)]
    else:
        sizes = [int(size) for size in given]
    if len(sizes) > MOST_PARTS:
        raise script.refused(f"it has {len(sizes)} parts, and more than {MOST_PARTS} are too many to unroll")
    parts = script.many("Split", x, script.constant("sizes", np.array(sizes)), count=len(sizes), axis=axis)
    if given is None and not script.node.attributes.get("keepdims", 1):
        axes = script.constant("axes", np.array([axis]))
        parts = [script("Squeeze", part, axes) for part in parts]
    _note(script, parts)


def concat(script: Script) -> None:
    """ConcatFromSequence: concatenate along an axis, or stack along a new one."""
    parts, axis = list(_parts(script)), script.node.attributes["axis"]
    if not parts:
        raise script.refused(f"the sequence '{script.node.inputs[0]}' is empty, so its result has no elements")
    if script.node.attributes.get("new_axis", 0):
        axes = script.constant("axes", np.array([axis]))
        parts = [script("Unsqueeze", part, axes) for part in parts]
    script("Concat", *parts, result=script.node.outputs[0], axis=axis)


def identity(script: Script) -> bool:
    """Pass a sequence on under another name; tensors are not handled here."""
    if script.node.inputs[0] not in script.types.sequences:
        return False
    _note(script, _parts(script))
    return True


def _parts(script: Script) -> tuple[str, ...]:
    name = script.node.inputs[0]
    parts = script.types.sequences.get(name)
    if parts is None:
        raise script.refused(f"the length of the sequence '{name}' depends on the data, but networks are static")
    return parts


def _note(script: Script, parts: tuple[str, ...] | list[str]) -> None:
    script.types.sequences[script.node.outputs[0]] = tuple(parts)


def _place(script: Script, position: int, count: int, last: int) -> int:
    """Return a position, which may count from the end."""
    place = position + count if position < 0 else position
    if not 0 <= place <= last:
        raise script.refused(f"its position {position} is outside of a sequence of {count}")
    return place


SEQUENCES: Mapping[str, Callable[[Script], bool | None]] = {
    "ConcatFromSequence": concat,
    "Identity": identity,
    "SequenceAt": at,
    "SequenceConstruct": construct,
    "SequenceEmpty": empty,
    "SequenceErase": erase,
    "SequenceInsert": insert,
    "SequenceLength": length,
    "SplitToSequence": split,
}
