"""Migrate the scale of outlier channels from activations to filters (SmoothQuant)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tpuc.api import Module, Pass, PassContext, UsageError, remove_unused
from tpuc.api.evaluation import Array, Interpreter
from tpuc_driver.api.host import inputs_of, open_samples
from tpuc_ops import elementary
from tpuc_optimize.channel_links import Link, find_links, move, reader_ranges


@dataclass(frozen=True)
class MigrateOutliers(Pass):
    """Divide channel i of a value between products by ``a[i]**alpha / w[i]**(1 - alpha)``, with a its largest magnitude
    on the samples of `dataset` or `data_list` and w the largest filter value that reads it; the geometric mean of
    the factors is 1. Exact up to float rounding; calibrate afterwards.
    """

    name = "migrate-outliers"
    dataset: str = ""
    data_list: str = ""
    input_num: int = 16
    alpha: float = 0.5

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; raises UsageError without samples."""
        if not (self.dataset or self.data_list):
            raise UsageError("pass 'migrate-outliers' needs samples: migrate-outliers{dataset=DIR}")
        links = list(find_links(module))
        ranges = self._ranges(module, context, links)
        for link in links:
            activations, filters = ranges[link.value.name], reader_ranges(module, link)
            usable = (activations > 0) & (filters > 0)
            if not usable.any():
                continue
            factors = np.ones(link.channels)
            factors[usable] = activations[usable] ** self.alpha / filters[usable] ** (1 - self.alpha)
            factors[usable] /= elementary.exp(elementary.log(factors[usable]).mean())
            move(module, link, factors)
        remove_unused(module)
        return bool(links)

    def _ranges(self, module: Module, context: PassContext, links: list[Link]) -> Mapping[str, Array]:
        """Largest magnitude per channel of the values between linked products."""
        dataset, data_list = (Path(text) if text else None for text in (self.dataset, self.data_list))
        samples = open_samples(inputs_of(module), dataset, data_list, self.input_num, context.registry)
        interpreter = Interpreter(module)
        # Convolutions have channels second, matrix products last.
        axes = {link.value.name: 1 if link.value.tensor.dims[1:2] == (link.channels,) else -1 for link in links}
        result = {link.value.name: np.zeros(link.channels) for link in links}
        for sample in context.progress(samples, "migrating outliers", len(samples)):
            values = interpreter.run(sample, keep=list(axes))
            for name, axis in axes.items():
                rows = np.moveaxis(np.abs(values[name]), axis, 0)
                result[name] = np.maximum(result[name], rows.reshape(rows.shape[0], -1).max(axis=1))
        return result
