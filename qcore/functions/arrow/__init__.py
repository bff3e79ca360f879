"""Kernels that run in Python, over Arrow arrays."""
