"""Align the layers of two networks side by side."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc_visual.graph import Layer


def aligned(exact: Sequence[Layer], quantized: Sequence[Layer]) -> list[tuple[Layer | None, Layer | None]]:
    """Return rows of layers of both networks; layers of the same name share a row as far as the orders allow."""
    places = {layer.name: index for index, layer in enumerate(exact)}
    rows: list[tuple[Layer | None, Layer | None]] = []
    done = 0
    for layer in quantized:
        place = places.get(layer.name, -1)
        if place < done:
            rows.append((None, layer))
            continue
        rows += [(one, None) for one in exact[done:place]]
        rows.append((exact[place], layer))
        done = place + 1
    return rows + [(one, None) for one in exact[done:]]
