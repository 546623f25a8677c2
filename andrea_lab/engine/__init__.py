"""The engine: it owns the arrays, runs steps and answers the five verbs."""
