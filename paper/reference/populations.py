"""The populations of a form of the model on one-dimensional problems: annealed in parallel, stored
between stages, resumed by the same command."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from paper.problems import PROBLEMS
from paper.reference import annealing
from paper.reference.annealing import Density, State
from paper.reference.forces import Tables, Target, forces, log_likelihoods
from twofold.core.arrays import Array, Float
from twofold.core.numerics import Standardizer
from twofold.model.spec import BNNLV

BEYOND = {
    "varying_noise": True, "scaled_prior": True, "linear_skip": True, "activation": "tanh",
}  # fmt: skip
FORMS = {
    "hmc": BNNLV(1, 1, (20, 20), 1, 1.0, 1.0),
    "reference": BNNLV(1, 1, (20, 20), 1, 1.0, 1.0, latent_levels=16, **BEYOND),
    "reference_plain": BNNLV(1, 1, (20, 20), 0, 1.0, 1.0, **BEYOND),
}
NODES = 24  # for the first form, whose z is continuous
STORED = "float16"  # precise enough for draws, and as starting points
SAVE_SECONDS = 60.0


class Case(NamedTuple):
    """The data of a problem for a seed."""

    problem: str
    seed: int


class Size(NamedTuple):
    """Number of independent populations per case, particles of each, most steps of a trajectory
    (twice as many at power 1), approximate total steps of a stage, stages at power 1, and how many
    of these are kept. A limit of all stages is for tests."""

    populations: int = 4
    particles: int = 64
    steps: int = 500
    work: int = 1_000
    stages: int = 4
    kept: int = 4
    end: int = 1_000


def tabulate(cases: Sequence[Case]) -> Tables:
    """The data of some cases, standardised as in the estimator."""
    columns: tuple[list[np.ndarray], list[np.ndarray]] = [], []
    for case in cases:
        for place, values in zip(columns, PROBLEMS[case.problem].training(case.seed), strict=True):
            one = values.reshape(len(values), 1)
            place.append(Standardizer.fit(one).transform(one)[:, 0])
    return Tables(*(jnp.asarray(np.stack(part), jnp.float32) for part in columns))


def density_of(form: str, cases: Sequence[Case], size: Size) -> Density:
    """The density of all particles of all populations of all cases, in this order."""
    target = Target.of(FORMS[form], NODES, tabulate(cases))
    numbers = np.repeat(np.arange(len(cases), dtype=np.int32), size.populations * size.particles)

    def likelihood(positions: Array) -> Array:
        return log_likelihoods(target, positions, numbers)

    def force(positions: Array) -> Array:
        return forces(target, positions, numbers)

    return Density(likelihood, force)


class Run(NamedTuple):
    """Progress of the populations: state, stages done, stages done at power 1, and positions
    kept."""

    state: State
    stage: int
    whole: int
    kept: list[Float[np.ndarray, "G P d"]]

    def save(self, path: Path) -> None:
        """Save atomically, with positions in reduced precision."""
        arrays = {name: np.asarray(leaf) for name, leaf in self.state._asdict().items()}
        arrays["positions"] = arrays["positions"].astype(STORED)
        part = path.with_suffix(".part.npz")
        np.savez(part, stage=self.stage, whole=self.whole, kept=np.array(self.kept), **arrays)
        part.replace(path)

    @classmethod
    def load(cls, path: Path) -> "Run":
        """Load a stored run."""
        with np.load(path) as stored:
            state = State(*(jnp.asarray(stored[name], jnp.float32) for name in State._fields))
            return cls(state, int(stored["stage"]), int(stored["whole"]), list(stored["kept"]))

    def look_again(self, density: Density) -> "Run":
        """Recompute the log-likelihoods for the stored (rounded) positions."""
        flat = self.state.positions.reshape(-1, self.state.positions.shape[-1])
        values = jax.jit(density.log_likelihood)(flat)
        values = values.reshape(self.state.log_likelihood.shape)
        return self._replace(state=self.state._replace(log_likelihood=values))

    def done(self, size: Size) -> bool:
        """Whether the run is complete."""
        return self.whole >= size.stages or self.stage >= size.end


def anneal(
    form: str, cases: Sequence[Case], size: Size, path: Path, seconds: float = np.inf, seed: int = 0
) -> Run:
    """Run the populations of a form, resuming from ``path``, until they are done or time is up."""
    density, begun = density_of(form, cases, size), time.monotonic()
    key, saved = jax.random.key(seed), begun
    if path.exists():
        run = Run.load(path)
        if run.done(size):
            return run
        run = run.look_again(density)
    else:
        run = begin(form, cases, size, density, key)
    while not run.done(size) and time.monotonic() - begun < seconds:
        rng = np.random.default_rng([seed, run.stage])
        most = size.steps * (2 if run.whole else 1)
        steps = annealing.path_steps(rng, run.state, size.work, most)
        stage_key = jax.random.fold_in(key, run.stage)
        state = annealing.advance(density, stage_key, run.state, jnp.asarray(steps))
        whole = run.whole + bool(state.power.min() >= 1.0)
        kept = [*run.kept, np.asarray(state.positions, STORED)] if whole else run.kept
        run = Run(state, run.stage + 1, whole, kept[-size.kept :])
        report(form, run, steps, time.monotonic() - begun)
        if time.monotonic() - saved > SAVE_SECONDS:
            run.save(path)
            saved = time.monotonic()
    run.save(path)
    return run


def begin(form: str, cases: Sequence[Case], size: Size, density: Density, key: Array) -> Run:
    """Draws from the prior."""
    model, groups = FORMS[form], len(cases) * size.populations
    dimension = model.num_weights + model.num_noise
    return Run(annealing.init(density, key, groups, size.particles, dimension), 0, 0, [])


def report(form: str, run: Run, steps: np.ndarray, seconds: float) -> None:
    """Print a line of progress."""
    state = run.state
    power, rate = np.asarray(state.power), np.asarray(state.acceptance)
    shortest, value = np.exp(np.asarray(state.log_step)).min(), float(state.log_likelihood.mean())
    print(
        f"{form}, stage {run.stage}: power {power.min():.3g} to {power.max():.3g}, "
        f"{steps[steps > 0]} steps of {shortest:.2g}, acceptance {rate.min():.2f} to "
        f"{rate.max():.2f}, log-likelihood {value:.1f}, {seconds:.0f} s",
        flush=True,
    )
