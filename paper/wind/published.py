"""Published steady states of the NREL 5-MW turbine in constant, uniform wind.

FAST with AeroDyn, the flexible machine under its baseline control: Jonkman et al. 2009
(NREL/TP-500-38060), Figure 9-1. The numbers behind that figure were published by J. Jonkman on
NREL's wind forum (topic 363). NREL's repository ``turbine-models`` tabulates powers and thrusts
(``NREL_5MW_126_RWT.csv``); rotor speeds and pitch angles are the usual initial conditions of this
model in NREL's tools.
"""

import numpy as np

from twofold.envs.wind.controller import STEADY_PITCH as PITCH  # degrees
from twofold.envs.wind.controller import STEADY_ROTOR_SPEED as ROTOR_SPEED  # rpm
from twofold.envs.wind.controller import STEADY_WIND as WIND  # m/s

__all__ = ["PITCH", "POWER", "ROTOR_FORCE", "ROTOR_SPEED", "WEIGHT", "WIND"]

POWER = np.array(
    [40.5, 177.7, 403.9, 737.6, 1187.2, 1771.1, 2518.6, 3448.4, 4562.5] + 14 * [5000.0]
)
"""Electric power in kW."""

ROTOR_FORCE = np.concatenate(
    [
        [171.7, 215.9, 268.9, 330.3, 398.6, 478.0, 579.2, 691.5, 790.6, 690.0, 608.4, 557.9],
        [520.5, 491.2, 467.7, 448.4, 432.3, 418.8, 406.7, 395.3, 385.1, 376.7, 369.3],
    ]
)
"""Axial force on the shaft in kN: the thrust and, because the shaft is tilted, part of the
weight."""

WEIGHT = 110_000 * 9.80665 * np.sin(np.radians(5.0)) / 1e3
"""Weight component: 110,000 kg of rotor on a shaft tilted by 5°, in kN."""
