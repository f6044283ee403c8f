"""Bundled passes: one file per pass, packages where a pass is large."""
