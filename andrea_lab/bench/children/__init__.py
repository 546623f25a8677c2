"""Processes that are measured: each serves requests through `serve`, so that peers alternate under one clock."""
