"""Floor 3: what answers questions (native HTTP and NATS routes)."""
