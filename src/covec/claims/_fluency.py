"""How likely what was written is, as claims ask for it."""

from covec.activations.fluency import perplexity as perplexity
from covec.activations.fluency import surprise as surprise
