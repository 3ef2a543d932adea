"""Benches: published methods side by side on the same concepts, by the same statistics."""
