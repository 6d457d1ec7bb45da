"""What was measured of the systems, from ``results/systems.json``."""

from pathlib import Path

from paper.markdown import markdown, mean_and_error, metrics

POLICIES = ("zero", "random", "behaviour")
DEVICES = {"cpu": "two CPU cores", "gpu": "one GPU"}


def systems_costs(results: Path) -> str:
    """Costs of known policies, and the difference from the published trajectories."""
    values = metrics("systems", results)
    rows = [
        [
            name,
            mean_and_error(values, f"industrial/original/{name}/cost", 1),
            mean_and_error(values, f"industrial/{name}/cost", 1),
        ]
        for name in POLICIES
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
            "work on the drive train that is unaccounted for",
            f"{values['wind/energy_gap']:.0e}",
        ],
        *_fixed_offset(values, "wind/fixed_offset", ""),
        *_fixed_offset(values, "wind/fixed_offset_no_load", ", without a load penalty"),
    ]
    return markdown(["", "found"], rows)


def _fixed_offset(values: dict[str, float], name: str, case: str) -> list[list[str]]:
    """Where the best fixed offset lies and what it saves."""
    pitch, torque = values[f"{name}/pitch"], values[f"{name}/torque"]
    neutral, gain = values[f"{name}/neutral_cost"], values[f"{name}_gain"]
    return [
        [f"best fixed offset{case}", f"pitch {signed(pitch)}°, torque {signed(torque)} %"],
        [f"cost of the neutral action, of rated power{case}", signed(neutral, ".3f")],
        [
            f"saved by the best fixed offset, of rated power{case}",
            f"{gain:.4f} ± {values[f'{name}_gain_se']:.4f}",
        ],
        [
            f"saved by the best fixed offset, of the neutral cost{case}",
            f"{gain / abs(neutral):.1%}",
        ],
    ]


def signed(value: float, form: str = "g") -> str:
    """A number with a proper minus sign."""
    return f"{value:{form}}".replace("-", "−")


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
