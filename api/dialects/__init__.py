"""Five existing HTTP dialects, each at its own document's paths: parse, facts, answer from the projection."""
