"""Corrections of single layers: biases, rounding of weights, scales per channel, float tails."""
