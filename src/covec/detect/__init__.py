"""Detect: where texts have a concept, token by token, in single texts, in corpora and while a model writes.

Most methods of this room are aggregators: they make one score a text of the scores of its tokens, and know from which
score on the concept counts as present. A study chooses one on validation and keeps it in the vector.
"""

from covec.detect._aggregator import Aggregator as Aggregator
from covec.detect._aggregator import aggregators as aggregators
from covec.detect._calibrate import calibrate as calibrate
from covec.detect._corpus import Corpus as Corpus
from covec.detect._corpus import detect_file as detect_file
from covec.detect._detect import Detection as Detection
from covec.detect._detect import Detections as Detections
from covec.detect._detect import TokenScore as TokenScore
from covec.detect._detect import detect as detect
from covec.detect._localise import Localised as Localised
from covec.detect._localise import localise as localise
from covec.detect._watch import Log as Log
from covec.detect._watch import watch as watch
