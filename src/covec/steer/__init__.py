"""Steer: ways to move a model along a concept.

A method of this room is a `Steering`: fitted on examples of one concept, it gives edits of any strength. Those that
change weights (`needs="weights"`) compose weight vectors instead.
"""

from covec.steer._steering import Steering as Steering
from covec.steer._steering import steerings as steerings
