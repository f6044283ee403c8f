"""A calibration table becomes the ranges of a module: import, propagation, scales from training."""
