"""The same BNN+LV training update written plainly in PyTorch, eager and compiled, on the CPU.

A module whose forward pass draws the noise and returns the energy, ``backward`` and
``torch.optim.Adam``; compiled, it is the module under ``torch.compile``. The tuned version is
``torch_tuned_peer.py``; data, minibatches and the rule of Adam for visited rows come from there.
"""

import math
import time
from itertools import pairwise
from statistics import fmean, median

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid
from torch_tuned import RATE, WARM_UP, adam, command_line, heteroscedastic, minibatches


class Network(nn.Module):
    """A Gaussian over the weights of a ReLU network, and the log variance of the output noise."""

    def __init__(self, n: int, draws: int, hidden: tuple[int, ...]) -> None:
        """Make the start values for n data: D = 1, one output, lambda = gamma_z = 1."""
        super().__init__()
        self.n, self.draws, self.alpha = n, draws, 1.0
        self.shapes = list(zip((2, *hidden), (*hidden, 1), strict=True))
        size = sum((i + 1) * o for i, o in self.shapes)
        self.means = nn.Parameter(0.1 * torch.randn(size))
        self.rhos = nn.Parameter(torch.full((size,), -10.0))
        self.log_noise = nn.Parameter(torch.full((1,), -5.0))

    def predict(self, w: Tensor, x: Tensor, z: Tensor) -> Tensor:
        """Outputs (K, B) of the networks w (K, P) at x (B, 1) and z (K, B)."""
        h = torch.cat([x.expand(len(w), -1, -1), z[..., None]], dim=-1)
        start = 0
        for layer, (i, o) in enumerate(self.shapes):
            matrix = w[:, start : start + i * o].view(-1, i, o)
            bias = w[:, None, start + i * o : start + (i + 1) * o]
            h = torch.baddbmm(bias, torch.relu(h) if layer else h, matrix)
            start += (i + 1) * o
        return h.squeeze(-1)

    def forward(self, x: Tensor, y: Tensor, latents: Tensor) -> Tensor:
        """The alpha-energy of a minibatch scaled to n data; latents (B, 2) holds m_z and rho_z."""
        eps_w = torch.randn(self.draws, len(self.means))
        eps_z = torch.randn(self.draws, len(x))
        log_v_w, v_z = logsigmoid(self.rhos), 1e-6 + (1 - 2e-6) * torch.sigmoid(latents[:, 1])
        w = self.means + torch.exp(0.5 * log_v_w) * eps_w
        z = latents[:, 0] + torch.sqrt(v_z) * eps_z
        error = y[:, 0] - self.predict(w, x, z)
        log_lik = -0.5 * (
            error**2 * torch.exp(-self.log_noise) + self.log_noise + math.log(2 * math.pi)
        )
        ratio_w = 0.5 * (eps_w**2 + log_v_w - w**2).sum(dim=1, keepdim=True)
        ratio_z = 0.5 * (eps_z**2 + torch.log(v_z) - z**2)
        log_sum = torch.logsumexp(self.alpha * (log_lik + ratio_w / self.n + ratio_z), dim=0)
        return (math.log(self.draws) - log_sum).sum() * self.n / (len(x) * self.alpha)


class Latents:
    """Means and rhos of every datum's z (n, 2), each row with its own state of Adam."""

    def __init__(self, n: int, rate: float) -> None:
        """Start every row at mean 0 and rho 5."""
        self.rate, self.values = rate, torch.tensor([[0.0, 5.0]]).repeat(n, 1)
        self.state = [torch.zeros(n, 2), torch.zeros(n, 2), torch.zeros(n, 1)]

    def step(self, rows: Tensor, grad: Tensor) -> None:
        """Adam on the visited rows only."""
        new = adam(self.values[rows], grad, [table[rows] for table in self.state], self.rate)
        for table, value in zip([self.values, *self.state], new, strict=True):
            table[rows] = value


def time_updates(
    n: int = 750,
    batch: int = 250,
    draws: int = 50,
    hidden: tuple[int, ...] = (20, 20),
    updates: int = 1000,
    compiled: bool = False,
    threads: int = 2,
    seed: int = 0,
) -> dict[str, float]:
    """Seconds of the first update (cold compilation), then milliseconds of a later one."""
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    torch.compiler.config.force_disable_caches = True
    x, y = heteroscedastic(n)
    network, latents = Network(n, draws, hidden), Latents(n, RATE * n / batch)
    optimiser = torch.optim.Adam(network.parameters(), lr=RATE)
    energy_of, batches = torch.compile(network) if compiled else network, minibatches(n, batch)
    stamps = [time.perf_counter()]
    for _ in range(WARM_UP + updates):
        rows = next(batches)
        visited = latents.values[rows].requires_grad_()
        optimiser.zero_grad()
        energy_of(x[rows], y[rows], visited).backward()
        optimiser.step()
        latents.step(rows, visited.grad)
        stamps.append(time.perf_counter())
    first, ms = stamps[1] - stamps[0], [1e3 * (b - a) for a, b in pairwise(stamps[WARM_UP:])]
    return {"seconds_compile": first, "ms_per_update": fmean(ms), "ms_median": median(ms)}


if __name__ == "__main__":
    command_line(time_updates, __doc__)
