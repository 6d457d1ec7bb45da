"""The systems that come with the library, by name."""

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, get_args, get_origin, get_type_hints

from twofold.envs.industrial.task import industrial_benchmark
from twofold.envs.system import System
from twofold.envs.wet_chicken import wet_chicken
from twofold.envs.wind.task import wind_turbine

# Each takes its ``Params`` and arguments of its own.
SYSTEMS: dict[str, Callable[..., System]] = {
    "wet_chicken": wet_chicken,
    "industrial_benchmark": industrial_benchmark,
    "wind_turbine": wind_turbine,
}

WORDS: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    tuple[float, float]: "a pair of numbers",
}


def make(name: str, /, **params: Any) -> System:
    """A system by name, with optional parameters."""
    if name not in SYSTEMS:
        raise ValueError(f"there is no system {name!r}; valid names: {', '.join(SYSTEMS)}")
    beside = get_type_hints(SYSTEMS[name])
    of_params = beside.pop("params")
    del beside["return"]
    kinds = get_type_hints(of_params) | beside
    if unknown := ", ".join(param for param in params if param not in kinds):
        raise ValueError(
            f"{name} does not take these parameters: {unknown}; it takes {', '.join(kinds)}"
        )
    for param, value in params.items():
        if not _has_type(value, kind := kinds[param]):
            word = WORDS.get(kind) or f"a {kind.__name__}, which can only be given in Python"
            raise ValueError(f"{param} of {name} must be {word}, got {value!r}")
    given = {param: tuple(v) if isinstance(v, list) else v for param, v in params.items()}
    further = {param: given.pop(param) for param in beside if param in given}
    return SYSTEMS[name](of_params(**given), **further)


def _has_type(value: Any, kind: Any) -> bool:
    """Whether a value has a type; an int is a valid float, and a bool is neither."""
    if kind in (int, float):
        return isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)
    if get_origin(kind) is tuple:
        parts = get_args(kind)
        as_many = isinstance(value, list | tuple) and len(value) == len(parts)
        return as_many and all(map(_has_type, value, parts))
    return isinstance(value, kind)
