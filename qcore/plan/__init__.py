"""Plans: nodes, schemas, names, and the steps that frontends share."""
