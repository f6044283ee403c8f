"""Entry points of installed packages, read without importing the packages."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tpuc.spelling import american

OURS = "tpuc"
"""The package that contains core and the bundled plugins."""
_SECTION = "[tpuc."
"""The prefix of the compiler's groups in a package's entry points."""


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
        """The package as shown in messages."""
        return f"{self.package} {self.version}"

    @property
    def is_ours(self) -> bool:
        """True if the package is part of tpuc itself."""
        return normalize(self.package) == OURS

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
        """True if `--with NAME` selects this offer: by package, whole entry name, or the provider part of a table."""
        parts = self.name.split(".", 2)
        provider = parts[2] if len(parts) == 3 else None
        return normalize(name) == normalize(self.package) or name in (self.name, provider)


def normalize(package: str) -> str:
    """A normalized package name: case is ignored, and `-`, `_` and `.` are the same."""
    return re.sub(r"[-_.]+", "-", package).lower()


@dataclass(frozen=True)
class Scan:
    """All entry points, sorted; `unreadable` has a sentence for each package with unreadable metadata."""

    offers: tuple[Offer, ...]
    unreadable: tuple[str, ...]


def installed_offers() -> tuple[Offer, ...]:
    """Every entry point in a group `tpuc.*`, sorted."""
    return scan_installed().offers


@functools.cache
def scan_installed() -> Scan:
    """Read the metadata of every installed package, once per process; unreadable metadata is skipped."""
    import importlib.metadata

    offers: list[Offer] = []
    unreadable: list[str] = []
    seen: set[str] = set()
    for distribution in importlib.metadata.distributions():
        try:
            text = distribution.read_text("entry_points.txt")
            if text is None or _SECTION not in text:
                continue  # most packages: their metadata is not even parsed
            package, version = _identity(distribution)
            found = [point for point in distribution.entry_points if point.group.startswith("tpuc.")]
        except Exception as error:  # noqa: BLE001 # whatever strange metadata makes the library raise
            if not isinstance(error, UnicodeDecodeError) or _SECTION.encode() in error.object:
                unreadable.append(_unreadable(distribution, error))
            continue
        if normalize(package) not in seen:  # a second copy further down the path is never imported
            offers += [Offer(american(point.group), point.name, package, version, point.value) for point in found]
        seen.add(normalize(package))
    order = sorted(offers, key=lambda offer: (offer.group, offer.name, normalize(offer.package), offer.path))
    return Scan(tuple(order), tuple(sorted(unreadable)))


def _identity(distribution: Any) -> tuple[str, str]:
    """Name and version of a package; taken from its folder's name where there is no METADATA."""
    try:
        metadata = distribution.metadata  # parsed anew each time that it is asked for
        name, version = metadata["Name"], metadata["Version"]
    except Exception:  # noqa: BLE001 # which error depends on the version of Python
        name = version = None
    stem, _, number = _folder(distribution).rpartition(".")[0].partition("-")
    return str(name or stem or "a package without a name"), str(version or number or "(no version)")


def _folder(distribution: Any) -> str:
    """The folder with a package's metadata, such as `gadget-1.0.dist-info`."""
    path = getattr(distribution, "_path", None)  # there is no other way to ask for it
    return str(getattr(path, "name", ""))


def _unreadable(distribution: Any, error: Exception) -> str:
    package, version = _identity(distribution)
    cause = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else f"{type(error).__name__}: {error}"
    return (
        f"the plugins of {package} {version} are left out: its entry_points.txt cannot be read: "
        f"{' '.join(cause.split()).rstrip('.')}. Install it again, or uninstall {package}."
    )
