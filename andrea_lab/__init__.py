"""andrea-lab: the engine that trains the ANDREA language models, built piece by piece in notebooks/."""

__version__ = "0.1.0"
