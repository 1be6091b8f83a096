"""Floor 2: what the log folds into (pure rules, then tables, store and queries in DuckDB)."""
