"""Networks that come quantized, by QuantizeLinear and DequantizeLinear or as TFLite states types."""
