"""Proposers of calibration tables: one idea per file, with its source; the race says when each runs."""
