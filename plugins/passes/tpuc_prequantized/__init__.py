"""Pre-quantized networks, with QuantizeLinear and DequantizeLinear or with TFLite's quantized types."""
