"""Floor 4: the processes (settings, wiring, command line, embedded broker, agent, simulator)."""
