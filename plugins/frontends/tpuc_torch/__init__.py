"""The PyTorch front end: imports exported programs through torch's own ONNX exporter."""
