"""The model and the pool of MOPO (Yu et al. 2020): short, after the paper and its public settings.

Seven probabilistic networks predict the change of the observation and the reward. A roll-out of
five steps from logged states takes each step with one of the five best of them, and its reward is

    r − λ · max_i ‖σ_i(s, a)‖     λ = 1

SAC learns from batches of which a twentieth are logged transitions and the others roll-outs of the
last five thousand updates.
"""

from collections import deque
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

MEMBERS, ELITES, UNITS, LAYERS = 7, 5, 200, 4
WEIGHT_DECAYS = (2.5e-5, 5e-5, 7.5e-5, 7.5e-5, 1e-4)
LEARNING_RATE, BATCH, PATIENCE, LEAST_GAIN = 1e-3, 256, 5, 0.01
HELD_OUT, MOST_HELD_OUT = 0.2, 1_000
# Between two looks at held-out errors: an epoch, but small logs have short ones.
LEAST_UPDATES = 500
BOUND_WEIGHT = 0.01
PENALTY, HORIZON = 1.0, 5
ROLLOUTS, EVERY, KEPT, REAL = 50_000, 1_000, 5, 0.05
Data = dict[str, np.ndarray]


class Ensemble(nn.Module):
    """Networks side by side: for inputs ``[E, B, I]`` means and log-variances ``[E, B, O]``."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        sizes = [inputs, *[UNITS] * LAYERS, 2 * outputs]
        pairs = list(pairwise(sizes))
        self.kernels = nn.ParameterList(
            nn.init.trunc_normal_(torch.empty(MEMBERS, a, b), std=1.0 / (2.0 * a**0.5))
            for a, b in pairs
        )
        self.biases = nn.ParameterList(torch.zeros(MEMBERS, 1, b) for _, b in pairs)
        self.most = nn.Parameter(0.5 * torch.ones(outputs))
        self.least = nn.Parameter(-10.0 * torch.ones(outputs))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Means, and log-variances softly bounded."""
        for number, (kernel, bias) in enumerate(zip(self.kernels, self.biases, strict=True)):
            x = torch.baddbmm(bias, nn.functional.silu(x) if number else x, kernel)
        mean, raw = x.chunk(2, dim=-1)
        capped = self.most - nn.functional.softplus(self.most - raw)
        return mean, self.least + nn.functional.softplus(capped - self.least)

    def energy(self, x: Tensor, y: Tensor) -> Tensor:
        """Negative log-likelihood of all networks, with what keeps weights and bounds small."""
        mean, log_variance = self(x)
        fit = ((mean - y) ** 2 * torch.exp(-log_variance) + log_variance).mean(dim=(1, 2)).sum()
        decay = sum(
            0.5 * weight * (kernel**2).sum()
            for weight, kernel in zip(WEIGHT_DECAYS, self.kernels, strict=True)
        )
        return fit + decay + BOUND_WEIGHT * (self.most.sum() - self.least.sum())


def penalise(rewards: Tensor, log_variances: Tensor) -> Tensor:
    """Rewards ``[B]`` without what the least certain network ``[E, B, O]`` takes."""
    deviations = torch.exp(0.5 * log_variances)
    return rewards - PENALTY * deviations.norm(dim=-1).max(dim=0).values


class Dynamics:
    """An ensemble fitted to transitions until held-out errors stop falling."""

    def __init__(self, data: Data, seed: int):
        torch.manual_seed(seed)
        self.device = "cuda:0" if torch.cuda.is_available() else "cpu"
        change = data["next_observations"] - data["observations"]
        x = np.concatenate([data["observations"], data["actions"]], axis=1)
        y = np.concatenate([change, data["rewards"][:, None]], axis=1)
        self.mean, self.scale = y.mean(axis=0), y.std(axis=0) + 1e-8
        x, y = (self.tensor(part) for part in (x, (y - self.mean) / self.scale))
        self.ensemble = Ensemble(x.shape[1], y.shape[1]).to(self.device)
        self.elites = self.fit(x, y)

    def tensor(self, values: np.ndarray) -> Tensor:
        """In single precision, on the device."""
        return torch.as_tensor(values, dtype=torch.float32, device=self.device)

    def fit(self, x: Tensor, y: Tensor) -> Tensor:
        """Train on bootstrap samples; the numbers of the networks that are best in the end."""
        order = torch.randperm(len(x), device=self.device)
        back = min(int(HELD_OUT * len(x)), MOST_HELD_OUT)
        test, train = order[:back], order[back:]
        rows = train[torch.randint(len(train), (MEMBERS, len(train)), device=self.device)]
        optimiser = torch.optim.Adam(self.ensemble.parameters(), LEARNING_RATE)
        best = torch.full((MEMBERS,), torch.inf, device=self.device)
        since = 0
        kept = [part.detach().clone() for part in self.ensemble.parameters()]
        while since <= PATIENCE:
            for _ in range(max(len(train) // BATCH, LEAST_UPDATES)):
                part = rows[:, torch.randint(len(train), (BATCH,), device=self.device)]
                optimiser.zero_grad()
                self.ensemble.energy(x[part], y[part]).backward()
                optimiser.step()
            errors = self.errors(x[test], y[test])
            better = (best - errors) / best.abs() > LEAST_GAIN
            better |= best.isinf()
            best, since = torch.where(better, errors, best), 0 if better.any() else since + 1
            self.keep(kept, better)
        with torch.no_grad():
            for part, own in zip(self.ensemble.parameters(), kept, strict=True):
                part.copy_(own)
        return best.argsort()[:ELITES]

    def errors(self, x: Tensor, y: Tensor) -> Tensor:
        """Mean squared errors of the networks."""
        with torch.no_grad():
            mean, _ = self.ensemble(x.expand(MEMBERS, *x.shape))
            return ((mean - y) ** 2).mean(dim=(1, 2))

    def keep(self, kept: list[Tensor], better: Tensor) -> None:
        """The weights of networks that are better than before; of the bounds the newest."""
        for own, part in zip(kept, self.ensemble.parameters(), strict=True):
            now = part.detach()
            chosen = better.reshape(-1, 1, 1) if now.ndim == 3 else better.any()
            own.copy_(torch.where(chosen, now, own))

    def roll_out(
        self, data: Data, act: Callable[[np.ndarray], np.ndarray], rng: np.random.Generator
    ) -> Data:
        """Transitions of the policy on the model, from logged states."""
        seen = data["observations"][rng.integers(len(data["rewards"]), size=ROLLOUTS)]
        parts: list[dict[str, np.ndarray]] = []
        for _ in range(HORIZON):
            actions = act(seen)
            following, rewards = self.step(seen, actions)
            names = "observations", "actions", "rewards", "next_observations"
            parts.append(dict(zip(names, (seen, actions, rewards, following), strict=True)))
            seen = following
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def step(self, seen: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Next observations and penalised rewards, each drawn from one of the best networks."""
        x = self.tensor(np.concatenate([seen, actions], axis=1))
        with torch.no_grad():
            means, log_variances = self.ensemble(x.expand(MEMBERS, *x.shape))
            log_variances = log_variances + 2.0 * self.tensor(np.log(self.scale))
            means = means * self.tensor(self.scale) + self.tensor(self.mean)
            chosen = self.elites[torch.randint(ELITES, (len(x),), device=self.device)]
            of_row = chosen, torch.arange(len(x), device=self.device)
            noise = torch.exp(0.5 * log_variances[of_row]) * torch.randn_like(means[0])
            drawn = means[of_row] + noise
            rewards = penalise(drawn[:, -1], log_variances)
        return seen + drawn[:, :-1].cpu().numpy(), rewards.cpu().numpy()


class Pool:
    """The newest roll-outs."""

    def __init__(self):
        self.parts: deque[Data] = deque(maxlen=KEPT)

    def is_due(self, step: int) -> bool:
        """Whether roll-outs are made before this step (the first is 1)."""
        return (step - 1) % EVERY == 0

    def add(self, found: Data) -> None:
        """New roll-outs; the oldest are forgotten."""
        self.parts.append(found)

    def mix(self, data: Data, rng: np.random.Generator, size: int) -> tuple[Data, Any]:
        """A batch of logged and predicted transitions, and its rows."""
        logged = round(REAL * size)
        chosen = [(data, logged)]
        places = rng.integers(len(self.parts), size=size - logged)
        counts = np.bincount(places, minlength=len(self.parts))
        chosen += zip(self.parts, counts.tolist(), strict=True)
        picks = [(one, rng.integers(len(one["rewards"]), size=count)) for one, count in chosen]
        names = "observations", "actions", "rewards", "next_observations"
        joined = {name: np.concatenate([one[name][rows] for one, rows in picks]) for name in names}
        return joined, np.arange(size)
