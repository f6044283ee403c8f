"""What outputs predict: output heads, prediction agreement, scores of candidates, gradients of errors."""
