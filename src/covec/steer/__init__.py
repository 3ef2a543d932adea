"""Steer: ways to move a model along a concept.

A method of this room is a `Steering`: fitted on examples of one concept, it gives edits of any strength.
"""

from covec.steer._steering import Steering as Steering
