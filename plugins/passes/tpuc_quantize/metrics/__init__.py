"""What outputs mean: output heads, prediction agreement, scores of candidates, gradients of errors."""
