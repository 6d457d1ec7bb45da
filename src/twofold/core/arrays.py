"""Array aliases and the axis vocabulary used in every annotation.

N data · B minibatch · D inputs · O outputs · Z latent inputs · P network weights · K joint draws
(training) · M weight draws · L latent draws (prediction) · S members fitted together · T horizon.
"""

from typing import TypeAlias

import jaxtyping
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt32

Key: TypeAlias = PRNGKeyArray
Keys: TypeAlias = jaxtyping.Key[Array, "S"]
Scalar: TypeAlias = Float[Array, ""]

__all__ = ["Array", "Bool", "Float", "Int", "Key", "Keys", "Scalar", "UInt32"]
