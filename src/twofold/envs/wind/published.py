"""Published steady states of the NREL 5-MW turbine in constant, uniform wind.

FAST with AeroDyn, the flexible machine under its baseline control: Jonkman et al. 2009
(NREL/TP-500-38060), Figure 9-1. The numbers behind that figure were published by J. Jonkman on
NREL's wind forum (topic 363). NREL's repository ``turbine-models`` tabulates powers and thrusts
(``NREL_5MW_126_RWT.csv``); rotor speeds and pitch angles are the usual initial conditions of this
model in NREL's tools.
"""

import numpy as np

WIND = np.arange(3.0, 26.0)  # m/s

ROTOR_SPEED = np.array(
    [6.972, 7.183, 7.506, 7.942, 8.469, 9.156, 10.296, 11.431, 11.890] + 14 * [12.1]
)
"""Rotor speed in rpm."""

PITCH = np.array(
    9 * [0.0]
    + [3.823, 6.602, 8.668, 10.450, 12.055, 13.536, 14.920]
    + [16.226, 17.473, 18.699, 19.941, 21.177, 22.347, 23.469]
)
"""Blade pitch in degrees."""

POWER = np.array(
    [40.5, 177.7, 403.9, 737.6, 1187.2, 1771.1, 2518.6, 3448.4, 4562.5] + 14 * [5000.0]
)
"""Electric power in kW."""

RATED_WIND = 11.4  # m/s, Table 1-1

ROTOR_FORCE = np.concatenate(
    [
        [171.7, 215.9, 268.9, 330.3, 398.6, 478.0, 579.2, 691.5, 790.6, 690.0, 608.4, 557.9],
        [520.5, 491.2, 467.7, 448.4, 432.3, 418.8, 406.7, 395.3, 385.1, 376.7, 369.3],
    ]
)
"""Axial force on the shaft in kN: the thrust and, for the shaft is tilted, part of the weight."""

WEIGHT = 110_000 * 9.80665 * np.sin(np.radians(5.0)) / 1e3
"""That part: 110,000 kg of rotor on a shaft tilted by 5°, in kN."""
