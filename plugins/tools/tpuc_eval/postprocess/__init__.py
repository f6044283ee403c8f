"""From the outputs of a network to a prediction."""
