"""Measure, the highest verb: what a vector is worth and what concepts tell of a model, always beside its null.

A method of this room is a function that gives a `Figure` with its null, or something whose `figure` is one. Its trial,
in `checks/trials/` under the same name, makes arguments of which the answer is known.
"""
