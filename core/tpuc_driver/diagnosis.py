"""Inspect the installation: versions, plugins, optional packages, cores, memory."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpuc.extras import PACKAGE, install_command
from tpuc.registry import Registry
from tpuc.version import installed_version

from tpuc_driver.cli.summaries import BUILT_IN
from tpuc_driver.problems import find_problems

_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)[^;]*(;.*extra\s*==\s*['\"](?P<extra>[^'\"]+)['\"])?")


@dataclass(frozen=True)
class Requirement:
    """A required package with its installed version; empty where it is not installed."""

    name: str
    version: str


@dataclass(frozen=True)
class Extra:
    """Optional packages for one purpose; `install` is the command that installs missing ones."""

    name: str
    packages: tuple[Requirement, ...]
    install: str

    @property
    def is_complete(self) -> bool:
        """True if all of it is installed."""
        return all(one.version for one in self.packages)


@dataclass(frozen=True)
class Diagnosis:
    """The result of an inspection. `problems` are sentences, each with its cure; without any, everything installed
    works.

    `memory_bytes` and `free_bytes` are None where the system does not report them.
    """

    version: str
    source: str
    python: str
    system: str
    cores: int
    memory_bytes: int | None
    free_bytes: int | None
    packages: tuple[Requirement, ...]
    extras: tuple[Extra, ...]
    plugins: Mapping[str, Sequence[str]]
    problems: tuple[str, ...]

    def text(self) -> str:
        """One line per item; missing ones with the command that installs them."""
        lines = [
            f"tpuc {self.version or '(not installed)'} in {self.source}",
            f"Python {self.python}, {self.system}",
            f"{self.cores} cores, {_shown_memory(self.memory_bytes)}, {_shown_memory(self.free_bytes)} free",
            "packages: " + ", ".join(f"{one.name} {one.version or 'MISSING'}" for one in self.packages),
        ]
        lines += [f"{kind}: {', '.join(names)}" for kind, names in self.plugins.items()]
        for extra in self.extras:
            shown = ", ".join(f"{one.name} {one.version or 'not installed'}" for one in extra.packages)
            lines.append(f"extra '{extra.name}': {shown}" + ("" if extra.is_complete else f" -> {extra.install}"))
        lines += [f"PROBLEM: {problem}" for problem in self.problems] or ["no problems"]
        return "\n".join(lines)

    def to_json(self) -> Mapping[str, Any]:
        """The result as JSON values."""
        return dataclasses.asdict(self)

    def __repr__(self) -> str:
        return self.text()


def doctor(registry: Registry | None = None) -> Diagnosis:
    """Inspect this installation: loads every plugin, runs nothing and changes nothing."""
    registry = Registry() if registry is None else registry
    packages, extras = _requirements()
    missing = [
        f"tpuc needs the package {one.name}, which is missing: pip install {one.name}"
        for one in packages
        if not one.version
    ]
    total, free = _memory()
    return Diagnosis(
        installed_version(),
        str(Path(__file__).resolve().parent),
        f"{platform.python_version()} ({sys.executable})",
        f"{platform.system()} {platform.machine()}",
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        total,
        free,
        packages,
        extras,
        {registry.group(group).kind: names for group in registry.groups if (names := registry.names(group))},
        (*missing, *registry.unreadable, *(problem.sentence for problem in find_problems(registry, BUILT_IN))),
    )


def versions() -> dict[str, str]:
    """The versions of tpuc, Python and required packages."""
    packages, _ = _requirements()
    return {
        "tpuc": installed_version(),
        "Python": platform.python_version(),
        **{one.name: one.version for one in packages},
    }


def _requirements() -> tuple[tuple[Requirement, ...], tuple[Extra, ...]]:
    """The package's requirements, and its extras."""
    try:
        distribution = importlib.metadata.distribution(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return (), ()
    found: dict[str, list[Requirement]] = {}
    for name, extra in _parsed(distribution.requires or ()):
        found.setdefault(extra, []).append(Requirement(name, _version(name)))
    needed = tuple(found.pop("", []))
    return needed, tuple(Extra(name, tuple(ones), install_command(name)) for name, ones in sorted(found.items()))


def _parsed(requirements: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Package and extra of each requirement; the extra is empty for unconditional ones."""
    for text in requirements:
        match = _REQUIREMENT.match(text)
        assert match is not None, text
        yield match["name"], match["extra"] or ""


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _memory() -> tuple[int | None, int | None]:
    """Total bytes, and bytes that are free or can be freed."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None, None
    found = {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines)}
    return found.get("MemTotal"), found.get("MemAvailable")


def _shown_memory(count: int | None) -> str:
    return "unknown memory" if count is None else f"{count / (1 << 30):.1f} GiB"
