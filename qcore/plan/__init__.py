"""Plans: nodes, schemas, names, and the steps that front doors share."""
