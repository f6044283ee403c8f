"""What installed packages offer: their entry points, read without importing anything of theirs."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

OURS = "tpuc"
"""The package that core and the bundled plugins are in."""


@dataclass(frozen=True)
class Offer:
    """One entry point of one package. `path` is `module:attribute`; `loader` replaces the import in tests."""

    group: str
    name: str
    package: str
    version: str
    path: str
    loader: Callable[[], Any] | None = field(default=None, compare=False, repr=False)

    @property
    def provider(self) -> str:
        """The package as a sentence shows it."""
        return f"{self.package} {self.version}"

    @property
    def is_ours(self) -> bool:
        """Is it part of tpuc itself?"""
        return normalise(self.package) == OURS

    def load(self) -> Any:
        """Import the object; raises whatever the plugin raises."""
        if self.loader is not None:
            return self.loader()
        module, _, attributes = self.path.partition(":")
        value: Any = importlib.import_module(module.strip())
        for attribute in attributes.split("[")[0].strip().split("."):
            value = getattr(value, attribute)
        return value

    def answers_to(self, name: str) -> bool:
        """Does `--with NAME` mean this one: its package, its whole entry name, or the provider part of a table?"""
        parts = self.name.split(".", 2)
        provider = parts[2] if len(parts) == 3 else None
        return normalise(name) == normalise(self.package) or name in (self.name, provider)


def normalise(package: str) -> str:
    """Package names compare without case, and `-`, `_` and `.` are the same."""
    return re.sub(r"[-_.]+", "-", package).lower()


@functools.cache
def installed_offers() -> tuple[Offer, ...]:
    """Every entry point in a group `tpuc.*`, sorted; read once per process."""
    import importlib.metadata

    offers: list[Offer] = []
    seen: set[str] = set()
    for distribution in importlib.metadata.distributions():
        text = distribution.read_text("entry_points.txt")
        if text is None or "[tpuc." not in text:
            continue  # most packages: their metadata is not even parsed
        metadata = distribution.metadata  # parsed anew each time that it is asked for
        package, version = metadata["Name"], metadata["Version"]
        if normalise(package) in seen:
            continue  # a second copy further down the path is never imported
        seen.add(normalise(package))
        offers += [
            Offer(point.group, point.name, package, version, point.value)
            for point in distribution.entry_points
            if point.group.startswith("tpuc.")
        ]
    return tuple(sorted(offers, key=lambda offer: (offer.group, offer.name, normalise(offer.package), offer.path)))
