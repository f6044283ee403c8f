"""Stages of a compilation: functions that take and return values and are independent of each other."""
