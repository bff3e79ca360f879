"""Expressions: trees over the columns of one input, their types and values."""
