"""Turn a calibration table into the ranges of a module: import, propagation, and scales from training."""
