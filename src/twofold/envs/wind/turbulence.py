"""Turbulent wind with the Kaimal spectrum of IEC 61400-1 (edition 3), as a sum of sinusoids.

The spectrum is cut into bins; each bin gives one sinusoid with the bin's variance, a frequency
drawn inside the bin and a random phase, so that the wind is a pure function of time. The rotor sees
the average over its disc, which damps fast gusts by a filter that follows from the standard's
coherence, as does the correlation of that average with the wind at the hub's anemometer.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core import numerics
from twofold.core.arrays import Array, Float, Key, Scalar
from twofold.envs.system import check_fields


@dataclass(frozen=True)
class Spectrum:
    """Length scales of the standard for hubs above 60 m (m), and frequencies of the bins (Hz)."""

    length: float = 8.1 * 42.0  # L_1 = 8.1 Λ_1, also L_c of the coherence
    decay: float = 12.0
    rotor_radius: float = 63.0
    bins: int = 80
    lowest: float = 1e-3
    highest: float = 2.0

    def __post_init__(self):
        if not 0 < self.lowest < self.highest:
            given = f"lowest {self.lowest} and highest {self.highest} Hz"
            raise ValueError(f"frequencies must satisfy 0 < lowest < highest, got {given}")
        check_fields(self, "bins", "be 2 or more", lambda value: value >= 2)

    @property
    def edges(self) -> np.ndarray:
        """Edges of the bins: from 0 to the lowest frequency, then logarithmically spaced."""
        return np.concatenate([[0.0], np.geomspace(self.lowest, self.highest, self.bins)])


class Wind(NamedTuple):
    """One realisation: mean in m/s, frequencies in Hz, amplitudes in m/s and phases in rad. The
    wind at the hub has a part in phase with the rotor average and an independent rest."""

    mean: Scalar
    frequency: Float[Array, "F"]
    rotor_amplitude: Float[Array, "F"]
    hub_amplitude: Float[Array, "F"]
    rest_amplitude: Float[Array, "F"]
    rotor_phase: Float[Array, "F"]
    rest_phase: Float[Array, "F"]


def deviation(intensity: Scalar | float, mean: Scalar) -> Scalar:
    """``σ_1 = I_ref (0.75 V_hub + 5.6)``, normal turbulence (§6.3.1.3)."""
    return intensity * (0.75 * mean + 5.6)


def kaimal_variance(
    spectrum: Spectrum, frequency: Float[Array, "*batch"], mean: Scalar, sigma: Scalar
) -> Float[Array, "*batch"]:
    """``∫_0^f S = σ² (1 − (1 + 6 f L/V)^{−2/3})`` of the one-sided spectrum (Annex B.2)
    ``S(f) = σ² 4 (L/V) / (1 + 6 f L/V)^{5/3}``."""
    scale = spectrum.length / mean
    return sigma**2 * (1.0 - (1.0 + 6.0 * frequency * scale) ** (-2.0 / 3.0))


def coherence(
    spectrum: Spectrum,
    distance: Float[Array, "*#batch"],
    frequency: Float[Array, "*#batch"],
    mean: Scalar,
) -> Float[Array, "..."]:
    """``exp(−12 √((f r/V)² + (0.12 r/L_c)²))`` of two points across the wind (Annex B.2)."""
    fast = frequency * distance / mean
    return jnp.exp(-spectrum.decay * jnp.hypot(fast, 0.12 * distance / spectrum.length))


def distance_density(radius: float, distance: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """Density of the distance between two points chosen at random on a disc."""
    share = distance / (2.0 * radius)
    chord = jnp.arccos(share) - share * jnp.sqrt(1.0 - share**2)
    return 4.0 * distance / (jnp.pi * radius**2) * chord


def rotor_filter(
    spectrum: Spectrum, frequency: Float[Array, "F"], mean: Scalar
) -> Float[Array, "F"]:
    """Fraction of the spectrum kept by the average over the rotor: its mean coherence."""
    nodes, weights = np.polynomial.legendre.leggauss(48)
    distances = jnp.asarray(spectrum.rotor_radius * (nodes + 1.0), float)
    density = distance_density(spectrum.rotor_radius, distances)
    pairs = coherence(spectrum, distances, frequency[:, None], mean)
    return pairs @ (density * jnp.asarray(spectrum.rotor_radius * weights, float))


def hub_filter(spectrum: Spectrum, frequency: Float[Array, "F"], mean: Scalar) -> Float[Array, "F"]:
    """``∫_0^R coh(r) 2 r / R² dr``: the hub's mean coherence with the points of the rotor."""
    nodes, weights = np.polynomial.legendre.leggauss(48)
    share = jnp.asarray((nodes + 1.0) / 2.0, float)
    pairs = coherence(spectrum, spectrum.rotor_radius * share, frequency[:, None], mean)
    return pairs @ (share * jnp.asarray(weights, float))


def build(spectrum: Spectrum, mean: Scalar, sigma: Scalar, draws: Float[Array, "3 F"]) -> Wind:
    """The wind from uniform draws: positions of frequencies in their bins, and two sets of phases.

    With the rotor spectrum ``k S`` and the cross-spectrum ``c S``, the wind at the hub is ``c / k``
    times that of the rotor plus a rest with the spectrum ``(1 − c² / k) S``.
    """
    edges = jnp.asarray(spectrum.edges, float)
    low, high = edges[:-1], edges[1:]
    inside = low[1:] * (high[1:] / low[1:]) ** draws[0, 1:]
    frequency = jnp.concatenate([high[:1] * draws[0, :1], inside])
    variance = jnp.diff(kaimal_variance(spectrum, edges, mean, sigma))
    kept = rotor_filter(spectrum, frequency, mean)
    shared = hub_filter(spectrum, frequency, mean)
    rotor = jnp.sqrt(2.0 * variance * kept)
    rest = jnp.sqrt(2.0 * variance * jnp.maximum(1.0 - shared**2 / kept, 0.0))
    phases = 2.0 * jnp.pi * draws[1:]
    return Wind(mean, frequency, rotor, shared / kept * rotor, rest, *phases)


def sample(key: Key, spectrum: Spectrum, mean: Scalar, sigma: Scalar) -> Wind:
    return build(spectrum, mean, sigma, jax.random.uniform(key, (3, spectrum.bins)))


def winds(
    wind: Wind, start: Scalar, spacing: float, num: int
) -> tuple[Float[Array, "num"], Scalar]:
    """The wind averaged over the rotor at ``num`` times, and the time average of the wind at the
    hub, which is the part shared with the rotor average plus an independent rest."""
    step = 2.0 * jnp.pi * spacing * wind.frequency
    first = 2.0 * jnp.pi * wind.frequency * start
    rotor, rest = first + wind.rotor_phase, first + wind.rest_phase
    along = sum_sinusoids(wind.rotor_amplitude, rotor, step, num)
    shrink, shift = mean_turn(step, num)
    shared = jnp.sum(wind.hub_amplitude * shrink * jnp.cos(rotor + shift))
    independent = jnp.sum(wind.rest_amplitude * shrink * jnp.cos(rest + shift))
    return wind.mean + along, wind.mean + shared + independent


def mean_turn(step: Float[Array, "F"], num: int) -> tuple[Float[Array, "F"], Float[Array, "F"]]:
    """Modulus and angle of ``Σ_t exp(i t δ) / n``, t = 0 … n − 1: a geometric series."""
    turns = step / (2.0 * jnp.pi)
    return jnp.sinc(num * turns) / jnp.sinc(turns), 0.5 * (num - 1) * step


def sum_sinusoids(
    amplitude: Float[Array, "F"], phase: Float[Array, "F"], step: Float[Array, "F"], num: int
) -> Float[Array, "num"]:
    """``Σ_f a_f cos(φ_f + t δ_f)`` for t = 0 … n − 1. A GPU computes the cosines while summing. On
    a CPU they would take most of the time of a simulation, so there every sinusoid is rotated from
    one time to the next, by a few products."""
    if not numerics.on_cpu():
        times = jnp.arange(num, dtype=step.dtype)
        return jnp.sum(amplitude * jnp.cos(phase + times[:, None] * step), axis=1)
    cosine, sine = jnp.cos(step), jnp.sin(step)

    def turn(at: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        real, imaginary = at
        return (real * cosine - imaginary * sine, imaginary * cosine + real * sine), at

    begin = jnp.ones_like(step), jnp.zeros_like(step)
    _, (real, imaginary) = jax.lax.scan(turn, begin, None, length=num)
    return real @ (amplitude * jnp.cos(phase)) - imaginary @ (amplitude * jnp.sin(phase))
