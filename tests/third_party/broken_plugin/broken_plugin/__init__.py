"""Fails as a package does whose driver library is missing."""

from __future__ import annotations

raise ImportError("libbroken.so: cannot open shared object file")
