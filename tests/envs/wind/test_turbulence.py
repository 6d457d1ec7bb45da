"""The wind against the standard: variance, spectrum, coherence across the rotor."""

from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.signal import csd, welch

from paper.wind.plain_wind import REFERENCE_INTENSITY, hub_wind, kaimal, rotor_wind
from twofold.core import numerics
from twofold.envs.wind.turbulence import (
    Spectrum,
    build,
    coherence,
    deviation,
    distance_density,
    hub_filter,
    kaimal_variance,
    mean_turn,
    rotor_filter,
    sample,
)
from twofold.envs.wind.turbulence import winds as winds_between

SPECTRUM = Spectrum()
RATE, SEGMENT = 5.0, 2048  # Hz and samples for Welch's method
CASES = pytest.mark.parametrize(("mean", "letter"), [(8.0, "A"), (12.0, "B"), (18.0, "C")])


def naive_kaimal(frequency, mean, sigma):
    """IEC 61400-1, B.2: f S / σ² = (4 f L/V) / (1 + 6 f L/V)^(5/3), L = 8.1 · 42 m."""
    reduced = frequency * 8.1 * 42.0 / mean
    return sigma**2 / frequency * 4 * reduced / (1 + 6 * reduced) ** (5 / 3)


def naive_sigma(mean, letter):
    return REFERENCE_INTENSITY[letter] * (0.75 * mean + 5.6)


@CASES
def test_the_spectrum_and_its_integral(x64, mean, letter):
    sigma = naive_sigma(mean, letter)
    assert float(deviation(REFERENCE_INTENSITY[letter], jnp.array(mean))) == pytest.approx(sigma)
    frequencies = np.geomspace(1e-3, 5.0, 50)
    found = kaimal(SPECTRUM, jnp.array(frequencies), jnp.array(mean), jnp.array(sigma))
    np.testing.assert_allclose(found, naive_kaimal(frequencies, mean, sigma), rtol=1e-12)
    for top in (0.01, 0.3):
        area = quad(naive_kaimal, 0, top, args=(mean, sigma))[0]
        below = kaimal_variance(SPECTRUM, jnp.array(top), jnp.array(mean), jnp.array(sigma))
        assert float(below) == pytest.approx(area, rel=1e-7)


def test_the_rotors_filter_is_the_mean_coherence_of_its_points(x64, rng):
    radius = 63.0 * np.sqrt(rng.uniform(size=(2, 40_000)))
    angle = rng.uniform(0, 2 * np.pi, size=(2, 40_000))
    first, second = radius * np.exp(1j * angle)
    frequencies = np.array([0.0, 0.01, 0.05, 0.2])
    pairs = np.exp(
        -12 * np.abs(first - second)[:, None] * np.hypot(frequencies / 10.0, 0.12 / (8.1 * 42.0))
    )
    found = rotor_filter(SPECTRUM, jnp.array(frequencies), jnp.array(10.0))
    # Four standard errors of the mean over independent pairs.
    errors = 4 * pairs.std(axis=0) / np.sqrt(len(pairs))
    assert (np.abs(found - pairs.mean(axis=0)) < errors).all()
    close = coherence(SPECTRUM, jnp.array(0.0), jnp.array(0.1), jnp.array(10.0))
    assert float(close) == 1.0


def naive_hub_filter(frequency, mean, radius=63.0):
    """The mean of the coherence ``exp(−a r / R)`` over a disc, seen from its centre."""
    a = 12 * radius * np.hypot(frequency / mean, 0.12 / (8.1 * 42.0))
    return 2 / a**2 * (1 - (1 + a) * np.exp(-a))


@pytest.mark.parametrize("mean", [5.0, 10.0, 25.0])
def test_the_hubs_filter_is_the_closed_form(x64, mean):
    frequencies = np.array([0.0, 0.01, 0.05, 0.2, 2.0])
    found = hub_filter(SPECTRUM, jnp.array(frequencies), jnp.array(mean))
    np.testing.assert_allclose(found, naive_hub_filter(frequencies, mean), rtol=1e-9)


@pytest.mark.parametrize("radius", [0.01, 63.0])
def test_amplitudes_give_the_spectra_of_hub_and_rotor_and_what_they_share(x64, rng, radius):
    spectrum, mean, sigma = Spectrum(rotor_radius=radius), jnp.array(10.0), jnp.array(1.5)
    wind = build(spectrum, mean, sigma, jnp.array(rng.uniform(size=(3, spectrum.bins))))
    variance = np.diff(kaimal_variance(spectrum, jnp.array(spectrum.edges), mean, sigma))
    rotor, shared, rest = wind.rotor_amplitude, wind.hub_amplitude, wind.rest_amplitude
    np.testing.assert_allclose((shared**2 + rest**2) / 2, variance)
    kept = rotor_filter(spectrum, wind.frequency, mean)
    np.testing.assert_allclose(rotor**2 / 2, variance * kept)
    expected = naive_hub_filter(np.array(wind.frequency), 10.0, radius)
    np.testing.assert_allclose(rotor * shared / 2, variance * expected, rtol=1e-6)


def test_distances_on_a_disc_have_a_density(x64):
    density = partial(distance_density, 63.0)
    assert quad(lambda r: float(density(jnp.array(r))), 0, 126)[0] == pytest.approx(1.0, abs=1e-6)
    mean = quad(lambda r: r * float(density(jnp.array(r))), 0, 126)[0]
    assert mean == pytest.approx(128 * 63.0 / (45 * np.pi), rel=1e-6)  # A classic of Crofton's.


def both(wind, time):
    return hub_wind(wind, time), rotor_wind(wind, time)


def winds(num, mean, sigma, seconds, rate, which):
    keys = jax.random.split(jax.random.key(0), num)
    time = jnp.arange(int(seconds * rate)) / rate

    @jax.jit
    def series(keys):
        draw = partial(sample, spectrum=SPECTRUM, mean=jnp.array(mean), sigma=jnp.array(sigma))
        return jax.lax.map(lambda key: which(draw(key), time), keys)

    return jax.tree.map(partial(np.array, dtype=float), series(keys))


def band_powers(series, edges, other=None):
    """Variance of each series between frequencies, or its covariance with another, by Welch's
    method."""
    method = {"fs": RATE, "window": "hann", "nperseg": SEGMENT, "detrend": "constant"}
    if other is None:
        frequencies, density = welch(series, **method)
    else:
        frequencies, density = csd(series, other, **method)
    places = [(frequencies >= low) & (frequencies < high) for low, high in edges]
    return np.stack([density[:, place].sum(axis=1) * frequencies[1] for place in places], axis=1)


@CASES
@pytest.mark.parametrize("which", [hub_wind, rotor_wind])
def test_the_spectrum_found_by_welch_is_the_target(which, mean, letter):
    sigma, edges = naive_sigma(mean, letter), octaves()
    found = band_powers(winds(48, mean, sigma, 1638.4, RATE, which), edges)
    weight = (lambda f: 1.0) if which is hub_wind else partial(kept, mean)
    target = [quad(lambda f: weight(f) * naive_kaimal(f, mean, sigma), *edge)[0] for edge in edges]
    # Four standard errors over the winds, and 5 % for the window: it smears a spectrum that falls
    # as f^(-5/3) or faster over neighbouring octaves, and a bin's sinusoid can cross an edge.
    errors = 4 * found.std(axis=0, ddof=1) / np.sqrt(len(found)) + 0.05 * np.array(target)
    assert (np.abs(found.mean(axis=0) - target) < errors).all()


@CASES
def test_the_cross_spectrum_of_hub_and_rotor_is_the_target(mean, letter):
    sigma, edges = naive_sigma(mean, letter), octaves()
    hub, rotor = winds(800, mean, sigma, SEGMENT / RATE, RATE, both)
    found = band_powers(hub, edges, rotor)

    def shared(frequency):
        return naive_hub_filter(frequency, mean) * naive_kaimal(frequency, mean, sigma)

    target = np.array([quad(shared, *edge)[0] for edge in edges])
    # As for the spectra; what is a quarter turn out of phase has the target 0.
    errors = 4 * found.real.std(axis=0, ddof=1) / np.sqrt(len(found)) + 0.05 * target
    assert (np.abs(found.real.mean(axis=0) - target) < errors).all()
    errors = 4 * found.imag.std(axis=0, ddof=1) / np.sqrt(len(found))
    assert (np.abs(found.imag.mean(axis=0)) < errors).all()


def octaves():
    """Bounds half way between Welch's frequencies, from about 0.02 Hz on."""
    width = RATE / SEGMENT
    return list(pairwise((np.round(0.02 * 2.0 ** np.arange(6) / width) + 0.5) * width))


def kept(mean, frequency):
    return float(rotor_filter(SPECTRUM, jnp.array([frequency]), jnp.array(mean))[0])


@CASES
def test_the_intensity_is_the_target(mean, letter):
    sigma = naive_sigma(mean, letter)
    series = winds(200, mean, sigma, 600.0, 2.0, hub_wind)
    target = quad(naive_kaimal, 1e-9, 2.0, args=(mean, sigma), limit=200)[0]
    # Squares about the known mean, averaged over winds; four standard errors of that average.
    squares = ((series - mean) ** 2).mean(axis=1)
    assert abs(squares.mean() - target) < 4 * squares.std(ddof=1) / np.sqrt(len(series))
    assert abs(np.sqrt(squares.mean()) / sigma - 1) < 0.1


def test_a_wind_is_a_pure_function_of_time_and_draws(rng):
    draws = jnp.array(rng.uniform(size=(3, SPECTRUM.bins)))
    wind = build(SPECTRUM, jnp.array(10.0), jnp.array(1.5), draws)
    times = jnp.array([0.0, 3.7, 99.0])
    one_by_one = [float(rotor_wind(wind, time)) for time in times]
    np.testing.assert_allclose(rotor_wind(wind, times), one_by_one, rtol=1e-5)
    low, high = SPECTRUM.edges[:-1], SPECTRUM.edges[1:]
    assert (wind.frequency >= low * 0.999).all() and (wind.frequency <= high * 1.001).all()


@pytest.mark.parametrize("cpu", [True, False])
def test_turning_gives_the_same_winds_as_cosines(x64, monkeypatch, cpu):
    monkeypatch.setattr(numerics, "on_cpu", lambda: cpu)
    wind = sample(jax.random.key(1), SPECTRUM, jnp.array(10.0), jnp.array(1.5))
    times = 130.0 + 0.05 * jnp.arange(20)
    rotor, hub = winds_between(wind, jnp.array(130.0), 0.05, 20)
    np.testing.assert_allclose(rotor, rotor_wind(wind, times), rtol=1e-12)
    assert float(hub) == pytest.approx(float(hub_wind(wind, times).mean()), rel=1e-12)


def test_a_wind_that_does_not_turn_has_its_own_mean(x64):
    shrink, shift = mean_turn(jnp.array([0.0, 0.3, 2.0]), 7)
    expected = np.exp(1j * np.outer(np.arange(7), [0.0, 0.3, 2.0])).mean(axis=0)
    np.testing.assert_allclose(shrink * np.exp(1j * shift), expected, rtol=1e-12)


def test_the_rotor_feels_less_than_the_hub():
    wind = sample(jax.random.key(1), SPECTRUM, jnp.array(10.0), jnp.array(1.5))
    times = jnp.arange(0, 600, 0.5)
    assert float(rotor_wind(wind, times).std()) < float(hub_wind(wind, times).std())


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"lowest": 3.0}, "0 < lowest < highest"), ({"bins": 1}, "bins must be 2 or more")],
)
def test_an_impossible_spectrum_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Spectrum(**settings)
