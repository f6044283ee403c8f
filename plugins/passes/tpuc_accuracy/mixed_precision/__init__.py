"""Which layers stay in floats: sensitivity, Pareto front, search under an accuracy constraint."""
