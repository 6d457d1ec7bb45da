"""What ``fit_many`` needs to know of each inference method, in one table."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core.data import Padded, padded_size
from twofold.estimators.options import (
    ALPHA_OPTIONS,
    ENSEMBLE_OPTIONS,
    HMC_OPTIONS,
    SGHMC_OPTIONS,
    checked_options,
)
from twofold.estimators.validation import plain
from twofold.inference import alpha, ensemble, hmc, sghmc
from twofold.inference.base import Algorithm
from twofold.inference.convergence import Convergence, convergence
from twofold.inference.convergence import advice as convergence_advice
from twofold.inference.schedule import Schedule
from twofold.model.density import default_nodes, integration_error, nodes_for
from twofold.model.spec import BNNLV
from twofold.uncertainty import chains
from twofold.uncertainty.chains import Diagnostics

MIN_UPDATES, LEARNING_RATE = 60_000, 5e-3
MIN_ENSEMBLE_UPDATES, ENSEMBLE_LEARNING_RATE = 5_000, 1e-2
MIN_EPOCHS = 100
# What a fit takes at least, of the methods that learn from minibatches.
LEAST_UPDATES = {
    "alpha": MIN_UPDATES,
    "ensemble": MIN_ENSEMBLE_UPDATES,
    "sghmc": MIN_ENSEMBLE_UPDATES,
}
DEFAULT_CHAINS, DEFAULT_MEMBERS = 4, 32
DIAGNOSED_ROWS = 50
INTEGRATED_ROWS, INTEGRATED_DRAWS = 64, 16
GOOD_INTEGRATION_ERROR = 0.1
Regressor = Any  # a BNNLVRegressor, whose module imports the one that imports this


class Fitted(NamedTuple):
    """What one estimator keeps of a run, and what it should be warned of."""

    posterior: Any
    convergence: Convergence | None
    diagnostics: Diagnostics | None
    integration_error: float | None
    latents: int

    @property
    def advice(self) -> str | None:
        """A sentence where the result is not to be trusted yet."""
        worries = []
        if self.diagnostics is not None:
            worries.append(chains.advice(self.diagnostics))
        if self.convergence is not None:
            worries.append(convergence_advice(self.convergence))
        worries.append(self._integration_advice())
        return "; ".join(filter(None, worries)) or None

    def _integration_advice(self) -> str | None:
        if self.integration_error is None or self.integration_error < GOOD_INTEGRATION_ERROR:
            return None
        noise = float(np.exp(0.5 * np.mean(self.posterior.log_noise)))
        return (
            f"the latent input is integrated out with an error of {self.integration_error:.2f} "
            f"nats per datum, for the noise is narrow ({noise:.3f} deviations of y); that takes "
            f"inference_options={{'nodes': {nodes_for(noise, self.latents)}}}"
        )


class Method(NamedTuple):
    """An inference method, set up for a list of estimators.

    Each estimator is ``members`` runs side by side; ``problems`` makes what the algorithm calls a
    problem from the stacked data; ``resolved`` holds the settings with their defaults filled in, by
    which a checkpoint knows its run; ``finish`` turns an estimator's final states, its energies
    ``[epochs, members]`` and its inputs into what it keeps.
    """

    members: int
    algorithm: Algorithm
    problems: Callable[[Padded], Any]
    schedule: Any
    epochs: int
    batches: np.ndarray
    unit: str
    resolved: dict[str, Any]
    finish: Callable[[Any, np.ndarray, Padded], Fitted]


class Lesson(NamedTuple):
    """How minibatches are cut and how long they are trained on."""

    slots: int
    batches: np.ndarray
    epochs: int
    schedule: Schedule


def _lesson(first: Regressor, sizes: np.ndarray, min_updates: int, default_rate: float) -> Lesson:
    # Slots that no data set can fill would only cost time.
    slots = min(first.batch_size, padded_size(int(sizes.max())))
    batches = -(-sizes // slots)
    epochs = int(first.epochs or max(MIN_EPOCHS, -(-min_updates // batches.min())))
    rate = default_rate if first.learning_rate is None else first.learning_rate
    schedule = Schedule(
        jnp.int32(epochs),
        jnp.int32(batches.max()),
        jnp.asarray(rate, first.dtype),
        jnp.asarray(first.learning_rate_decay, first.dtype),
    )
    return Lesson(int(slots), batches, epochs, schedule)


def _resolved(config: Any, lesson: Lesson | None = None) -> dict[str, Any]:
    settings = {name: value for name, value in vars(config).items() if name != "model"}
    if lesson is not None:
        settings["learning_rate"] = float(lesson.schedule.learning_rate)
    return plain(settings)


def _as_it_is(data: Padded) -> Padded:
    return data


def _trained(
    members: int,
    algorithm: Algorithm,
    config: Any,
    lesson: Lesson,
    finish: Callable[[Any, np.ndarray, Padded], Fitted],
    problems: Callable[[Padded], Any] = _as_it_is,
) -> Method:
    """A method that passes over the data in minibatches."""
    return Method(
        members,
        algorithm,
        problems,
        lesson.schedule,
        lesson.epochs,
        lesson.batches,
        "epochs",
        _resolved(config, lesson),
        finish,
    )


def by_alpha(estimators: Sequence[Regressor], model: BNNLV, sizes: np.ndarray) -> Method:
    """Mean field, fitted by α-divergence minimisation."""
    first = estimators[0]
    lesson = _lesson(first, sizes, MIN_UPDATES, LEARNING_RATE)
    config = alpha.Config(
        model, lesson.slots, int(first.draws), **checked_options(first, ALPHA_OPTIONS)
    )
    alphas = jnp.asarray([e.alpha for e in estimators], first.dtype)

    def finish(states: alpha.State, energies: np.ndarray, data: Padded) -> Fitted:
        posterior = jax.vmap(partial(alpha.posterior, config))(states)
        lone = jax.tree.map(lambda leaf: np.asarray(leaf[0]), posterior)
        error = _integration_error(model, lone, data, config.nodes)
        return Fitted(lone, convergence(energies[:, 0], lesson.epochs), None, error, model.latents)

    def problems(data: Padded) -> alpha.Problem:
        return alpha.Problem(data, alphas)

    return _trained(1, alpha.build(config), config, lesson, finish, problems)


def by_ensemble(estimators: Sequence[Regressor], model: BNNLV, sizes: np.ndarray) -> Method:
    """Anchored ensemble, the latent input integrated out."""
    first = estimators[0]
    lesson = _lesson(first, sizes, MIN_ENSEMBLE_UPDATES, ENSEMBLE_LEARNING_RATE)
    options = checked_options(first, ENSEMBLE_OPTIONS)
    members = options.pop("members", DEFAULT_MEMBERS)
    config = ensemble.Config(model, lesson.slots, **({"nodes": _nodes(model)} | options))

    def finish(states: ensemble.State, energies: np.ndarray, data: Padded) -> Fitted:
        posterior = jax.tree.map(np.asarray, ensemble.posterior(states))
        error = _integration_error(model, posterior, data, config.nodes)
        return Fitted(
            posterior, convergence(energies.mean(axis=1), lesson.epochs), None, error, model.latents
        )

    return _trained(members, ensemble.build(config), config, lesson, finish)


def by_sghmc(estimators: Sequence[Regressor], model: BNNLV, sizes: np.ndarray) -> Method:
    """Stochastic-gradient Hamiltonian Monte Carlo from the members of an ensemble."""
    first = estimators[0]
    lesson = _lesson(first, sizes, MIN_ENSEMBLE_UPDATES, ENSEMBLE_LEARNING_RATE)
    options = checked_options(first, SGHMC_OPTIONS)
    members = options.pop("chains", DEFAULT_MEMBERS)
    config = sghmc.Config(model, lesson.slots, **({"nodes": _nodes(model)} | options))

    def finish(states: sghmc.State, energies: np.ndarray, data: Padded) -> Fitted:
        del energies
        posterior = jax.tree.map(np.asarray, sghmc.posterior(states))
        error = _integration_error(model, posterior, data, config.nodes)
        return Fitted(posterior, None, None, error, model.latents)

    return _trained(members, sghmc.build(config), config, lesson, finish)


def _nodes(model: BNNLV) -> int:
    """The default; 1 where there are too many latents, for the method itself to refuse them."""
    return max(default_nodes(model), 1)


def _integration_error(model: BNNLV, posterior: Any, data: Padded, nodes: int) -> float | None:
    """Of the fit, at some of the data it was fitted to; None where z was not integrated out."""
    if not nodes or not model.latents:
        return None
    size = int(data.size)
    # Always as many, lest every new datum have a program compiled.
    rows = np.linspace(0, size - 1, INTEGRATED_ROWS).astype(int)
    return float(_sampled_error(model, posterior, data.x[rows], data.y[rows], nodes))


@partial(jax.jit, static_argnames=("model", "nodes"))
def _sampled_error(
    model: BNNLV, posterior: Any, x: jax.Array, y: jax.Array, nodes: int
) -> jax.Array:
    draws = posterior.sample(jax.random.key(0), INTEGRATED_DRAWS)
    return integration_error(model, draws.weights, draws.log_noise, x, y, nodes)


def by_hmc(kernel: str, estimators: Sequence[Regressor], model: BNNLV, sizes: np.ndarray) -> Method:
    """Hamiltonian Monte Carlo, several chains for each estimator."""
    options = checked_options(estimators[0], HMC_OPTIONS)
    members = options.pop("chains", DEFAULT_CHAINS)
    config = hmc.Config(model, kernel=kernel, **({"nodes": default_nodes(model)} | options))

    def finish(states: hmc.State, energies: np.ndarray, data: Padded) -> Fitted:
        kept = np.clip((len(energies) - config.warmup) // config.thin, 1, config.samples)
        states = states._replace(
            weights=states.weights[:, :kept], log_noise=states.log_noise[:, :kept]
        )
        rows = np.linspace(0, int(data.size) - 1, DIAGNOSED_ROWS).astype(int)
        order = np.argsort(data.x[: int(data.size), 0])
        trace = chains.predictive_trace(
            model, states.weights, states.log_noise, data.x[order[rows]]
        )
        report = chains.diagnose(trace, int(states.divergences.sum()))
        posterior = jax.tree.map(np.asarray, hmc.posterior(states))
        error = _integration_error(model, posterior, data, config.nodes)
        return Fitted(posterior, None, report, error, model.latents)

    return Method(
        members,
        hmc.build(config),
        _as_it_is,
        jnp.zeros(()),
        config.transitions,
        np.ones(len(estimators), int),
        "transitions",
        _resolved(config),
        finish,
    )


METHODS: dict[str, Callable[[Sequence[Regressor], BNNLV, np.ndarray], Method]] = {
    "alpha": by_alpha,
    "ensemble": by_ensemble,
    "hmc": partial(by_hmc, "hmc"),
    "nuts": partial(by_hmc, "nuts"),
    "sghmc": by_sghmc,
}
