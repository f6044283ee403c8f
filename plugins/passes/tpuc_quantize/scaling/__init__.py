"""Factors moved between layers: cross-layer equalization, outlier migration, integer weights."""
