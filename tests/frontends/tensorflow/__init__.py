"""Tests of the TensorFlow dialects and front end."""
