"""Steer: moving a model along a concept while it writes."""
