"""Sessions, the tasks that they run, and results."""
