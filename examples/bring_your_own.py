"""Can the uncertainty of my own sampler be split?

    python examples/bring_your_own.py [--smoke] [--output FOLDER]

The model's log-density is a pure function. Here BlackJAX's no-U-turn sampler uses it, for three
data sets at once: 15, 60 and 240 measurements of the same process, which has two branches. The
uncertainty of the draws is split by ``decompose``, also a pure function, for all three at once.
"""

import argparse
from pathlib import Path

import blackjax
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from twofold.core.sharding import enable_compile_cache
from twofold.envs.toy import BIMODAL
from twofold.model import BNNLV, SampledPosterior, log_joint
from twofold.report import figures
from twofold.uncertainty import Parts, decompose

SIZES = np.array([15, 60, 240])
STEPS, SMOKE_STEPS = (400, 200), (4, 4)
MODEL = BNNLV(
    inputs=1, outputs=1, hidden=(16,), latents=1, weight_variance=1.0, latent_variance=1.0
)
# In units near 1, as the priors assume.
X_SCALE, Y_SCALE = 0.7, 5.0


def sample_posterior(key, x, y, mask, steps):
    """Draws of the weights and the noise, given the rows of the data selected by ``mask``."""

    def log_density(position):
        return log_joint(MODEL, *position, x, y, mask=mask)

    warmup, samples = steps
    start_key, warmup_key, key = jax.random.split(key, 3)
    start = 0.3 * jax.random.normal(start_key, (MODEL.num_weights,)), jnp.zeros(1)
    tuning = blackjax.window_adaptation(blackjax.nuts, log_density, max_num_doublings=6)
    (state, settings), _ = tuning.run(warmup_key, start, warmup)
    step = blackjax.nuts(log_density, **settings).step
    keys = jax.random.split(key, samples)
    _, states = jax.lax.scan(lambda state, key: (step(key, state)[0],) * 2, state, keys)
    return SampledPosterior(*states.position)


def split_at(key, posteriors: SampledPosterior, x) -> Parts:
    """Deviations of y, total, epistemic and aleatoric, for every posterior at every point."""

    @jax.jit
    @jax.vmap
    def split(posterior):
        return decompose(key, MODEL, posterior, x, by="variance").parts

    return Parts(*(Y_SCALE * np.sqrt(part[..., 0]) for part in split(posteriors)))


def true_deviation(x: np.ndarray) -> np.ndarray:
    """Deviation of ``10 sin x + ε`` or ``10 cos x + ε``, with equal probability and ε of deviation
    1."""
    return np.sqrt(1.0 + 25.0 * np.square(np.sin(x) - np.cos(x)))


def draw(path: Path, x: np.ndarray, y: np.ndarray, grid: np.ndarray, parts: Parts) -> None:
    """The data, and both parts for each of the three data sets."""
    with figures.style():
        figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
        axes[0].scatter(x, y, s=8, color=figures.POINTS, alpha=0.6, linewidths=0)
        axes[0].set(title=f"{len(x)} measurements", xlabel="x", ylabel="y")
        for axis, part in zip(axes[1:], ("epistemic", "aleatoric"), strict=True):
            lines = zip(SIZES, getattr(parts, part), (":", "--", "-"), strict=True)
            for size, values, line in lines:
                colour = figures.EPISTEMIC if part == "epistemic" else figures.ALEATORIC
                axis.plot(grid, values, line, color=colour, label=f"{size} measurements")
            axis.set(title=f"{part.capitalize()} deviation of y", xlabel="x", ylim=(0, 8))
        axes[2].plot(grid, true_deviation(grid), color=figures.TRUTH, label="true process")
        for axis in axes:
            axis.set_xlim(grid[0], grid[-1])
        axes[1].legend()
        axes[2].legend()
        figure.savefig(path, dpi=100)
    plt.close(figure)


def main() -> None:
    """Sample three posteriors at once, split them at once, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    parser.add_argument("--smoke", action="store_true", help="a short run of a few seconds")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    enable_compile_cache()
    steps = SMOKE_STEPS if arguments.smoke else STEPS

    x, y = BIMODAL.training_data(0, SIZES[-1])
    scaled = jnp.asarray(x / X_SCALE), jnp.asarray(y[:, None] / Y_SCALE)
    masks = jnp.arange(len(x)) < SIZES[:, None]
    keys = jax.random.split(jax.random.key(0), len(SIZES))
    sample = jax.jit(jax.vmap(lambda key, mask: sample_posterior(key, *scaled, mask, steps)))
    posteriors = sample(keys, masks)

    grid = np.linspace(BIMODAL.low, BIMODAL.high, 60)
    parts = split_at(jax.random.key(1), posteriors, jnp.asarray(grid[:, None] / X_SCALE))
    print("measurements   epistemic   aleatoric   (mean deviations of y)")
    for size, epistemic, aleatoric in zip(SIZES, parts.epistemic, parts.aleatoric, strict=True):
        print(f"{size:12}{epistemic.mean():12.2f}{aleatoric.mean():12.2f}")
    print(f"{'true process':<12}{0.0:12.2f}{true_deviation(grid).mean():12.2f}")
    path = arguments.output / "bring_your_own.png"
    draw(path, x[:, 0], y, grid, parts)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
