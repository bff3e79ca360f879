"""Plans built step by step in Python."""
