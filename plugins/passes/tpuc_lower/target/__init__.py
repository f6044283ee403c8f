"""Capabilities of the target chip, and results that passes exchange."""
