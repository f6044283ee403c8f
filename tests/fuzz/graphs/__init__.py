"""Random graphs of ONNX operators, and judges of what front end, chips, simulators and the vendor make of them."""
