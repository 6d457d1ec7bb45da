"""The populations of a form of the model on all one-dimensional problems: annealed side by side,
stored between stages, continued by the same command."""

import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from paper.problems import ONE_DIMENSIONAL, PROBLEMS
from paper.reference import annealing
from paper.reference.annealing import Density, State
from paper.reference.forces import Tables, Target, forces, log_likelihoods
from twofold.core.arrays import Array
from twofold.core.numerics import Standardizer
from twofold.model.spec import BNNLV

PAPER_NODES = 24
PAPER = BNNLV(1, 1, (20, 20), 1, 1.0, 1.0)
BEYOND = dict(varying_noise=True, scaled_prior=True, linear_skip=True, activation="tanh")
FORMS = {
    "paper": PAPER,
    "default_latent": BNNLV(1, 1, (20, 20), 1, 1.0, 1.0, latent_levels=16, **BEYOND),
    "default_plain": BNNLV(1, 1, (20, 20), 0, 1.0, 1.0, **BEYOND),
}
KEPT = "float16"  # enough for draws, and for a start of further paths


class Case(NamedTuple):
    """A problem's data for a seed."""

    problem: str
    seed: int


class Size(NamedTuple):
    """Independent populations of each case, the particles of each, the paths of a stage, and how
    many stages are kept once the likelihood counts in full."""

    populations: int = 4
    particles: int = 64
    moves: int = 2
    stages: int = 32


def tabulate(cases: list[Case]) -> Tables:
    """The data of some cases, standardised as the estimator does it."""
    columns: tuple[list[np.ndarray], list[np.ndarray]] = [], []
    for case in cases:
        for place, values in zip(columns, PROBLEMS[case.problem].training(case.seed), strict=True):
            one = values.reshape(len(values), 1)
            place.append(Standardizer.fit(one).transform(one)[:, 0])
    return Tables(*(jnp.asarray(np.stack(part), jnp.float32) for part in columns))


def density_of(target: Target, numbers: np.ndarray) -> Density:
    """Of the chains whose data sets have these numbers."""
    places = jnp.asarray(numbers, jnp.int32)

    def likelihood(positions: Array) -> Array:
        return log_likelihoods(target, positions, places)

    def force(positions: Array) -> Array:
        return forces(target, positions, places)

    return Density(likelihood, force)


class Run(NamedTuple):
    """How far the populations of a form have come: their state, the number of stages done, and the
    positions kept since the likelihood counts in full."""

    state: State
    stage: int
    kept: list[np.ndarray]

    def save(self, path: Path) -> None:
        """Atomically, positions in few digits."""
        state = {f"state_{name}": np.asarray(v) for name, v in self.state._asdict().items()}
        state["state_positions"] = state["state_positions"].astype(KEPT)
        part = path.with_suffix(".part.npz")
        np.savez(part, **state, stage=self.stage, kept=np.array(self.kept, KEPT))
        part.replace(path)

    @classmethod
    def load(cls, path: Path, density: Density) -> "Run":
        """With the log-likelihoods of the stored positions."""
        with np.load(path) as found:
            state = State(*(jnp.asarray(found[f"state_{n}"]) for n in State._fields))
            kept, stage = list(found["kept"]), int(found["stage"])
        positions = state.positions.astype(jnp.float32)
        values = jax.jit(density.log_likelihood)(positions.reshape(-1, positions.shape[-1]))
        shape = state.log_likelihood.shape
        return cls(state._replace(positions=positions, log_likelihood=values.reshape(shape)), stage, kept)


def anneal(
    form: str, cases: list[Case], size: Size, path: Path, seconds: float, kept: int = 8, seed: int = 0
) -> Run:
    """Go on with the populations of a form for so many seconds, or until they are done."""
    model, begun, groups = FORMS[form], time.monotonic(), len(cases) * size.populations
    dimension = model.num_weights + model.num_noise
    target = Target.of(model, PAPER_NODES, tabulate(cases))
    numbers = np.repeat(np.arange(len(cases)), size.populations * size.particles)
    density = density_of(target, numbers)
    key = jax.random.key(seed)
    if path.exists():
        run = Run.load(path, density)
    else:
        start = partial(annealing.init, density, groups=groups, particles=size.particles)
        run = Run(jax.jit(partial(start, dimension=dimension))(key), 0, [])
    done, saved = 0, time.monotonic()
    while time.monotonic() - begun < seconds and done < size.stages:
        steps = annealing.path_steps(seed, run.stage, run.state, size.moves)
        own = jax.random.fold_in(key, run.stage)
        state = annealing.advance(density, own, run.state, jnp.asarray(steps))
        cold = bool(state.power.min() >= 1.0)
        run = Run(state, run.stage + 1, [*run.kept, np.asarray(state.positions, KEPT)][-kept:] if cold else [])
        done = done + 1 if cold else 0
        report(form, run, steps, time.monotonic() - begun)
        if time.monotonic() - saved > 60:
            run.save(path)
            saved = time.monotonic()
    run.save(path)
    return run


def report(form: str, run: Run, steps: np.ndarray, seconds: float) -> None:
    """A line of progress."""
    state = run.state
    power, rate = np.asarray(state.power), np.asarray(state.acceptance)
    print(
        f"{form} {run.stage}: power {power.min():.3g} to {power.max():.3g}, steps {steps}, "
        f"step size {np.exp(np.asarray(state.log_step)).min():.2g}, acceptance {rate.min():.2f} "
        f"{rate.mean():.2f}, log-likelihood {float(state.log_likelihood.mean()):.1f}, "
        f"{seconds:.0f} s",
        flush=True,
    )


def all_cases(seeds: dict[str, list[int]]) -> list[Case]:
    """Every seed of the one-dimensional problems."""
    return [Case(name, seed) for name in ONE_DIMENSIONAL for seed in seeds[name]]
