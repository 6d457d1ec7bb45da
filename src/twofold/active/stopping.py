"""When to stop measuring: what more data could still remove, beside the noise that stays."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from twofold.active.choice import Assessment

SMALL_SHARE = 0.05


def left_to_learn(reference: Assessment) -> dict[str, float]:
    """What more data could still remove, over reference points.

    ``epistemic_nats`` is the mean of ``I(W; y)``, ``epistemic_share`` the epistemic part of the
    predictive variance (the mean over outputs).
    """
    epistemic, aleatoric = reference.epistemic.mean(axis=1), reference.aleatoric.mean(axis=1)
    share = np.mean(epistemic / (epistemic + aleatoric))
    return {"epistemic_nats": float(reference.information.mean()), "epistemic_share": float(share)}


def is_enough(curve: Sequence[Mapping[str, Any]]) -> bool:
    """Whether what more data could remove is small beside what they could not."""
    return bool(curve) and curve[-1]["epistemic_share"] < SMALL_SHARE


def advise(curve: Sequence[Mapping[str, Any]], missing: int, complete: int) -> str:
    """Whether more measurements pay, in words.

    ``curve`` holds ``left_to_learn`` and the number of ``measurements`` of each model so far,
    ``missing`` the measurements a first model still needs, ``complete`` those there are.
    """
    if not curve:
        return (
            f"no model yet: {missing} more complete measurement"
            f"{'s are' if missing > 1 else ' is'} needed"
            if missing > 0
            else "no model yet: ask once to fit the first one"
        )
    share, seen = curve[-1]["epistemic_share"], int(curve[-1]["measurements"])
    verdict = "consider stopping" if is_enough(curve) else "going on pays"
    later = f" ({complete - seen} more since then: ask to include them)" if complete > seen else ""
    return (
        f"{verdict}: after {seen} measurements{later}, more of them could remove about {share:.0%} "
        f"of the predictive variance; the other {1 - share:.0%} is noise that measuring again does "
        "not remove"
    )
