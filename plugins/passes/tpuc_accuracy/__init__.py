"""Accuracy of a quantized network against float, and selection of the ops that stay in float."""
