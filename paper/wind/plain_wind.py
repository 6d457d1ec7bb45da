"""A simulated wind at any times, and its spectrum, in a straightforward implementation."""

import jax.numpy as jnp

from twofold.core.arrays import Array, Float, Scalar
from twofold.envs.wind.turbulence import Spectrum, Wind

# Turbulence classes: I_ref, the mean intensity at 15 m/s (Table 1 of the standard).
REFERENCE_INTENSITY = {"A": 0.16, "B": 0.14, "C": 0.12}


def kaimal(
    spectrum: Spectrum, frequency: Float[Array, "*batch"], mean: Scalar, sigma: Scalar
) -> Float[Array, "*batch"]:
    """``S(f) = σ² 4 (L/V) / (1 + 6 f L/V)^{5/3}``, one-sided (Annex B.2)."""
    scale = spectrum.length / mean
    return sigma**2 * 4.0 * scale / (1.0 + 6.0 * frequency * scale) ** (5.0 / 3.0)


def rotor_wind(wind: Wind, time: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """The wind averaged over the rotor, in m/s."""
    angle = 2.0 * jnp.pi * wind.frequency * time[..., None]
    return wind.mean + jnp.cos(angle + wind.rotor_phase) @ wind.rotor_amplitude


def hub_wind(wind: Wind, time: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """The wind at the hub, in m/s: the part shared with the rotor average, plus the rest."""
    angle = 2.0 * jnp.pi * wind.frequency * time[..., None]
    shared = jnp.cos(angle + wind.rotor_phase) @ wind.hub_amplitude
    return wind.mean + shared + jnp.cos(angle + wind.rest_phase) @ wind.rest_amplitude
