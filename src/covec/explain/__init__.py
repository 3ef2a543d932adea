"""Explain: which parts of an input, and which concepts in it, a model's answer rests on.

A method of this room is an `Explainer`: it changes inputs or activations and sees how a `Target` moves.
"""

from covec.explain._explainer import Explainer as Explainer
from covec.explain._explainer import Explanation as Explanation
from covec.explain._explainer import explain as explain
from covec.explain._target import Target as Target
