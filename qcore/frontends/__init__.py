"""Readers that turn SQL, Substrait and expression text into plans."""
