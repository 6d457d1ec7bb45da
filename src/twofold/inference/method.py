"""What an inference method is to the rest of twofold: a frozen dataclass of validated options that
knows how to set up a run, and what to keep of it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import field, fields
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np

from twofold.core.arrays import Array, Float, Int
from twofold.core.data import Padded, padded_size
from twofold.inference.base import Algorithm
from twofold.inference.minibatch import Schedule
from twofold.model.spec import BNNLV

MIN_EPOCHS = 100
STEEP_DROP = 0.1
# JAX counts with 32 bits.
LARGEST_INTEGER = 2**31 - 1
Check = Callable[[str, Any], Any]


class Setup(NamedTuple):
    """A run of a method: its program, how long it is, each data set's batches of an epoch, and what
    a person would call an epoch."""

    config: Any
    algorithm: Algorithm
    schedule: Any
    epochs: int
    batches: np.ndarray
    unit: str


class Convergence(NamedTuple):
    """The energy per datum (nats) and how much it fell over the second half of the run.

    The drop is measured from the middle of the run, while the learning rate is still at half its
    height: a rate that decays to zero flattens every curve at its end, converged or not.
    """

    energy: float
    late_drop: float
    standard_error: float
    epochs: int
    planned_epochs: int

    @property
    def steep(self) -> bool:
        """Whether the energy still fell by more than STEEP_DROP nats, beyond its noise."""
        return self.late_drop - 2.0 * self.standard_error > STEEP_DROP

    @property
    def converged(self) -> bool:
        """Whether the run was completed and its energy had levelled off."""
        return self.epochs == self.planned_epochs and not self.steep


def convergence(energies: np.ndarray, planned_epochs: int) -> Convergence:
    """Compare the twentieth of the run after its middle with its last twentieth."""
    window = max(1, len(energies) // 20)
    middle = energies[len(energies) // 2 :][:window]
    last = energies[-window:]
    error = np.sqrt((np.var(middle) + np.var(last)) / window)
    return Convergence(
        float(last.mean()),
        float(middle.mean() - last.mean()),
        float(error),
        len(energies),
        planned_epochs,
    )


def convergence_advice(report: Convergence) -> str | None:
    """A sentence for the user when something is to be done, else None."""
    if not report.steep:
        return None
    return (
        f"the energy still fell by {report.late_drop:.2f} nats per datum over the second half of "
        f"the run ({report.epochs} epochs); increase epochs (twice as many is a good start)"
    )


class Chains(NamedTuple):
    """What Markov chains have drawn, chain by chain."""

    weights: Float[Array, "C R P"]
    log_noise: Float[Array, "C R O"]
    divergences: Int[Array, "C"]


class Result(NamedTuple):
    """What is kept of a run: the posterior, and what says how far to trust it. ``nodes`` is 0 where
    the latent input was not integrated out."""

    posterior: Any
    nodes: int
    convergence: Convergence | None = None
    chains: Chains | None = None


class Method(ABC):
    """Base class of the methods; each is a frozen dataclass whose fields are ``option``s."""

    name: ClassVar[str]
    # Options in which estimators fitted together may differ.
    differing: ClassVar[tuple[str, ...]] = ()
    # The options check themselves, and say more than a type checker does.
    __no_type_check__: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for one in fields(self):  # type: ignore[arg-type]
            value = one.metadata["check"](one.name, getattr(self, one.name))
            object.__setattr__(self, one.name, value)

    @property
    @abstractmethod
    def runs(self) -> int:
        """How many runs side by side make one fit: members, or chains."""

    @abstractmethod
    def set_up(self, model: BNNLV, sizes: np.ndarray, dtype: str) -> Setup:
        """The run for data sets of these sizes, fitted together."""

    @abstractmethod
    def finish(self, config: Any, states: Any, energies: np.ndarray, epochs: int) -> Result:
        """What one estimator keeps of its final states ``[runs, …]`` and energies ``[epochs done,
        runs]``; ``epochs`` were planned."""

    def problems(self, methods: Sequence[Any], data: Padded) -> Any:
        """What the algorithm calls problems: the data sets, with what differs among ``methods``."""
        del methods
        return data


class MinibatchMethod(Method):
    """A method that passes over the data in minibatches."""

    min_updates: ClassVar[int]
    epochs: int | None
    batch_size: int
    learning_rate: float
    learning_rate_decay: bool

    @abstractmethod
    def config(self, model: BNNLV, batch_size: int) -> Any:
        """What is compiled into the program."""

    @abstractmethod
    def build(self, config: Any) -> Algorithm:
        """The algorithm for ``base.run``."""

    def set_up(self, model: BNNLV, sizes: np.ndarray, dtype: str) -> Setup:
        """The run; the smallest data set decides its length where ``epochs`` does not."""
        # Slots that no data set can fill would only cost time.
        slots = min(self.batch_size, padded_size(int(sizes.max())))
        batches = -(-sizes // slots)
        epochs = int(self.epochs or max(MIN_EPOCHS, -(-self.min_updates // batches.min())))
        schedule = Schedule(
            jnp.int32(epochs),
            jnp.int32(batches.max()),
            jnp.asarray(self.learning_rate, dtype),
            jnp.asarray(self.learning_rate_decay, dtype),
        )
        config = self.config(model, int(slots))
        return Setup(config, self.build(config), schedule, epochs, batches, "epochs")

    def check_streamed(self, latents: int, itemsize: int, rows: int | None) -> None:
        """Refuse data that pass by in blocks where something is kept for each row."""


def option(default: Any, check: Check) -> Any:
    """A field of a method, with a check that returns the value as it is stored, or raises."""
    return field(default=default, metadata={"check": check})


def is_number(value: Any) -> bool:
    """A real number that a float can hold; True and False are none."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    try:
        float(value)
    except OverflowError:
        return False
    return True


def check_integer(name: str, value: Any, minimum: int) -> None:
    """An integer of at least ``minimum``, and no more than 32 bits hold."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < minimum:
        raise ValueError(f"{name} must be an integer of at least {minimum}, got {value!r}")
    if int(value) > LARGEST_INTEGER:
        raise ValueError(f"{name} must be an integer of at most {LARGEST_INTEGER}, got {value!r}")


def check_positive(name: str, value: Any) -> float:
    """A finite positive number."""
    if not is_number(value) or not 0 < value < np.inf:
        raise ValueError(f"{name} must be a positive number, got {value!r}")
    return float(value)


def check_flag(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def integer(minimum: int) -> Check:
    """An integer of at least ``minimum``."""

    def check(name: str, value: Any) -> int:
        check_integer(name, value, minimum)
        return int(value)

    return check


def optional(check: Check) -> Check:
    """None, or what ``check`` lets pass."""
    return lambda name, value: None if value is None else check(name, value)


def number(interval: str, hint: str = "") -> Check:
    """A number in an interval such as ``(0, 1]``."""
    low, high = (float(edge) for edge in interval[1:-1].split(","))

    def check(name: str, value: Any) -> float:
        inside = is_number(value) and low <= value <= high
        if not inside or (value == low and "(" in interval) or (value == high and ")" in interval):
            raise ValueError(f"{name} must lie in {interval}, got {value!r}{hint}")
        return float(value)

    return check


def mean_and_deviation(fixed: bool) -> Check:
    """A pair of numbers; a deviation of 0 passes where it may be ``fixed``."""

    def check(name: str, value: Any) -> tuple[float, float]:
        pair = isinstance(value, tuple | list) and len(value) == 2 and all(map(is_number, value))
        if not pair or not np.isfinite([float(one) for one in value]).all():
            raise ValueError(f"{name} must be a pair of numbers, mean and deviation, got {value!r}")
        if value[1] < 0 or (value[1] == 0 and not fixed):
            zero = ", or 0 to fix the noise" if fixed else ""
            raise ValueError(f"the deviation in {name} must be positive{zero}, got {value}")
        return float(value[0]), float(value[1])

    return check


def layers(name: str, value: Any) -> tuple[int, ...]:
    """The units of hidden layers."""
    if not isinstance(value, tuple | list):
        raise ValueError(
            f"{name} must be a list of the units of its hidden layers such as [20], or None, got "
            f"{value!r}"
        )
    for units in value:
        check_integer(f"every entry of {name}", units, 1)
    return tuple(int(units) for units in value)
