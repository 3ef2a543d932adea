"""Worlds in which the answer of a measure is known: one file a measure, called as the measure's own."""
