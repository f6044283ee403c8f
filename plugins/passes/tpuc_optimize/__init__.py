"""Optimization of TOP modules: canonical forms, constant folding, operation counts."""
