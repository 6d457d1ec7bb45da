"""The model and the pool of MOPO (Yu et al. 2020): short, after the paper and its public settings.

Seven probabilistic networks predict the change of the observation and the reward. A roll-out of
five steps from logged states takes each step with one of the five best of them, and its reward is

    r − λ · max_i ‖σ_i(s, a)‖     λ = 1

SAC learns from batches of which a twentieth are logged transitions and the others roll-outs of the
last five thousand updates.
"""

from collections.abc import Callable, Sequence
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
# Updates between two looks at held-out errors; an epoch of these logs has fewer.
LOOK, MOST_LOOKS = 250, 100
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
    """An ensemble that is fitted to transitions until held-out errors stop falling."""

    def __init__(self, data: Data):
        change = data["next_observations"] - data["observations"]
        self.x = torch.cat([data["observations"], data["actions"]], dim=1)
        y = torch.cat([change, data["rewards"][:, None]], dim=1)
        self.mean, self.scale = y.mean(dim=0), y.std(dim=0) + 1e-8
        self.y = (y - self.mean) / self.scale
        self.ensemble = Ensemble(self.x.shape[1], y.shape[1]).to(y.device)
        order = torch.randperm(len(y), device=y.device)
        back = min(int(HELD_OUT * len(y)), MOST_HELD_OUT)
        self.test, train = order[:back], order[back:]
        # a bootstrap sample for each network
        self.rows = train[torch.randint(len(train), (MEMBERS, len(train)), device=y.device)]
        self.optimiser = torch.optim.Adam(self.ensemble.parameters(), LEARNING_RATE)
        prepare([self.optimiser])
        self.best, self.since = torch.full((MEMBERS,), torch.inf, device=y.device), 0
        self.kept = [part.detach().clone() for part in self.ensemble.parameters()]

    def update(self, _: int) -> None:
        """One update of all networks."""
        columns = torch.randint(self.rows.shape[1], (BATCH,), device=self.rows.device)
        part = self.rows[:, columns]
        self.optimiser.zero_grad()
        self.ensemble.energy(self.x[part], self.y[part]).backward()
        self.optimiser.step()

    def look(self) -> bool:
        """Keep networks that are better than before; whether none has been for a while."""
        if self.since <= PATIENCE:
            errors = self.errors(self.x[self.test], self.y[self.test])
            better = self.best.isinf() | ((self.best - errors) / self.best > LEAST_GAIN)
            self.best = torch.where(better, errors, self.best)
            self.since = 0 if better.any() else self.since + 1
            self.keep(better)
        return self.since > PATIENCE

    def finish(self) -> None:
        """Take the networks that were kept; roll-outs use the best of them."""
        with torch.no_grad():
            for part, own in zip(self.ensemble.parameters(), self.kept, strict=True):
                part.copy_(own)
        self.elites = self.best.argsort()[:ELITES]

    def errors(self, x: Tensor, y: Tensor) -> Tensor:
        """Mean squared errors of the networks."""
        with torch.no_grad():
            mean, _ = self.ensemble(x.expand(MEMBERS, *x.shape))
            return ((mean - y) ** 2).mean(dim=(1, 2))

    def keep(self, better: Tensor) -> None:
        """The weights of networks that are better than before; of the bounds the newest."""
        for own, part in zip(self.kept, self.ensemble.parameters(), strict=True):
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

    @classmethod
    def prepare(cls, learners: Sequence["Mopo"]) -> None:
        """Fit all models side by side, and make the first roll-outs."""
        models = [one.dynamics for one in learners]
        advance = unroll([model.update for model in models])
        for _ in range(MOST_LOOKS):
            for _ in range(LOOK // UNROLLED):
                advance()
            if all([model.look() for model in models]):
                break
        for one in learners:
            one.dynamics.finish()
            one.refresh(0)

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
