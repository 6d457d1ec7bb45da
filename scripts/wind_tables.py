"""Compute the rotor coefficients of the NREL 5-MW turbine and write them to its folder.

    pip install wisdem rosco          # the extra "wind"
    python scripts/wind_tables.py     # a minute or two

Blade-element momentum by CCBlade (Ning 2014; package ``wisdem``) on the blade of Jonkman et al.
2009 (NREL/TP-500-38060), Table 3-1, with 5° shaft tilt, 2.5° precone and uniform inflow. The
airfoil polars are Jonkman's, as shipped with the package ``rosco``
(``Examples/Test_Cases/NREL-5MW``).
"""

from pathlib import Path

import numpy as np
import rosco
from wisdem.ccblade.ccblade import CCAirfoil, CCBlade

RADIUS, HUB_RADIUS, HUB_HEIGHT = 63.0, 1.5, 90.0  # m
TILT, PRECONE = 5.0, 2.5  # degrees
WIND = 11.4  # m/s; the polars do not depend on the Reynolds number, so any wind gives the same

TIP_SPEED_RATIOS = np.arange(1.0, 20.0 + 1e-9, 0.25)
PITCHES = np.arange(-5.0, 35.0 + 1e-9, 0.5)  # degrees

# Jonkman et al. 2009, Table 3-1: node radius [m], twist [degrees], chord [m], airfoil.
BLADE = (
    (2.8667, 13.308, 3.542, "Cylinder1"),
    (5.6000, 13.308, 3.854, "Cylinder1"),
    (8.3333, 13.308, 4.167, "Cylinder2"),
    (11.7500, 13.308, 4.557, "DU40_A17"),
    (15.8500, 11.480, 4.652, "DU35_A17"),
    (19.9500, 10.162, 4.458, "DU35_A17"),
    (24.0500, 9.011, 4.249, "DU30_A17"),
    (28.1500, 7.795, 4.007, "DU25_A17"),
    (32.2500, 6.544, 3.748, "DU25_A17"),
    (36.3500, 5.361, 3.502, "DU21_A17"),
    (40.4500, 4.188, 3.256, "DU21_A17"),
    (44.5500, 3.125, 3.010, "NACA64_A17"),
    (48.6500, 2.319, 2.764, "NACA64_A17"),
    (52.7500, 1.526, 2.518, "NACA64_A17"),
    (56.1667, 0.863, 2.313, "NACA64_A17"),
    (58.9000, 0.370, 2.086, "NACA64_A17"),
    (61.6333, 0.106, 1.419, "NACA64_A17"),
)

POLARS = Path(rosco.__file__).parent.parent / "Examples/Test_Cases/NREL-5MW/AeroData"
TARGET = Path(__file__).parent.parent / "src/twofold/envs/wind/nrel5mw.npz"


def numbers(line: str) -> list[float] | None:
    """The numbers of a line, or None if it contains anything else."""
    try:
        return [float(word) for word in line.split()]
    except ValueError:
        return None


def airfoil(name: str) -> CCAirfoil:
    """A polar, interpolated to half degrees so that CCBlade's smoothing spline keeps its shape."""
    lines = (POLARS / f"{name}.dat").read_text().splitlines()
    rows = [row[:3] for line in lines if (row := numbers(line)) and len(row) >= 3]
    alpha, lift, drag = np.unique(np.array(rows), axis=0).T
    grid = np.arange(-180.0, 180.1, 0.5)
    return CCAirfoil(grid, [1e6], np.interp(grid, alpha, lift), np.interp(grid, alpha, drag))


def rotor() -> CCBlade:
    """The rotor in uniform inflow."""
    radii, twists, chords, names = (np.array(column) for column in zip(*BLADE, strict=True))
    airfoils = {name: airfoil(name) for name in set(names)}
    return CCBlade(
        *(radii, chords, twists, [airfoils[name] for name in names]),
        *(HUB_RADIUS, RADIUS),
        precone=PRECONE,
        tilt=TILT,
        shearExp=0.0,
        hubHt=HUB_HEIGHT,
        nSector=8,
    )


def coefficients(blades: CCBlade, ratio: float) -> tuple[np.ndarray, np.ndarray]:
    """Torque and thrust coefficients of all pitches at one tip-speed ratio."""
    rpm = ratio * WIND / RADIUS * 30.0 / np.pi
    shape = np.ones_like(PITCHES)
    found, _ = blades.evaluate(WIND * shape, rpm * shape, PITCHES, coefficients=False)
    pressure = 0.5 * 1.225 * WIND**2 * np.pi * RADIUS**2
    return found["Q"] / (pressure * RADIUS), found["T"] / pressure


def main() -> None:
    blades = rotor()
    columns = [coefficients(blades, ratio) for ratio in TIP_SPEED_RATIOS]
    torque, thrust = (np.stack(parts).astype(np.float32) for parts in zip(*columns, strict=True))
    np.savez_compressed(
        TARGET,
        tip_speed_ratio=TIP_SPEED_RATIOS.astype(np.float32),
        pitch=PITCHES.astype(np.float32),
        torque=torque,
        thrust=thrust,
    )
    power = torque * TIP_SPEED_RATIOS[:, None]
    row, column = np.unravel_index(power.argmax(), power.shape)
    print(f"{TARGET.name}: {TARGET.stat().st_size / 1e3:.0f} kB, largest power coefficient")
    print(f"{power.max():.4f} at {TIP_SPEED_RATIOS[row]:.2f} and {PITCHES[column]:.1f} degrees")


if __name__ == "__main__":
    main()
