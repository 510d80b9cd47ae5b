"""Figures beside floors: value and floor alternate in the same run, since machines are shared and noisy."""
