"""Substrait plans → qcore plans."""
