"""Which version of the compiler is installed."""

from __future__ import annotations


def installed_version() -> str:
    """As the package's metadata has it; empty where the sources are imported without being installed."""
    import importlib.metadata

    try:
        return importlib.metadata.version("tpuc")
    except importlib.metadata.PackageNotFoundError:
        return ""
