"""The run directory and the files that tell a run's history: loss log, segments, samples, state; asking it to stop."""
