"""Fake-quantized networks: quantization grids, batches, the slots of outputs."""
