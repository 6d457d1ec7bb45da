"""The model and the pool of MOPO (Yu et al. 2020): short, after the paper and its public settings.

Seven probabilistic networks predict the change of the observation and the reward. A roll-out of
five steps from logged states takes each step with one of the five best of them, and its reward is

    r − λ · max_i ‖σ_i(s, a)‖     λ = 1

SAC learns from batches of which a twentieth are logged transitions and the others roll-outs of the
last five thousand updates.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import torch
from d3rlpy.algos import SACConfig
from graphs import UNROLLED, device, prepare, unroll
from offline import Learner
from torch import Tensor, nn

MEMBERS, ELITES, UNITS, LAYERS = 7, 5, 200, 4
WEIGHT_DECAYS = (2.5e-5, 5e-5, 7.5e-5, 7.5e-5, 1e-4)
LEARNING_RATE, BATCH, PATIENCE, LEAST_GAIN = 1e-3, 256, 5, 0.01
HELD_OUT, MOST_HELD_OUT = 0.2, 1_000
# Between two looks at held-out errors: an epoch, but small logs have short ones.
LEAST_UPDATES = 250
BOUND_WEIGHT = 0.01
PENALTY, HORIZON = 1.0, 5
ROLLOUTS, EVERY, KEPT, REAL = 50_000, 1_000, 5, 0.05
Data = dict[str, Tensor]
NAMES = "observations", "actions", "rewards", "next_observations"


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

    def __init__(self, data: Data):
        change = data["next_observations"] - data["observations"]
        x = torch.cat([data["observations"], data["actions"]], dim=1)
        y = torch.cat([change, data["rewards"][:, None]], dim=1)
        self.mean, self.scale = y.mean(dim=0), y.std(dim=0) + 1e-8
        self.ensemble = Ensemble(x.shape[1], y.shape[1]).to(x.device)
        self.elites = self.fit(x, (y - self.mean) / self.scale)

    def fit(self, x: Tensor, y: Tensor) -> Tensor:
        """Train on bootstrap samples; the numbers of the networks that are best in the end."""
        order = torch.randperm(len(x), device=x.device)
        back = min(int(HELD_OUT * len(x)), MOST_HELD_OUT)
        test, train = order[:back], order[back:]
        rows = train[torch.randint(len(train), (MEMBERS, len(train)), device=x.device)]
        optimiser = torch.optim.Adam(self.ensemble.parameters(), LEARNING_RATE)
        prepare([optimiser])

        def update(_: int) -> None:
            part = rows[:, torch.randint(len(train), (BATCH,), device=x.device)]
            optimiser.zero_grad()
            self.ensemble.energy(x[part], y[part]).backward()
            optimiser.step()

        advance = unroll([update])
        best, since = torch.full((MEMBERS,), torch.inf, device=x.device), 0
        kept = [part.detach().clone() for part in self.ensemble.parameters()]
        while since <= PATIENCE:
            for _ in range(max(len(train) // BATCH, LEAST_UPDATES) // UNROLLED):
                advance()
            errors = self.errors(x[test], y[test])
            better = best.isinf() | ((best - errors) / best > LEAST_GAIN)
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

    def roll_out(self, seen: Tensor, act: Callable[[Tensor], Tensor]) -> Data:
        """Transitions of a policy on the model, from logged states."""
        parts: list[tuple[Tensor, ...]] = []
        for _ in range(HORIZON):
            actions = act(seen)
            following, rewards = self.step(seen, actions)
            parts.append((seen, actions, rewards, following))
            seen = following
        joined = (torch.cat(part) for part in zip(*parts, strict=True))
        return dict(zip(NAMES, joined, strict=True))

    def step(self, seen: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Next observations and penalised rewards, each drawn from one of the best networks."""
        x = torch.cat([seen, actions], dim=1)
        with torch.no_grad():
            means, log_variances = self.ensemble(x.expand(MEMBERS, *x.shape))
            log_variances = log_variances + 2.0 * self.scale.log()
            means = means * self.scale + self.mean
            chosen = self.elites[torch.randint(ELITES, (len(x),), device=x.device)]
            of_row = chosen, torch.arange(len(x), device=x.device)
            noise = torch.exp(0.5 * log_variances[of_row]) * torch.randn_like(means[0])
            drawn = means[of_row] + noise
            return seen + drawn[:, :-1], penalise(drawn[:, -1], log_variances)


class Mopo(Learner):
    """SAC on logged transitions and the newest roll-outs."""

    def __init__(self, data: dict[str, np.ndarray], seed: int):
        super().__init__(SACConfig(), data, seed)
        self.dynamics = Dynamics(self.data)
        room = KEPT * ROLLOUTS * HORIZON
        self.pool = {
            name: torch.empty((room, *part.shape[1:]), device=device())
            for name, part in self.data.items()
        }
        self.filled, self.rounds = torch.zeros((), device=device()), 0

    @torch.no_grad()
    def refresh(self, made: int) -> None:
        """New roll-outs instead of the oldest, once in so many updates."""
        if made < self.rounds * EVERY:
            return
        seen = self.pick(self.data, ROLLOUTS, len(self.data["rewards"]))["observations"]
        found = self.dynamics.roll_out(seen, self.algorithm.impl.sample_action)
        first = self.rounds % KEPT * ROLLOUTS * HORIZON
        for name, part in found.items():
            self.pool[name][first : first + len(part)] = part
        self.rounds += 1
        self.filled.fill_(min(self.rounds, KEPT) * ROLLOUTS * HORIZON)

    def draw(self) -> Data:
        """A batch of logged and predicted transitions."""
        logged = round(REAL * self.size)
        true = self.pick(self.data, logged, len(self.data["rewards"]))
        predicted = self.pick(self.pool, self.size - logged, self.filled)
        return {name: torch.cat([true[name], predicted[name]]) for name in NAMES}
