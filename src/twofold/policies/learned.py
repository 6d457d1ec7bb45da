"""``LearnedPolicy``: a policy that acts on a window of raw observations, and its file."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from twofold import persistence
from twofold.control import policy
from twofold.control.policy import PolicyNetwork
from twofold.data import Standardizer
from twofold.logs.embedding import Embedding
from twofold.logs.transforms import Transform
from twofold.logs.windows import Window
from twofold.persistence import FileFormatError
from twofold.typing import Array, Float


@dataclass(frozen=True, eq=False)
class LearnedPolicy:
    """A policy with all that it needs to act: what it sees, its units and its weights.

    ``epistemic_weight`` (β), ``aleatoric_weight`` (γ) and ``seed`` say how it was found.
    """

    embedding: Embedding
    shape: PolicyNetwork
    standardizer: Standardizer
    weights: np.ndarray
    epistemic_weight: float = 0.0
    aleatoric_weight: float = 0.0
    seed: int = 0
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def history(self) -> int:
        """How many observations it looks back."""
        return self.embedding.history

    def act(self, observations: Any, actions: Any = None) -> np.ndarray:
        """The action after some observations ``[H, D]``, newest last, and the actions
        ``[H - 1, A]`` between them (which may be left out if the policy does not see them)."""
        seen = np.asarray(observations, float)
        columns = len(self.embedding.observations)
        if seen.ndim != 2 or seen.shape[1] != columns or len(seen) < self.history:
            raise ValueError(
                f"expected at least {self.history} observations of {columns} columns "
                f"({', '.join(self.embedding.observations)}), got the shape {seen.shape}"
            )
        past = self._past(actions, len(seen))
        if not (np.isfinite(seen[-self.history :]).all() and np.isfinite(past).all()):
            raise ValueError("observations and actions must be finite; fill gaps before acting")
        window = Window(jnp.asarray(seen[-self.history :]), jnp.asarray(past))
        return np.asarray(_act(self.embedding, self.shape, self.leaves, window), float)

    def _past(self, actions: Any, steps: int) -> np.ndarray:
        shape = (self.history - 1, len(self.embedding.actions))
        if actions is None and all(lags <= 1 for lags in self.embedding.action_lags):
            return np.zeros(shape)
        past = np.asarray(actions, float)
        if past.ndim != 2 or past.shape[1] != shape[1] or len(past) < shape[0]:
            raise ValueError(
                f"expected the last {shape[0]} actions of {shape[1]} columns "
                f"({', '.join(self.embedding.actions)}), got the shape {past.shape}"
            )
        return past[len(past) - shape[0] :]

    @property
    def leaves(self) -> tuple[Array, Array, Array]:
        """Weights, and the means and deviations of the features, for compiled programs."""
        mean, scale = self.standardizer
        return jnp.asarray(self.weights), jnp.asarray(mean), jnp.asarray(scale)

    def save(self, path: Any) -> None:
        """Write the policy to one file; ``load_policy`` reads it back."""
        embedding = self.embedding
        metadata = {
            "observations": embedding.observations,
            "actions": embedding.actions,
            "lags": embedding.lags,
            "action_lags": embedding.action_lags,
            "transforms": [[t.kind, t.low, t.high] for t in embedding.transforms],
            "hidden": self.shape.hidden,
            "low": self.shape.low,
            "high": self.shape.high,
            "epistemic_weight": self.epistemic_weight,
            "aleatoric_weight": self.aleatoric_weight,
            "seed": self.seed,
            "notes": self.notes,
        }
        arrays = {"weights": self.weights, **self.standardizer._asdict()}
        persistence.write(path, "policy", arrays, metadata)


def load_policy(path: Any) -> LearnedPolicy:
    """Read a policy that ``LearnedPolicy.save`` wrote; it acts exactly as before."""
    stored = persistence.read(path, "policy")
    try:
        return _unpacked(stored.arrays, stored.metadata)
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(
            f"{path} is a policy that this twofold cannot read: {error}"
        ) from error


def _unpacked(arrays: dict[str, np.ndarray], metadata: dict[str, Any]) -> LearnedPolicy:
    lags, action_lags = tuple(metadata["lags"]), tuple(metadata["action_lags"])
    embedding = Embedding(
        tuple(metadata["observations"]),
        tuple(metadata["actions"]),
        lags,
        action_lags,
        targets=(),
        deltas=(),
        transforms=tuple(Transform(*one) for one in metadata["transforms"]),
    )
    shape = PolicyNetwork(
        len(arrays["mean"]),
        tuple(metadata["hidden"]),
        tuple(metadata["low"]),
        tuple(metadata["high"]),
    )
    return LearnedPolicy(
        embedding,
        shape,
        Standardizer(arrays["mean"], arrays["scale"]),
        arrays["weights"],
        metadata["epistemic_weight"],
        metadata["aleatoric_weight"],
        metadata["seed"],
        metadata["notes"],
    )


def act_on(
    embedding: Embedding, shape: PolicyNetwork, leaves: tuple[Array, ...], window: Window
) -> Float[Array, "A"]:
    """The action for one window: features, standardised, through the network."""
    weights, mean, scale = leaves
    features = (embedding.features(window) - mean) / scale
    return policy.act(shape, weights[None], features[None, None])[0, 0]


_act = partial(jax.jit, static_argnums=(0, 1))(act_on)
