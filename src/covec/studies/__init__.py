"""Studies: the sweep over sites, positions and finders, and the judgement of what it found."""

from covec.studies._run import study
from covec.studies.result import Cell, Illustrations, Studies, Study

__all__ = ["Cell", "Illustrations", "Studies", "Study", "study"]
