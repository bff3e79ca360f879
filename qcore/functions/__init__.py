"""The functions of the engine: names, signatures, result types, kernels."""
