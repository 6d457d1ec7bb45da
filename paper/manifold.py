"""A known function of sixty inputs, of which only a thin, curved, three-dimensional sheet is seen.

A plant's log looks like this: many sensors, few things that really vary, and a policy that will
leave the sheet. Inputs on the sheet are ``x = (A u + sin(B u)) / 2`` and a little noise, ``u``
uniform in ``[-1.7, 1.7]³``; the output is a linear function of all inputs plus six waves, and
noise. Away from the sheet (``off``: every input moved by so many deviations) and beyond its edge
(``beyond``: u on a box so many times as large) the function goes on, but nothing in the data says
how.
"""

from dataclasses import dataclass

import numpy as np

INPUTS = 60
SHEET = 3
WAVES = 6
REACH = 1.7
THICKNESS = 0.05
NOISE = 0.2


@dataclass(frozen=True)
class Manifold:
    """One such problem; ``seed`` draws the sheet, the function and the data."""

    seed: int

    def _draw(self, what: int, shape: tuple[int, ...]) -> np.ndarray:
        return np.random.default_rng([self.seed, what]).normal(size=shape)

    def place(self, u: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Inputs ``[N, 60]`` at places ``u [N, 3]`` of the sheet."""
        straight, curved = self._draw(0, (INPUTS, SHEET)), self._draw(1, (INPUTS, SHEET))
        noise = THICKNESS * rng.normal(size=(len(u), INPUTS))
        return 0.5 * (u @ straight.T + np.sin(u @ curved.T)) + noise

    def function(self, x: np.ndarray) -> np.ndarray:
        """The true mean of y at any inputs ``[N, 60]``."""
        slope, directions = self._draw(2, (INPUTS,)), self._draw(3, (WAVES, INPUTS))
        phases, heights = np.pi * self._draw(4, (WAVES,)), self._draw(5, (WAVES,))
        scaled = x / np.sqrt(INPUTS)
        waves = np.sin(1.5 * scaled @ directions.T + phases) @ heights
        return 1.5 * scaled @ slope + 0.7 * waves

    def training_data(self, size: int = 2000) -> tuple[np.ndarray, np.ndarray]:
        """Inputs on the sheet, ``[size, 60]``, and noisy outputs, ``[size]``."""
        rng = np.random.default_rng([self.seed, 6])
        x = self.place(rng.uniform(-REACH, REACH, (size, SHEET)), rng)
        return x, self.function(x) + NOISE * rng.normal(size=size)

    def off(self, distance: float, size: int = 500) -> np.ndarray:
        """Inputs on the sheet, each then moved by ``distance`` deviations."""
        rng = np.random.default_rng([self.seed, 7])
        x = self.place(rng.uniform(-REACH, REACH, (size, SHEET)), rng)
        return x + distance * rng.normal(size=x.shape)

    def beyond(self, factor: float, size: int = 500) -> np.ndarray:
        """Inputs on the sheet's continuation, u on the surface of a ``factor`` times larger box."""
        rng = np.random.default_rng([self.seed, 8])
        u = rng.uniform(-1.0, 1.0, (size, SHEET))
        surface = u / np.abs(u).max(axis=1, keepdims=True)
        return self.place(factor * REACH * surface, rng)
