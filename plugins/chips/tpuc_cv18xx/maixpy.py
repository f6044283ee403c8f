"""Write a `.mud` file beside a compiled classifier, so that MaixPy can run it on boards with CV181x.

The format is documented at https://wiki.sipeed.com/maixcdk/doc/convention/nn.html. Detectors are not covered: MaixPy
chooses and decodes their outputs itself, and no public page specifies how.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from tpuc.api import LoadedModel
from tpuc_cv18.base import Cv18Chip

if TYPE_CHECKING:
    from tpuc.api.boundary import Preprocess

LABELS = "labels.txt"
CHANNELS = 3


class MaixChip(Cv18Chip):
    """A chip whose boards run MaixPy."""

    def programs(
        self, model: str, loaded: LoadedModel, described: Mapping[str, Preprocess], labels: Sequence[str]
    ) -> Mapping[str, str]:
        """See Chip."""
        programs = super().programs(model, loaded, described, labels)
        return {**programs, **descriptions(model, loaded, described, labels)}


def descriptions(
    model: str, loaded: LoadedModel, described: Mapping[str, Preprocess], labels: Sequence[str]
) -> Mapping[str, str]:
    """The `.mud` file and the labels file, as text by file name; empty unless the network classifies color images."""
    said = described.get(loaded.inputs[0].name) if len(loaded.inputs) == 1 else None
    is_classifier = len(loaded.outputs) == 1 and prod(loaded.outputs[0].shape) == len(labels) > 1
    if said is None or said.pixel_format not in ("rgb", "bgr") or not is_classifier:
        return {}
    mean, scale = (", ".join(f"{one:.9g}" for one in _each(values)) for values in (said.mean, said.scale))
    lines = [
        *("[basic]", "type = cvimodel", f"model = {model}", ""),
        *("[extra]", "model_type = classifier", f"input_type = {said.pixel_format}"),
        *(f"mean = {mean}", f"scale = {scale}", f"labels = {LABELS}"),
    ]
    return {f"{Path(model).stem}.mud": "\n".join(lines) + "\n", LABELS: "".join(f"{name}\n" for name in labels)}


def _each(values: tuple[float, ...]) -> tuple[float, ...]:
    """Repeat the values to one per channel."""
    return tuple(values[index % len(values)] for index in range(CHANNELS))
