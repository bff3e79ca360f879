"""Substrait plans → qcore plans. SPEC Q1, B3."""
