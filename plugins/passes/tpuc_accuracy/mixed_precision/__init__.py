"""Mixed precision: sensitivity of layers, Pareto front, search under an accuracy constraint."""
