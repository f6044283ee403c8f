"""Random networks whose parts on the processor have others of the TPU before, between and behind them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tpuc.api import Module

from tests.frontends.caffe.files import Array, inputs, layer, read

SIDE = 6
REGIONS = 4


class Drawn:
    """A network of Caffe with several inputs and outputs, on up to so many images; its values are whole numbers."""

    def __init__(self, seed: int, most_images: int) -> None:
        self._random = np.random.default_rng(seed)
        images = int(self._random.integers(most_images)) + 1
        channels = [int(one) for one in self._random.integers(1, 5, 2)]
        shapes = {"x": (images, channels[0], SIDE, SIDE), "z": (images, channels[1], SIDE, SIDE)}
        self.given = {name: self._random.integers(0, 9, shape).astype(np.float32) for name, shape in shapes.items()}
        self.given["r"] = self._regions(images)
        self.text = inputs(**{name: array.shape for name, array in self.given.items()})
        self._maps: dict[str, tuple[int, ...]] = dict(shapes)
        self._regions_of: dict[int, list[str]] = {images: ["r"]}
        self._unread = {*self.given}
        for index in range(int(self._random.integers(4, 11))):
            kinds = (self._power, self._joined, self._pooled, self._pooled, self._part, self._moved)
            kinds[int(self._random.integers(len(kinds)))](f"v{index}")
        for name in sorted(self._unread & {*self.given}):  # an input that nothing reads is none
            self._add("Power", "power_param { shift: 1 }", [name], f"{name}_read", self.given[name].shape)

    def read(self, folder: Path) -> Module:
        """The network, whose outputs are what nothing reads."""
        return read(self.text, folder)

    def _regions(self, images: int) -> Array:
        low = self._random.integers(0, SIDE, (REGIONS, 2))
        high = np.minimum(low + self._random.integers(0, SIDE, (REGIONS, 2)), SIDE - 1)
        return np.hstack([self._random.integers(0, images, (REGIONS, 1)), low, high]).astype(np.float32)

    def _pick(self, names: list[str]) -> str:
        return names[int(self._random.integers(len(names)))]

    def _add(self, kind: str, body: str, bottoms: list[str], top: str, *shapes: tuple[int, ...]) -> None:
        tops = [top, *(f"{top}_{index}" for index in range(1, len(shapes)))]
        self.text += layer(kind, body, " ".join(bottoms), " ".join(tops), f"make_{top}")
        self._unread -= {*bottoms}
        self._unread |= {*tops}
        self._maps |= dict(zip(tops, shapes, strict=True))

    def _power(self, top: str) -> None:
        source = self._pick([*self._maps])
        self._add("Power", "power_param { scale: 2 shift: -3 }", [source], top, self._maps[source])

    def _joined(self, top: str) -> None:
        source = self._pick([*self._maps])
        same = [name for name, shape in self._maps.items() if shape == self._maps[source]]
        others = [name for name, shape in self._maps.items() if self._fits(shape, self._maps[source])]
        n, c, h, w = self._maps[source]
        if self._random.integers(2):
            self._add("Eltwise", "eltwise_param { operation: SUM }", [source, self._pick(same)], top, (n, c, h, w))
        else:
            other = self._pick(others)
            self._add("Concat", "", [source, other], top, (n, c + self._maps[other][1], h, w))

    @staticmethod
    def _fits(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
        return (shape[0], *shape[2:]) == (other[0], *other[2:])

    def _pooled(self, top: str) -> None:
        images = len(self.given["x"])
        source = self._pick([name for name, shape in self._maps.items() if shape[0] == images and shape[2] == SIDE])
        size = self._pick(["1", "2", "6"])
        body = f"roi_pooling_param {{ pooled_h: {size} pooled_w: {size} spatial_scale: 1 }}"
        shape = (REGIONS, self._maps[source][1], int(size), int(size))
        self._add("ROIPooling", body, [source, self._pick(self._regions_of[images])], top, shape)

    def _part(self, top: str) -> None:
        source = self._pick([*self._maps])
        n, c, h, w = self._maps[source]
        if c < 2:
            return self._power(top)
        at = int(self._random.integers(1, c))
        body = f"slice_param {{ axis: 1 slice_point: {at} }}"
        return self._add("Slice", body, [source], top, (n, at, h, w), (n, c - at, h, w))

    def _moved(self, top: str) -> None:
        """Regions that the TPU computes."""
        images = len(self.given["x"])
        source = self._pick(self._regions_of[images])
        self.text += layer("Power", "power_param { scale: 1 shift: 0 }", source, top, f"make_{top}")
        self._unread -= {source}
        self._unread |= {top}
        self._regions_of[images].append(top)
