"""The SQL front door: sqlglot's parse tree → plan nodes. `bind.plan_query` is the entry."""
