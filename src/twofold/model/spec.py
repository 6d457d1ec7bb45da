"""The model: ``y = f(x, z; W) + ε`` with ``w ~ N(0, λ)``, ``z ~ N(0, γ_z)``, ``ε ~ N(0, Σ)``.

``f`` is a ReLU network that takes the latent input ``z`` beside ``x``; ``Σ`` is diagonal.
Depeweg et al. (2018), Section 2.
"""

from dataclasses import dataclass

from twofold.model import network


@dataclass(frozen=True)
class BNNLV:
    """Shapes and priors of a Bayesian neural network with latent inputs."""

    inputs: int
    outputs: int
    hidden: tuple[int, ...]
    latents: int
    weight_variance: float
    latent_variance: float

    def __post_init__(self) -> None:
        for name in ("inputs", "outputs"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if any(units < 1 for units in self.hidden):
            raise ValueError(f"every hidden layer needs at least 1 unit, got {self.hidden}")
        if self.latents < 0:
            raise ValueError(f"latents must be 0 (no latent input) or positive, got {self.latents}")
        for name in ("weight_variance", "latent_variance"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Layer sizes, from the inputs (latent ones included) to the outputs."""
        return (self.inputs + self.latents, *self.hidden, self.outputs)

    @property
    def num_weights(self) -> int:
        """P, the number of weights and biases."""
        return network.num_weights(self.sizes)


def prior_deviation(model: BNNLV) -> float:
    """Root of the prior variance of f at a standardised input (one with ``‖x‖² = D``).

    Behind a ReLU half of the second moment is left.
    """
    second_moment = model.inputs + model.latents * model.latent_variance
    variance = model.weight_variance * (second_moment + 1.0)
    for units in model.hidden:
        variance = model.weight_variance * (units * 0.5 * variance + 1.0)
    return float(variance**0.5)
