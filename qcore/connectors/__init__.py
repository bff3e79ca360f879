"""Connectors: sources of data. Each turns a source into splits, and a split into an Arrow stream."""
