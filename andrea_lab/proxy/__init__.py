"""The proxy: it chooses the source of each step, keeps the log and drives the engine."""
