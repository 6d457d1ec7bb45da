"""The interface of inference methods: a frozen dataclass of validated options that sets up a run
and defines its result; the registry of methods; and the accepted forms of ``inference=``."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields, replace
from functools import partial
from importlib import import_module
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from twofold.core.naming import nearest
from twofold.core.persistence import to_plain

if TYPE_CHECKING:  # Imported late: names and options of methods do not need JAX.
    from twofold.core.numerics import Padded
    from twofold.inference.loop import Result, Setup
    from twofold.model.spec import BNNLV

MIN_EPOCHS = 100
# JAX uses 32-bit integers.
LARGEST_INTEGER = 2**31 - 1
Check = Callable[[str, Any], Any]
# One entry per method; its module is imported when the method is used.
METHODS = {
    "langevin": ("twofold.inference.langevin", "Langevin"),
    "ensemble": ("twofold.inference.ensemble", "Ensemble"),
    "alpha": ("twofold.inference.alpha", "Alpha"),
    "nuts": ("twofold.inference.hmc", "NUTS"),
    "hmc": ("twofold.inference.hmc", "HMC"),
}
NAMES = ", ".join(map(repr, METHODS))
DEFAULT = "langevin"


def option(default: Any, check: Check) -> Any:
    """A field of a method, with a check that returns the value to store, or raises."""
    return field(default=default, metadata={"check": check})


def is_number(value: Any) -> bool:
    """Whether a value is a finite real number; True and False are not."""
    real = isinstance(value, Real) and not isinstance(value, bool)
    return real and bool(abs(value) <= sys.float_info.max)


def check_integer(name: str, value: Any, minimum: int) -> int:
    """An integer of at least ``minimum`` that fits into 32 bits."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < minimum:
        raise ValueError(f"{name} must be an integer of at least {minimum}, got {value!r}")
    if int(value) > LARGEST_INTEGER:
        raise ValueError(f"{name} must be an integer of at most {LARGEST_INTEGER}, got {value!r}")
    return int(value)


def check_positive(name: str, value: Any) -> float:
    if not is_number(value) or value <= 0:
        raise ValueError(f"{name} must be a positive number, got {value!r}")
    return float(value)


def check_flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def integer(minimum: int) -> Check:
    """An integer of at least ``minimum``."""
    return partial(check_integer, minimum=minimum)


def optional(check: Check) -> Check:
    """None, or a value that passes ``check``."""
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


def mean_and_deviation(name: str, value: Any) -> tuple[float, float]:
    """A pair of numbers, mean and deviation; a deviation of 0 fixes the quantity."""
    pair = isinstance(value, tuple | list) and len(value) == 2 and all(map(is_number, value))
    if not pair:
        raise ValueError(f"{name} must be a pair of numbers, mean and deviation, got {value!r}")
    if value[1] < 0:
        raise ValueError(
            f"the deviation in {name} must be positive, or 0 to fix the noise, got {value}"
        )
    return float(value[0]), float(value[1])


def check_layers(name: str, value: Any, otherwise: str = "") -> tuple[int, ...]:
    """Sizes of hidden layers; ``otherwise`` tells what else the caller accepts."""
    if not isinstance(value, Sequence | np.ndarray) or isinstance(value, str | bytes):
        raise ValueError(
            f"{name} must be a list of layer sizes such as [20, 20]{otherwise}, got {value!r}"
        )
    return tuple(check_integer(f"every entry of {name}", units, 1) for units in value)


class Method(ABC):
    """Base class of the methods; each is a frozen dataclass whose fields are ``option``s."""

    name: ClassVar[str]
    # Default noise of the model: "constant" (as in the paper) or "varying".
    form: ClassVar[str] = "constant"
    # Whether the method selects the model and the length of its run on held-out rows.
    staged: ClassVar[bool] = False
    # Options that may differ between estimators fitted together.
    differing: ClassVar[tuple[str, ...]] = ()
    # The checks of the options give better messages than a type checker.
    __no_type_check__: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for one in fields(self):  # type: ignore[arg-type]
            value = one.metadata["check"](one.name, getattr(self, one.name))
            object.__setattr__(self, one.name, value)

    @property
    def runs(self) -> int:
        """Number of parallel runs in one fit: chains, members, or 1."""
        return getattr(self, "chains", getattr(self, "members", 1))

    @abstractmethod
    def set_up(self, model: "BNNLV", sizes: np.ndarray, dtype: str) -> "Setup":
        """Set up the run, or its first stage, for data sets of these sizes, fitted together."""

    def finish(self, config: Any, states: Any, energies: np.ndarray, epochs: int) -> "Result":
        """The result of one estimator from its final states ``[runs, …]`` and energies ``[epochs
        done, runs]``, of ``epochs`` planned. Not used by methods fitted in stages."""
        raise NotImplementedError

    def problems(self, methods: Sequence[Any], data: "Padded") -> Any:
        """The problems of the algorithm: the data sets, with the options that differ among
        ``methods``."""
        return data


def method_class(name: Any) -> type[Method]:
    if not isinstance(name, str) or name not in METHODS:
        raise ValueError(f"inference must be one of {NAMES}, got {name!r}{nearest(name, METHODS)}")
    module, attribute = METHODS[name]
    return getattr(import_module(module), attribute)


def option_names(method: type[Method] | Method) -> list[str]:
    return [one.name for one in fields(method)]  # type: ignore[arg-type]


def resolve_method(inference: Any) -> Method:
    """Resolve ``inference=``: a method object, a name, or a mapping such as
    ``{"method": "alpha", "alpha": 0.5}`` from JSON or TOML."""
    if isinstance(inference, str):
        return method_class(inference)()
    if isinstance(inference, Mapping):
        if "method" not in inference:
            raise ValueError(
                f"inference as a mapping needs the key 'method' (one of {NAMES}), got {inference!r}"
            )
        options = {name: value for name, value in inference.items() if name != "method"}
        return replace_options(method_class(inference["method"])(), options)
    if getattr(inference, "name", None) in METHODS and not isinstance(inference, type):
        return inference
    raise ValueError(
        f"inference must be a name ({NAMES}), a method such as Alpha(alpha=0.5), or a mapping such "
        f"as {{'method': 'alpha', 'alpha': 0.5}}, got {inference!r}"
    )


def replace_options(method: Method, options: Mapping[Any, Any]) -> Method:
    """A copy of the method with some options changed."""
    known = option_names(method)
    for name in options:
        if name not in known:
            raise ValueError(
                f"{type(method).__name__} has no option {name!r}{nearest(name, known)}; its "
                f"options are {', '.join(known)}"
            )
    return replace(method, **options)  # type: ignore[type-var]


def to_mapping(inference: Any) -> dict[str, Any]:
    """A method as the mapping of all its options, in JSON values."""
    method = resolve_method(inference)
    options = {name: getattr(method, name) for name in option_names(method)}
    return {"method": method.name, **to_plain(options)}


def nest_options(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a regressor, with options of its method beside them moved into ``inference``."""
    known = {name for method in METHODS for name in option_names(method_class(method))}
    of_method = {name: value for name, value in settings.items() if name in known}
    rest = {name: value for name, value in settings.items() if name not in of_method}
    if not of_method:
        return rest
    inference = rest.get("inference", DEFAULT)
    if isinstance(inference, str):
        inference = {"method": inference}
    elif not isinstance(inference, Mapping):
        inference = to_mapping(inference)
    return rest | {"inference": {**inference, **of_method}}
