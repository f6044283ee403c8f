"""Where quantization costs accuracy: errors of layers, paired runs, the self-check."""
