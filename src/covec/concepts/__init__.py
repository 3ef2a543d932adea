"""Concepts: the examples that define one, the vectors that were found for it, and the files they are kept in."""
