"""The same BNN+LV training update in PyTorch tuned by hand, eager and compiled, timed on the CPU.

Beside the plain version (``torch_plain_peer.py``): the first layer takes x and z apart instead of
copying them together, ReLU works in place, Adam is PyTorch's fused one, and malloc keeps freed
memory (``mallopt``). The compiled variant is one graph of gradient and hand-written Adam steps, and
the noise is drawn outside it, because PyTorch's own generator is faster than the compiled one.
"""

import argparse
import ctypes
import json
import math
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from statistics import fmean, median

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

Pair = tuple[Tensor, Tensor]
RATE, WARM_UP = 1e-3, 20


def heteroscedastic(n: int) -> Pair:
    """The standardised toy y = 7 sin x + 3 |cos(x/2)| eps, x and y of shape (n, 1)."""
    which = torch.randint(3, (n, 1))
    x = torch.normal(torch.tensor([-4.0, 0.0, 4.0])[which], torch.tensor([0.4, 0.9, 0.4])[which])
    y = 7 * torch.sin(x) + 3 * torch.cos(x / 2).abs() * torch.randn(n, 1)
    return (x - x.mean()) / x.std(), (y - y.mean()) / y.std()


def minibatches(n: int, batch: int) -> Iterator[Tensor]:
    """Rows of one minibatch after another, reshuffled every epoch, the incomplete one dropped."""
    while True:
        yield from torch.randperm(n)[: n - n % batch].split(batch)


def mlp(w: Tensor, x: Tensor, z: Tensor, shapes: list[tuple[int, int]]) -> Tensor:
    """Outputs (K, B) of the ReLU networks w (K, P) at x (B, 1) and z (K, B)."""
    parts = w.split([size for i, o in shapes for size in (i * o, o)], dim=1)
    matrices = [part.view(-1, *shape) for part, shape in zip(parts[::2], shapes, strict=True)]
    biases = [part[:, None] for part in parts[1::2]]
    h = torch.addcmul(biases[0], x, matrices[0][:, :1])
    h = torch.addcmul(h, z[..., None], matrices[0][:, 1:])
    for matrix, bias in zip(matrices[1:], biases[1:], strict=True):
        h = torch.baddbmm(bias, h.relu_(), matrix)
    return h.squeeze(-1)


def adam(value: Tensor, grad: Tensor, state: list[Tensor], rate: float) -> list[Tensor]:
    """One step of Adam: the new value, first moment, second moment and step count."""
    first = torch.lerp(state[0], grad, 0.1)
    second = torch.lerp(state[1], grad * grad, 0.001)
    steps = state[2] + 1
    root = (second / (1 - 0.999**steps)).sqrt() + 1e-8
    return [value - rate * first / (1 - 0.9**steps) / root, first, second, steps]


class Peer:
    """Data, parameters and optimiser state of a run: D = 1, one output, lambda = gamma_z = 1."""

    def __init__(self, n: int, batch: int, draws: int, hidden: tuple[int, ...]) -> None:
        """Make the data and the start values."""
        self.n, self.batch, self.draws, self.alpha = n, batch, draws, 1.0
        self.x, self.y = heteroscedastic(n)
        self.shapes = list(zip((2, *hidden), (*hidden, 1), strict=True))
        size = sum((i + 1) * o for i, o in self.shapes)
        self.params = [0.1 * torch.randn(size), torch.full((size,), -10.0), torch.full((1,), -5.0)]
        self.states = [[0 * p, 0 * p, torch.zeros(1)] for p in self.params]
        self.optimiser = torch.optim.Adam(self.params, lr=RATE, fused=True)
        self.latents = torch.tensor([[0.0, 5.0]]).repeat(n, 1)
        self.latent_state = [torch.zeros(n, 2), torch.zeros(n, 2), torch.zeros(n, 1)]

    def draw(self) -> Pair:
        """Standard normal numbers behind K draws of W and of every z in the minibatch."""
        return torch.randn(self.draws, len(self.params[0])), torch.randn(self.draws, self.batch)

    def energy(self, params: list[Tensor], latents: Tensor, rows: Tensor, eps: Pair) -> Tensor:
        """The alpha-energy of a minibatch scaled to N data; latents (B, 2) holds m_z and rho_z."""
        (means, rhos, log_noise), (eps_w, eps_z) = params, eps
        log_v_w, v_z = logsigmoid(rhos), 1e-6 + (1 - 2e-6) * torch.sigmoid(latents[:, 1])
        w, z = means + torch.exp(0.5 * log_v_w) * eps_w, latents[:, 0] + v_z.sqrt() * eps_z
        error = self.y[rows, 0] - mlp(w, self.x[rows], z, self.shapes)
        log_lik = -0.5 * (error**2 * torch.exp(-log_noise) + log_noise + math.log(2 * math.pi))
        ratio_w = 0.5 * (eps_w**2 + log_v_w - w**2).sum(1, keepdim=True)
        ratio_z = 0.5 * (eps_z**2 + v_z.log() - z**2)
        log_sum = torch.logsumexp(self.alpha * (log_lik + ratio_w / self.n + ratio_z), 0)
        return (math.log(len(eps_w)) - log_sum).sum() * self.n / (len(rows) * self.alpha)

    @torch.no_grad()
    def update_latents(self, rows: Tensor, grad: Tensor) -> None:
        """Adam on the visited rows only, with their own moments, step counts and rate."""
        state = [s[rows] for s in self.latent_state]
        new = adam(self.latents[rows], grad, state, RATE * self.n / self.batch)
        for table, value in zip([self.latents, *self.latent_state], new, strict=True):
            table.index_copy_(0, rows, value)

    def update_eager(self, rows: Tensor, eps: Pair) -> Tensor:
        """One update by autograd and torch.optim; returns the energy before it."""
        latents = self.latents[rows].requires_grad_()
        for param in self.params:
            param.requires_grad_().grad = None
        energy = self.energy(self.params, latents, rows, eps)
        energy.backward()
        self.optimiser.step()
        self.update_latents(rows, latents.grad)
        return energy.detach()

    @torch.no_grad()
    def update_functional(self, rows: Tensor, eps: Pair) -> Tensor:
        """The same update without torch.optim, so that it compiles into a single graph."""
        gradient = torch.func.grad_and_value(self.energy, argnums=(0, 1))
        grads, energy = gradient(self.params, self.latents[rows], rows, eps)
        for param, grad, state in zip(self.params, grads[0], self.states, strict=True):
            for tensor, value in zip([param, *state], adam(param, grad, state, RATE), strict=True):
                tensor.copy_(value)
        self.update_latents(rows, grads[1])
        return energy


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
    for glibc_option in (-1, -3):  # keep freed tensors instead of faulting them in every update
        ctypes.CDLL(None).mallopt(glibc_option, 1 << 30)
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    torch.compiler.config.force_disable_caches = True
    peer, rows, update = Peer(n, batch, draws, hidden), minibatches(n, batch), Peer.update_eager
    if compiled:
        update = torch.compile(Peer.update_functional, fullgraph=True)
    stamps = [time.perf_counter()]
    for _ in range(WARM_UP + updates):
        update(peer, next(rows), peer.draw())
        stamps.append(time.perf_counter())
    first, ms = stamps[1] - stamps[0], [1e3 * (b - a) for a, b in pairwise(stamps[WARM_UP:])]
    return {"seconds_compile": first, "ms_per_update": fmean(ms), "ms_median": median(ms)}


def command_line(timer: Callable[..., dict[str, float]], description: str | None) -> None:
    """Call a timer with the options of the command line and print what it found as JSON."""
    parser = argparse.ArgumentParser(description=description)
    for name in ("n", "batch", "draws", "updates", "threads", "seed"):
        parser.add_argument(f"--{name}", type=int, default=argparse.SUPPRESS)
    parser.add_argument("--hidden", type=int, nargs="+", default=argparse.SUPPRESS)
    parser.add_argument("--compiled", action="store_true")
    print(json.dumps(timer(**vars(parser.parse_args()))))


if __name__ == "__main__":
    command_line(time_updates, __doc__)
