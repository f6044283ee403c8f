"""The PyTorch front end: exported programs go through torch's own ONNX exporter."""
