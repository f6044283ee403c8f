"""`tpuc new`: writes the first files of a plugin, which are those of a tested package under other names."""

from __future__ import annotations
