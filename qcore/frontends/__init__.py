"""Readers that turn SQL, Substrait and expression text into plans. Floor P2; they know no connectors."""
