"""Attention masks: recognized by structure, bounded, their scores kept in floats."""
