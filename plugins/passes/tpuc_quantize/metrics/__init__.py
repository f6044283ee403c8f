"""The meaning of outputs: output heads, prediction agreement, scores of candidates, gradients of errors."""
