"""python-crfsuite's interface over partwise: ``import partwise.crfsuite as pycrfsuite``.

`Tagger` reads CRFsuite's model files, and `Trainer` writes them, so the two libraries can use each other's models.
Read `tagger` first. `algorithms` says what is trained in place of CRFsuite's five algorithms.
"""

from __future__ import annotations

from partwise.crfsuite.tagger import Tagger
from partwise.crfsuite.trainer import BaseTrainer, CRFSuiteError, Trainer
from partwise.crfsuite.training_log import LabelScore, TrainLogParser
from partwise.tasks.sequences.crf_views import TaggerError
from partwise.tasks.sequences.item_sequence import ItemSequence

CRFSUITE_VERSION = "0.12"  # of the files that are read and written

__all__ = [
    "CRFSUITE_VERSION",
    "BaseTrainer",
    "CRFSuiteError",
    "ItemSequence",
    "LabelScore",
    "Tagger",
    "TaggerError",
    "TrainLogParser",
    "Trainer",
]
