"""Floor 1: the vocabulary of the fleet (ids, subjects, facts, codec, errors, append). No DuckDB, no FastStream."""
