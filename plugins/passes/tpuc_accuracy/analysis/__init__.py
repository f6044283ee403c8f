"""Accuracy analysis: errors of layers, paired runs, the self-check."""
