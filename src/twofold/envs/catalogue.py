"""The systems that come with the library, by name."""

from collections.abc import Callable

from twofold.envs.industrial import dynamics as industrial
from twofold.envs.industrial.task import HISTORY, industrial_benchmark
from twofold.envs.system import System
from twofold.envs.wet_chicken import Params as River
from twofold.envs.wet_chicken import wet_chicken
from twofold.envs.wind import task as wind

SYSTEMS: dict[str, Callable[..., System]] = {
    "wet_chicken": lambda **params: wet_chicken(River(**params)),
    "industrial_benchmark": lambda history=HISTORY, **params: industrial_benchmark(
        industrial.Params(**params), history
    ),
    "wind_turbine": lambda **params: wind.wind_turbine(wind.Params(**params)),
}


def make(name: str, **params: object) -> System:
    """A system, with parameters of its own where given."""
    if name not in SYSTEMS:
        raise ValueError(f"there is no system {name!r}; those there are: {', '.join(SYSTEMS)}")
    try:
        return SYSTEMS[name](**params)
    except TypeError as error:
        raise ValueError(f"{name} does not take these parameters: {error}") from error
