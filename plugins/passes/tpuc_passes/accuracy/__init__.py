"""Where quantisation costs accuracy: fake-quantised networks, sensitivity of layers, error splits, remedies."""
