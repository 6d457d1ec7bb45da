"""The same policy gradient in PyTorch, for ``search.py``: roll-outs of the industrial benchmark's
model under a policy, the criterion, one backward pass and one step of Adam.

Reads its sizes, weights and windows from a file, writes the gradient for given noise, and prints
the value there and the median time of an update with noise of its own.
"""

import argparse
import json
import statistics
import time
from itertools import pairwise

import numpy as np
import torch


def layers(flat: torch.Tensor, sizes: list[int]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Kernels ``[…, out, in]`` and biases of a flat vector of weights."""
    found, start = [], 0
    for fan_in, fan_out in pairwise(sizes):
        middle, stop = start + fan_out * fan_in, start + fan_out * (fan_in + 1)
        kernel = flat[..., start:middle].reshape(*flat.shape[:-1], fan_out, fan_in)
        found.append((kernel, flat[..., middle:stop]))
        start = stop
    return found


def apply(own: list[tuple[torch.Tensor, torch.Tensor]], values: torch.Tensor) -> torch.Tensor:
    """A ReLU network for points ``[M, B, in]``."""
    for index, (kernel, bias) in enumerate(own):
        values = torch.relu(values) if index else values
        if kernel.ndim == 3:
            values = torch.baddbmm(bias[:, None], values, kernel.transpose(1, 2))
        else:
            values = torch.nn.functional.linear(values, kernel, bias)
    return values


def step(columns, setpoint, steering, action, latent, additive, model, scales):
    """One step of the model: columns ``[M, B, 4, 15]`` of what it sees, and the cost."""
    steering = torch.clamp(steering + action * scales["rates"], 0.0, 100.0)
    known = torch.cat([columns[:, :, :3, 1:], steering[..., None]], dim=-1)
    seen = torch.cat([setpoint, known.flatten(2), columns[:, :, 3]], dim=-1)
    x = torch.cat([(seen - scales["x_mean"]) / scales["x_scale"], latent], dim=-1)
    y = apply(model, x)[..., 0] + additive
    place = columns[:, :, 3, -1] + y * scales["y_scale"] + scales["y_mean"]
    place = torch.clamp(place, -scales["edge"], scales["edge"])
    costs = torch.cat([columns[:, :, 3, 1:], place[..., None]], dim=-1)
    low, high = scales["low"], scales["high"]
    cost = torch.expm1(low + (high - low) * torch.sigmoid(place))
    return torch.cat([known, costs[:, :, None]], dim=2), steering, cost


def value(policy, data, noise, model, scales, follow):
    """The criterion of a roll-out."""
    columns, setpoint, steering = data["columns"], data["setpoint"], data["steering"]
    costs = []
    for latent, additive in zip(*noise, strict=True):
        features = torch.cat([setpoint, columns.flatten(2)], dim=-1)
        features = (features - scales["feature_mean"]) / scales["feature_scale"]
        action = torch.tanh(apply(policy, features))
        columns, steering, cost = follow(
            columns, setpoint, steering, action, latent, additive, model, scales
        )
        costs.append(cost)
    every = torch.stack(costs)
    within = every.var(dim=2).mean(dim=1)
    between = every.mean(dim=2).var(dim=1) - within / every.shape[2]
    risk = torch.sqrt(torch.clamp(scales["beta"] ** 2 * between, min=1e-8))
    return (every.mean(dim=(1, 2)) + risk).mean()


def main() -> None:
    """Check, then time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("gradient", help="where to write the first gradient")
    parser.add_argument("--updates", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--compiled", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    stored = dict(np.load(arguments.file))
    data = {n: torch.from_numpy(stored[n]) for n in ("columns", "setpoint", "steering")}
    names = "x_mean x_scale y_mean y_scale feature_mean feature_scale low high edge beta rates"
    scales = {name: torch.from_numpy(np.asarray(stored[name])) for name in names.split()}
    model = layers(torch.from_numpy(stored["model"]), stored["model_sizes"].tolist())
    weights = torch.nn.Parameter(torch.from_numpy(stored["policy"]))
    follow = torch.compile(step) if arguments.compiled else step
    adam = torch.optim.Adam([weights], lr=1e-3)

    def update(noise) -> float:
        adam.zero_grad()
        policy = layers(weights, stored["policy_sizes"].tolist())
        found = value(policy, data, noise, model, scales, follow)
        found.backward()
        return float(found.detach())

    given = torch.from_numpy(stored["latent"]), torch.from_numpy(stored["additive"])
    first = update(given)
    gradient = weights.grad.numpy().copy()
    np.save(arguments.gradient, gradient)
    spread = [float(one.std()) for one in given]
    times = []
    for _ in range(arguments.updates):
        started = time.perf_counter()
        update([torch.randn_like(one) * scale for one, scale in zip(given, spread, strict=True)])
        adam.step()
        times.append(time.perf_counter() - started)
    print(json.dumps({"value": first, "seconds": statistics.median(times)}))


if __name__ == "__main__":
    main()
