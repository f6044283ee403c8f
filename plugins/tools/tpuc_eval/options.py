"""Create objects of the evaluation groups from the user's text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tpuc.api import Registry
from tpuc.api.boundary import FusedPostprocess
from tpuc_driver.api.command import build_object, needs_options, parse_pass_text

from tpuc_eval.protocols import Metric, Postprocess

ALIASES = {"topx": "top-k", "top-x": "top-k", "topk": "top-k", "coco-map": "coco", "roc-auc": "auc"}
"""Names of metrics in other tools."""


def configured(registry: Registry, group: str, text: str) -> Any:
    """Return an object of an evaluation group from its text, `NAME` or `NAME{option=value,...}`; raises UsageError.

    Names are case-insensitive, and `_` and `-` are equivalent.
    """
    parsed = parse_pass_text(text)
    typed = parsed.name.lower().replace("_", "-")
    names = {name.lower().replace("_", "-"): name for name in registry.names(group)}
    definition = registry.get(group, names.get(typed, parsed.name))
    return build_object(registry.group(group).kind, definition, parsed)


def usual_type(dataset: Path) -> str:
    """Return the default format of data if the user named none."""
    return "arrays" if dataset.suffix.lower() == ".npz" else "imagenet"


def chosen_metric(registry: Registry, text: str) -> Metric:
    """Return a metric by its name or by that of another tool."""
    name, brace, options = text.partition("{")
    metric: Metric = configured(
        registry, "tpuc.metrics", ALIASES.get(name.strip().lower().replace("_", "-"), name) + brace + options
    )
    return metric


def reader(registry: Registry, fused: FusedPostprocess | None) -> Postprocess | None:
    """Return the reader of a network's built-in post-processing; None if it has none."""
    return None if fused is None else configured(registry, "tpuc.postprocess", fused.read_by)


def candidates(registry: Registry, text: str) -> Sequence[Postprocess]:
    """Return the named post-processing, or every detector."""
    if text:
        return (configured(registry, "tpuc.postprocess", text),)
    return tuple(
        configured(registry, "tpuc.postprocess", name)
        for name, kind in registry.usable("tpuc.postprocess")
        if kind.finds_objects and not needs_options(kind)
    )
