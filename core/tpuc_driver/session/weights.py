"""The choice of weights as integers that a mode such as `w4f16` makes together with settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tpuc.api.frontend import WeightChoice
from tpuc.errors import Unsupported, UsageError
from tpuc.ir import Module

from tpuc_driver.data import sets_of
from tpuc_driver.session.configuration import Configuration

OPTIONS = {"group_size": "--group-size", "symmetric": "--symmetric", "head_bits": "--quantize-head"}
GROUPS = (0, 32, 64, 128)


def weight_choice(configuration: Configuration, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings with `weights`, which a mode such as `w4f16` asks for; `dataset` is then a text.

    Raises UsageError for settings of such modes without one, and for groups that are not built.
    """
    given = {name: settings[name] for name in OPTIONS if settings.get(name) is not None}
    if not configuration.weight_bits:
        for name in given:
            raise UsageError(
                f"{OPTIONS[name]} is for weights stored as integers; add --quantize w4f16 or leave it out."
            )
        return settings
    group = given.get("group_size", 64)
    if group not in GROUPS:
        raise UsageError(f"--group-size {group}: choose 32, 64 or 128, or 0 for one scale per row.")
    texts = sets_of(settings.get("dataset"))
    choice = WeightChoice(
        configuration.weight_bits,
        configuration.mode or "f16",
        group,
        given.get("symmetric", False),
        given.get("head_bits"),
        texts[0].path if texts else None,
    )
    return {**settings, "dataset": None, "weights": choice}


def check_plain(configuration: Configuration, module: Module) -> None:
    """Raise Unsupported for a mode such as `w4f16` where a network is already read."""
    if configuration.weight_bits:
        raise Unsupported(
            f"{module.name}: weights become integers where a language model is read; compile its folder with "
            f"`tpuc compile`, or give --quantize {configuration.mode}."
        )
