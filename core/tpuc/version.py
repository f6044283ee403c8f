"""The installed version of the compiler."""

from __future__ import annotations


def installed_version() -> str:
    """The version in the package's metadata; empty where the sources are imported without installation."""
    import importlib.metadata

    try:
        return importlib.metadata.version("tpuc")
    except importlib.metadata.PackageNotFoundError:
        return ""
