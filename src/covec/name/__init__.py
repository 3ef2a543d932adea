"""Name: what a direction stands for, in words.

A method of this room is a `Namer`: it gives texts with weights for directions of a model, those that a direction turns
up first, and those that it turns down last.
"""

from covec.name._namer import Namer as Namer
from covec.name._names import Names as Names
from covec.name._names import describe as describe
