"""Factors moved between layers: cross-layer equalization, migration of outliers, integer weights."""
