"""Proposers of calibration tables: one idea per file, with its source; the race sets their order."""
