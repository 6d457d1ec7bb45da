"""The nearest-neighbour baseline: the risk of a state is its distance to the known ones.

For a deterministic model. The known states are summed up by the centroids of a k-means clustering.
"""

import jax.numpy as jnp
import numpy as np
from sklearn.cluster import MiniBatchKMeans

from twofold.core.arrays import Array, Float


def centroids(features: np.ndarray, num: int, seed: int) -> np.ndarray:
    """Centres of ``num`` clusters of standardised features ``[N, F]``."""
    clusters = MiniBatchKMeans(min(num, len(features)), random_state=seed, n_init=3)
    return clusters.fit(features).cluster_centers_


def distances(
    features: Float[Array, "*batch F"], centres: Float[Array, "C F"]
) -> Float[Array, "*batch"]:
    """The Euclidean distance of each point to the nearest centre."""
    products = jnp.einsum("...f,cf->...c", features, centres)
    squares = jnp.sum(jnp.square(features), axis=-1, keepdims=True)
    apart = squares - 2.0 * products + jnp.sum(jnp.square(centres), axis=1)
    # A root has no slope to follow at a centre itself.
    return jnp.sqrt(jnp.maximum(jnp.min(apart, axis=-1), 1e-12))
