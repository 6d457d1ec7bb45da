"""What was measured of the systems, from ``results/systems.json``."""

from pathlib import Path

from twofold.experiments.markdown import markdown, mean_and_error, metrics

# The original's mean cost per step under the same protocol.
ORIGINAL = {"zero": 240.2, "random": 254.1, "behaviour": 219.5}
DEVICES = {"cpu": "two CPU cores", "gpu": "one GPU"}


def systems_costs(results: Path) -> str:
    """Costs of known policies, and the difference from the published trajectories."""
    values = metrics("systems", results)
    rows = [
        [name, f"{cost:.1f}", mean_and_error(values, f"industrial/{name}/cost", 1)]
        for name, cost in ORIGINAL.items()
    ]
    error = values["industrial/parity/max_abs_error"]
    rows.append(["largest difference from the published states", "", f"{error:.0e}"])
    return markdown(["policy", "original", "here"], rows)


def systems_wind(results: Path) -> str:
    """The turbine against its published steady states, and what there is to gain."""
    values = metrics("systems", results)
    rows = [
        [
            "largest error of the power, 5–25 m/s",
            f"{values['wind/steady_state/max_power_error']:.1%}",
        ],
        [
            "largest error of the rotor speed, 5–25 m/s",
            f"{values['wind/steady_state/max_speed_error']:.1%}",
        ],
        [
            "largest error of the pitch, 5–25 m/s",
            f"{values['wind/steady_state/max_pitch_error_deg']:.2f}°",
        ],
        [
            "saved by the best fixed offset, of rated power",
            f"{values['wind/fixed_offset_gain']:.4f} ± {values['wind/fixed_offset_gain_se']:.4f}",
        ],
    ]
    return markdown(["", "found"], rows)


def systems_speed(results: Path) -> str:
    """Million steps of the industrial benchmark in a second."""
    values = metrics("systems", results)
    found = {
        label: values.get(f"industrial/steps_per_second/{name}") for name, label in DEVICES.items()
    }
    rows = [
        [label, "–" if speed is None else f"{speed / 1e6:.1f}"] for label, speed in found.items()
    ]
    return markdown(["20,000 plants side by side", "million steps per second"], rows)
