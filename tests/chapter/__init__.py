"""The commands of the chapter on TPU-MLIR, and of the paper, each run as it is printed there."""
