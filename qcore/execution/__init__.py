"""Queries that run: scans fed with splits, tasks, results, sessions, and what explains them."""
