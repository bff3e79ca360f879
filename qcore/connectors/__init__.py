"""Connectors: where data comes from. Each turns a source into splits, and a split into an Arrow stream."""
