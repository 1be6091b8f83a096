"""Floor 3: what reads the streams (reader, projector, evaluator, rebuilding)."""
