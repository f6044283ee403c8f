"""Tests of TpuLang."""
