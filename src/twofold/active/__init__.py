"""Active learning: scores of candidates, joint batches, the pool loop, and when to stop."""

from twofold.active.choice import (
    Assessment,
    assess,
    choose_batch,
    choose_best,
    epistemic_score,
    expected_information,
    random_score,
    total_score,
)
from twofold.active.loop import Data, Round, Setting, pool_loop
from twofold.active.stopping import advise, is_enough, left_to_learn

__all__ = [
    "Assessment",
    "Data",
    "Round",
    "Setting",
    "advise",
    "assess",
    "choose_batch",
    "choose_best",
    "epistemic_score",
    "expected_information",
    "is_enough",
    "left_to_learn",
    "pool_loop",
    "random_score",
    "total_score",
]
