"""What ``fit_many`` needs to know of each inference method, in one table."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from twofold.data import Padded, padded_size
from twofold.estimators.validation import check_integer, check_positive, is_number
from twofold.inference import alpha, hmc
from twofold.inference.base import Algorithm
from twofold.inference.convergence import Convergence, convergence
from twofold.inference.convergence import advice as convergence_advice
from twofold.model.bnn import BNNLV
from twofold.uncertainty import chains
from twofold.uncertainty.chains import Diagnostics

MIN_UPDATES = 60_000
MIN_EPOCHS = 100
DEFAULT_CHAINS = 4
DIAGNOSED_ROWS = 50
Regressor = Any  # a BNNLVRegressor, whose module imports the one that imports this


class Fitted(NamedTuple):
    """What one estimator keeps of a run, and what it should be warned of."""

    posterior: Any
    convergence: Convergence | None
    diagnostics: Diagnostics | None

    @property
    def advice(self) -> str | None:
        """A sentence where the result is not to be trusted yet."""
        if self.diagnostics is not None:
            return chains.advice(self.diagnostics)
        return None if self.convergence is None else convergence_advice(self.convergence)


class Method(NamedTuple):
    """An inference method, set up for a list of estimators.

    Each estimator is ``members`` runs side by side; ``problems`` makes what the algorithm calls a
    problem from the stacked data; ``finish`` turns an estimator's final states, its energies
    ``[epochs, members]`` and its inputs into what it keeps.
    """

    members: int
    algorithm: Algorithm
    problems: Callable[[Padded], Any]
    schedule: Any
    epochs: int
    batches: np.ndarray
    unit: str
    finish: Callable[[Any, np.ndarray, Padded], Fitted]


def by_alpha(estimators: Sequence[Regressor], model: BNNLV, sizes: np.ndarray) -> Method:
    """Mean field, fitted by α-divergence minimisation."""
    first, dtype = estimators[0], estimators[0].dtype
    # Slots that no data set can fill would only cost time.
    slots = min(first.batch_size, padded_size(int(sizes.max())))
    batches = -(-sizes // slots)
    epochs = int(first.epochs or max(MIN_EPOCHS, -(-MIN_UPDATES // batches.min())))
    config = alpha.Config(model, int(slots), int(first.draws))
    alphas = jnp.asarray([e.alpha for e in estimators], dtype)
    schedule = alpha.Schedule(
        jnp.int32(epochs),
        jnp.int32(batches.max()),
        jnp.asarray(first.learning_rate, dtype),
        jnp.asarray(first.learning_rate_decay, dtype),
    )

    def finish(states: alpha.State, energies: np.ndarray, data: Padded) -> Fitted:
        del data
        posterior = jax.vmap(partial(alpha.posterior, config))(states)
        lone = jax.tree.map(lambda leaf: np.asarray(leaf[0]), posterior)
        return Fitted(lone, convergence(energies[:, 0], epochs), None)

    def problems(data: Padded) -> alpha.Problem:
        return alpha.Problem(data, alphas)

    algorithm = alpha.build(config)
    return Method(1, algorithm, problems, schedule, epochs, batches, "epochs", finish)


def hmc_settings(options: Any) -> dict[str, Any]:
    """The options of a sampler, ``chains`` among them; wrong ones are refused in words."""
    options = {} if options is None else options
    if not isinstance(options, dict):
        raise ValueError(f"inference_options must be a dict or None, got {options!r}")
    known = {"chains", *hmc.Config.__dataclass_fields__} - {"model", "kernel"}
    unknown = sorted(set(options) - known)
    if unknown:
        raise ValueError(
            f"inference_options knows {', '.join(sorted(known))}, got {', '.join(unknown)}"
        )
    options = {"chains": DEFAULT_CHAINS} | options
    for name, value in options.items():
        if name == "log_noise_prior":
            options[name] = _pair(name, value)
        elif name == "target_acceptance":
            check_positive(name, value)
        else:
            check_integer(name, value, {"chains": 2, "nodes": 0}.get(name, 1))
            options[name] = int(value)
    return options


def _pair(name: str, value: Any) -> tuple[float, float]:
    if not isinstance(value, tuple | list) or len(value) != 2 or not all(map(is_number, value)):
        raise ValueError(f"{name} must be a pair of numbers, mean and deviation, got {value!r}")
    return float(value[0]), float(value[1])


def by_hmc(kernel: str, estimators: Sequence[Regressor], model: BNNLV, sizes: np.ndarray) -> Method:
    """Hamiltonian Monte Carlo, several chains for each estimator."""
    options = hmc_settings(estimators[0].inference_options)
    members = options.pop("chains")
    config = hmc.Config(model, kernel=kernel, **options)

    def finish(states: hmc.State, energies: np.ndarray, data: Padded) -> Fitted:
        kept = np.clip((len(energies) - config.warmup) // config.thin, 1, config.samples)
        states = states._replace(
            weights=states.weights[:, :kept], log_noise=states.log_noise[:, :kept]
        )
        rows = np.linspace(0, int(data.size) - 1, DIAGNOSED_ROWS).astype(int)
        order = jnp.argsort(data.x[: int(data.size), 0])
        trace = chains.predictive_trace(
            model, states.weights, states.log_noise, data.x[order[rows]]
        )
        report = chains.diagnose(trace, int(states.divergences.sum()))
        return Fitted(jax.tree.map(np.asarray, hmc.posterior(states)), None, report)

    return Method(
        members,
        hmc.build(config),
        lambda data: data,
        jnp.zeros(()),
        config.transitions,
        np.ones(len(estimators), int),
        "transitions",
        finish,
    )


METHODS: dict[str, Callable[[Sequence[Regressor], BNNLV, np.ndarray], Method]] = {
    "alpha": by_alpha,
    "hmc": partial(by_hmc, "hmc"),
    "nuts": partial(by_hmc, "nuts"),
}
