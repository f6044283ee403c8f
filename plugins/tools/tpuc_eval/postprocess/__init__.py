"""Post-processing: turn the outputs of a network into a prediction."""
