"""The benchmark's original, with its draws on record."""

import numpy as np

from twofold.envs.industrial.dynamics import Drift, Noise


class Original:
    """The original simulator, its draws on record; needs ``monkeypatch`` for what NumPy 2 broke."""

    NAMES = ("exponential", "rand", "binomial", "normal", "randn", "randint")

    def __init__(self, monkeypatch, point, drifting, seed):
        from industrial_benchmark_python.IDS import IDS

        self.draws = []
        monkeypatch.setattr(np, "float", float, raising=False)
        for name in self.NAMES:
            monkeypatch.setattr(np.random, name, self._recording(name, getattr(np.random, name)))
        self.plant = IDS(point, stationary_p=not drifting, inital_seed=seed)
        self.steps = [self.draws]
        self.first = self._drift(self.draws[:3])
        self.steps[0] = self.draws[3:]

    def _recording(self, name, function):
        def record(*arguments):
            value = function(*arguments)
            self.draws.append((name, value))
            return value

        return record

    def step(self, action):
        """One step; returns the 29 published columns."""
        self.draws = []
        self.plant.step(action)
        self.steps.append(self.draws)
        state = self.plant.state
        names = (
            "coc hg hv he gs_domain gs_sys_response gs_phi_idx ge ve MC c p v g h f fb oc reward"
        )
        return np.concatenate([state["o"], [float(state[name]) for name in names.split()]])

    def noise(self):
        """All steps' noise, the reset's first."""
        parsed = [self._parse(draws) for draws in self.steps]
        *columns, drifts = zip(*parsed, strict=True)
        drift = Drift(*(np.array(leaf) for leaf in zip(*drifts, strict=True)))
        return Noise(*(np.array(column, float) for column in columns), drift)

    def _parse(self, draws):
        start = [name for name, _ in draws].index("exponential")
        before, (values) = draws[:start], [value for _, value in draws[start:]]
        names = [name for name, _ in draws[start:]]
        amplified = (values[6] - 2.4) / 0.4 if names[6] == "normal" else 0.0
        coins = 1.0 - np.array(values[4:6], float)
        return values[:2], values[2:4], coins, amplified, values[-1], self._drift(before)

    def _drift(self, draws):
        fresh = (
            draws[:3] if draws and draws[0][0] == "randint" else [(None, 1), (None, 0.5), (None, 1)]
        )
        turn = draws[-1][1] if len(draws) in (1, 4) else 0.0
        length, slope, still = (value for _, value in fresh)
        return Drift(np.int32(length), 2 * slope - 1.0, float(still), float(turn))
