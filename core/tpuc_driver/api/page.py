"""The interface for commands that write HTML pages."""

from __future__ import annotations

from tpuc_driver.page import Data, Markup, fill_page, policy_of

__all__ = ["Data", "Markup", "fill_page", "policy_of"]
