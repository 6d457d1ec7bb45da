"""Draw the figures of ``docs/wind.md`` and print the numbers for that page.

python scripts/wind_figures.py                # some minutes; the last figure needs rosco
"""

import tempfile
from importlib.util import find_spec
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from scipy.signal import csd

from paper.wind import checks, published, rosco
from paper.wind.plain_wind import REFERENCE_INTENSITY, hub_wind, kaimal, rotor_wind
from twofold.envs.system import constant, episode
from twofold.envs.wind import task, turbulence
from twofold.report.figures import CHOSEN, DATA, PALETTE, POINTS, TOTAL, TRUTH, style

IMAGES = Path(__file__).parent.parent / "docs" / "images"
BLUE, ORANGE, GREEN = PALETTE[:3]
TIMES = jnp.arange(8192) / 5.0


def save(figure: plt.Figure, name: str) -> None:
    figure.savefig(IMAGES / f"wind_{name}.png", dpi=110, bbox_inches="tight")
    plt.close(figure)


def steady_states() -> None:
    """Rotor speed, pitch, power and thrust over the wind, and the published ones."""
    found = checks.steady_states(np.arange(5.0, 25.01, 0.25))
    force = published.ROTOR_FORCE - published.WEIGHT
    panels = {
        "Rotor speed (rpm)": (found.rotor_speed, published.ROTOR_SPEED),
        "Blade pitch (degrees)": (found.pitch, published.PITCH),
        "Electric power (MW)": (found.power / 1e3, published.POWER / 1e3),
        "Thrust (kN)": (found.thrust, force),
    }
    figure, axes = plt.subplots(2, 2, figsize=(9, 5.6), sharex=True, layout="constrained")
    known = published.WIND >= 5
    for axis, (title, (ours, theirs)) in zip(axes.flat, panels.items(), strict=True):
        axis.plot(found.wind, ours, color=BLUE, label="this turbine")
        axis.plot(published.WIND[known], theirs[known], "o", ms=4, mfc="white", color=POINTS)
        axis.set(title=title, ylim=(0, None))
    axes[0, 0].plot([], [], "o", ms=4, mfc="white", color=POINTS, label="published (FAST)")
    axes[0, 0].legend(loc="lower right")
    for axis in axes[1]:
        axis.set(xlabel="wind (m/s)", xticks=range(5, 26, 5))
    save(figure, "steady")
    print("steady states", checks.steady_state_errors(checks.steady_states()))


def wind_series(mean: float, sigma: jax.Array) -> tuple[np.ndarray, np.ndarray]:
    """Wind at the hub and averaged over the rotor in 200 winds, 5 Hz."""

    def one(key):
        drawn = turbulence.sample(key, turbulence.Spectrum(), jnp.array(mean), sigma)
        return hub_wind(drawn, TIMES), rotor_wind(drawn, TIMES)

    keys = jax.random.split(jax.random.key(0), 200)
    hub, rotor = jax.jit(lambda keys: jax.lax.map(one, keys))(keys)
    return np.array(hub, float), np.array(rotor, float)


def spectra() -> None:
    """Spectra of the hub's and of the rotor's wind, their coherence, and the targets."""
    layout = {"height_ratios": (3, 2), "layout": "constrained"}
    figure, axes = plt.subplots(2, 3, figsize=(10, 5.4), sharex=True, sharey="row", **layout)
    cases = ((8.0, "A"), (12.0, "B"), (18.0, "C"))
    for (upper, lower), (mean, letter) in zip(axes.T, cases, strict=True):
        one_spectrum(upper, lower, mean, letter)
        upper.set(title=f"{mean:g} m/s, class {letter}", ylim=(1e-5, 1e3))
        lower.set(xlabel="frequency (Hz)", ylim=(0, 1))
    axes[0, 0].set_ylabel("spectral density (m²/s)")
    axes[1, 0].set_ylabel("coherence of the two")
    axes[0, 0].legend(loc="lower left", fontsize=8)
    save(figure, "spectrum")


def band_density(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Middles of 40 bands of frequency, and the mean cross-spectrum of two series in each."""
    frequency, density = csd(first, second, 5.0, "hann", nperseg=2048)
    edges = np.geomspace(0.004, 2.0, 41)
    bands = np.digitize(frequency, edges)
    filled = [band for band in range(1, len(edges)) if (bands == band).any()]
    rows = frequency, density.real.mean(axis=0)
    middles, means = ([row[bands == band].mean() for band in filled] for row in rows)
    return np.array(middles), np.array(means)


def one_spectrum(upper: plt.Axes, lower: plt.Axes, mean: float, letter: str) -> None:
    """Spectra for one mean wind and one class of turbulence."""
    sigma = turbulence.deviation(REFERENCE_INTENSITY[letter], jnp.array(mean))
    hub, rotor = wind_series(mean, sigma)
    found = [np.sqrt(((series - mean) ** 2).mean()) for series in (hub, rotor)]
    print(f"{mean} m/s, class {letter}: σ of hub and rotor {found}, hub's target {sigma:.3f}")
    frequency, of_hub = band_density(hub, hub)
    (_, of_rotor), (_, of_both) = band_density(rotor, rotor), band_density(hub, rotor)
    arguments = turbulence.Spectrum(), jnp.asarray(frequency), jnp.array(mean)
    target = kaimal(*arguments, sigma)
    kept, shared = turbulence.rotor_filter(*arguments), turbulence.hub_filter(*arguments)
    upper.loglog(frequency, of_hub, color=BLUE, lw=3, label="hub")
    upper.loglog(frequency, of_rotor, color=ORANGE, lw=3, label="rotor average")
    upper.loglog(frequency, target, "--", color=TOTAL, lw=1.2, label="Kaimal (IEC 61400-1)")
    upper.loglog(frequency, target * kept, ":", color=TOTAL, lw=1.4, label="and rotor average")
    lower.semilogx(frequency, of_both / np.sqrt(of_hub * of_rotor), color=GREEN, lw=3)
    lower.semilogx(frequency, shared / jnp.sqrt(kept), "--", color=TOTAL, lw=1.2)


def offsets() -> checks.Gain:
    """Savings of all fixed offsets, and the best one."""
    gain = checks.fixed_offset_gain(jax.random.key(0))
    powers = checks.fixed_offset_gain(jax.random.key(0), task.Params(load_weight=0.0))
    print("fixed offset", gain, "without a load penalty", powers)
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.8), sharey=True, layout="constrained")
    keys = jax.random.split(jax.random.key(1), 200)
    for axis, weight in zip(axes, (0.0, task.PARAMS.load_weight), strict=True):
        costs = checks.surface(keys, task.Params(load_weight=weight))
        pitches, torques = np.array(checks.PITCHES), np.array(checks.TORQUES)
        neutral = costs[pitches == 0.0][:, torques == 0.0]
        saved = 100 * (neutral - costs)
        for number, torque in enumerate((-10.0, 0.0, 10.0, 20.0)):
            column = list(torques).index(torque)
            mean, error = saved[:, column].mean(-1), saved[:, column].std(-1, ddof=1) / 200**0.5
            colour = PALETTE[number]
            label = f"torque {torque:+.0f} %".replace("-", "−") if torque else "torque unchanged"
            axis.errorbar(pitches, mean, error, color=colour, marker="o", ms=3, lw=1.2, label=label)
        axis.plot(0, 0, "s", color=TOTAL, ms=6, zorder=5)
        axis.annotate("neutral", (0, 0), (0.12, 0.25))
        axis.axhline(0, color=DATA, lw=0.8)
        axis.set(title=f"load weight {weight:g}", xlabel="fixed pitch offset (degrees)")
    axes[0].set_ylabel("saved cost (% of rated power)")
    axes[0].legend(loc="lower left", fontsize=8)
    save(figure, "offsets")
    return gain


def one_episode(gain: checks.Gain) -> None:
    """The neutral and the best fixed action in the same wind."""
    system = task.wind_turbine()
    best = jnp.array([gain.pitch, gain.torque]) / task.PARAMS.bounds
    key = jax.random.key(4)
    signed = f"pitch {gain.pitch:+g}°, torque {gain.torque:+g} %".replace("-", "−")
    runs = {
        "neutral": (TOTAL, episode(key, system, constant(jnp.zeros(2)), 100)[0]),
        signed.replace("+0", "0"): (CHOSEN, episode(key, system, constant(best), 100)[0]),
    }
    panels = {0: "Wind at the hub (m/s)", 1: "Power (MW)", 2: "Rotor speed (rpm)"}
    panels |= {4: "Pitch (degrees)", 5: "Tower moment (MN m)", 6: "Its range in a second (MN m)"}
    figure, axes = plt.subplots(2, 3, figsize=(11, 5), sharex=True, layout="constrained")
    for axis, (place, title) in zip(axes.flat, panels.items(), strict=True):
        for label, (colour, seen) in runs.items():
            shown = (TRUTH, "both") if place == 0 else (colour, label)
            axis.plot(np.array(seen[:, place]), color=shown[0], lw=1.1, label=shown[1])
            if place == 0:
                break
        axis.set_title(title)
    axes[0, 1].legend(fontsize=8, loc="best")
    for axis in axes[1]:
        axis.set_xlabel("time (s)")
    save(figure, "episode")


def cross_check() -> None:
    """Steps of wind with the baseline controller and with ROSCO."""
    winds = np.arange(6.0, 26.0, 2.0)
    series = rosco.stairs(winds, 100.0)
    with tempfile.TemporaryDirectory() as folder:
        theirs = rosco.rosco_run(Path(folder), series)
    ours = rosco.baseline_run(series)
    figure, axes = plt.subplots(4, 1, figsize=(9, 7), sharex=True, layout="constrained")
    axes[0].plot(ours.time, series, color=TRUTH)
    axes[0].set_title("Wind (m/s)")
    panels = {"rotor_speed": "Rotor speed (rpm)", "pitch": "Pitch (degrees)", "power": "Power (kW)"}
    for axis, (name, title) in zip(axes[1:], panels.items(), strict=True):
        axis.plot(ours.time, getattr(ours, name), color=BLUE, lw=1.2, label="baseline")
        axis.plot(ours.time, getattr(theirs, name), "--", color=ORANGE, lw=1.2, label="ROSCO")
        axis.set_title(title)
    axes[1].legend(loc="lower right", ncols=2)
    axes[-1].set_xlabel("time (s)")
    save(figure, "rosco")


def main() -> None:
    with style():
        steady_states()
        spectra()
        one_episode(offsets())
        if find_spec("rosco"):
            cross_check()


if __name__ == "__main__":
    main()
