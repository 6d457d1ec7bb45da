"""Active learning: scores of candidates, batches, the pool loop, and when to stop."""

from twofold.active.choice import (
    Assessment,
    advise,
    assess,
    choose_batch,
    choose_best,
    epistemic_score,
    expected_information,
    is_enough,
    left_to_learn,
    random_score,
    total_score,
)
from twofold.active.loop import Data, Round, Setting, pool_loop

__all__ = [
    "Assessment", "Data", "Round", "Setting", "advise", "assess", "choose_batch", "choose_best",
    "epistemic_score", "expected_information", "is_enough", "left_to_learn", "pool_loop",
    "random_score", "total_score",
]  # fmt: skip
