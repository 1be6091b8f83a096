"""Floor 1: the vocabulary of the fleet: ids, subjects, facts, codec, errors. No DuckDB, no FastStream."""
