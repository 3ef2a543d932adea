"""The highest verb: what a vector is worth, always beside its null."""
