"""Capabilities of the target chip, and results exchanged between passes."""
