"""Procedural data with known truth, and the small models that go with it."""
