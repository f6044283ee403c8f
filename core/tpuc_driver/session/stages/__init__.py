"""The stages of a compilation: functions from values to values, which know nothing of each other."""
