"""How far a quantized network is from float, and which ops have to stay in float."""
