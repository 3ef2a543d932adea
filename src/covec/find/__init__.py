"""Find: from labelled activations to the direction of a concept.

A method of this room is a `Finder`; its file holds nothing but its own mathematics.
"""

from covec.find._finder import Finder as Finder
from covec.find._finder import Fits as Fits
from covec.find._finder import fit_together as fit_together
