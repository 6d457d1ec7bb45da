"""``embed``: an embedding for a log, with what was not said filled in and what was said checked."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from twofold.plant.embedding import Embedding, Known
from twofold.plant.errors import LogError, LogWarning, check_known
from twofold.plant.log import Log
from twofold.plant.transforms import Transform, fitted
from twofold.plant.windows import steps

# A known part that is off by more than this part of its column's range is not known.
ROUNDING = 1e-3


def embed(
    log: Log,
    *,
    history: int = 1,
    window: Sequence[str] | Mapping[str, int] | None = None,
    action_history: int | Mapping[str, int] | None = None,
    targets: Sequence[str] | None = None,
    held: Sequence[str] = (),
    deltas: bool | Sequence[str] = True,
    transforms: Mapping[str, str | Transform] | None = None,
    known: Known | None = None,
) -> Embedding:
    """An embedding for a log.

    Parameters
    ----------
    history : int
        How many of the last observations and actions the model sees; more than one where there are
        delays or things that no sensor sees.
    window : names, or a mapping from names to a number of values
        Observations that the model sees (all of them), and how many values of each (``history``).
    action_history : int, or a mapping from names to one
        How many of the last actions it sees, the one about to be applied among them (``history``);
        0 for actions that act through known columns only.
    targets : names
        Observations that are predicted: by default all that are neither held nor known. A target
        that is known as well is predicted as its difference to what is known.
    held : names
        Observations that keep their value during a roll-out, such as set-points.
    deltas : bool or names
        Whether the change of a target is predicted (True) or its value.
    transforms : mapping from names to "log1p", "logit" or "log1p_logit"
        How the model sees a column, with bounds from this log: see ``transforms``.
    known : function
        ``known(observation, action) -> {name: value one step later}``, both mappings from names,
        written with ``jax.numpy``: parts of the dynamics that need not be learnt.
    """
    names = log.observations
    known_names = _known_names(log, known)
    held = _names("held", held, names)
    chosen = _targets(names, targets, held, known_names)
    _check_count("history", history, 1)
    embedding = Embedding(
        observations=names,
        actions=log.actions,
        lags=_lags("window", names, window, history),
        action_lags=_lags("action_history", log.actions, action_history, history),
        targets=chosen,
        deltas=_names("deltas", chosen if deltas is True else deltas or (), names),
        transforms=_transforms(log, transforms or {}),
        known=known,
        computed=tuple(name for name in known_names if name not in chosen),
        residual=tuple(name for name in known_names if name in chosen),
    )
    if not embedding.input_names:
        raise LogError("the model would see nothing: give it a window or an action_history")
    if not len(embedding.layout.features):
        raise LogError("a policy would see nothing: give at least one observation a window")
    _check_computed(log, embedding)
    return embedding


def _names(what: str, names: Any, known: Sequence[str]) -> tuple[str, ...]:
    names = (names,) if isinstance(names, str) else tuple(names)
    check_known(what, names, known)
    return names


def _check_count(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise LogError(f"{name} must be a whole number of at least {least}, got {value!r}")


def _lags(what: str, names: Sequence[str], given: Any, history: int) -> tuple[int, ...]:
    """For each name the number of values that are seen; ``given`` is a number, names, or both."""
    if given is None:
        given = history
    if isinstance(given, int | np.integer):
        given = dict.fromkeys(names, given)
    elif not isinstance(given, Mapping):
        given = dict.fromkeys(_names(what, given, names), history)
    check_known(what, given, names)
    for name, lags in given.items():
        _check_count(f"{what}[{name!r}]", lags, 0)
    return tuple(int(given.get(name, 0)) for name in names)


def _targets(
    names: Sequence[str], targets: Any, held: tuple[str, ...], known: tuple[str, ...]
) -> tuple[str, ...]:
    """Targets as given, or all that nothing else takes care of."""
    if targets is None:
        targets = [name for name in names if name not in held and name not in known]
    targets = _names("target", targets, names)
    both = [name for name in held if name in targets or name in known]
    if both:
        raise LogError(f"{both[0]!r} is held and cannot be predicted or known as well")
    left = [name for name in names if name not in {*targets, *held, *known}]
    if left:
        raise LogError(
            f"{left[0]!r} is neither a target, nor known, nor held, so that nothing says how it "
            f"goes on in a roll-out; predict it, or keep its last value with held=[{left[0]!r}]"
        )
    if not targets:
        raise LogError("there is nothing to predict: name at least one target")
    return targets


def _transforms(log: Log, given: Mapping[str, Any]) -> tuple[Transform, ...]:
    check_known("transform of", given, log.observations)
    return tuple(
        fitted(name, given.get(name, "identity"), log.column(name)) for name in log.observations
    )


def _known_names(log: Log, known: Known | None) -> tuple[str, ...]:
    """The columns that a known part gives, after a try under ``jit``."""
    if known is None:
        return ()
    now = dict(zip(log.observations, jnp.asarray(log.episodes[0].observations[0]), strict=True))
    action = dict(zip(log.actions, jnp.asarray(log.episodes[0].actions[0]), strict=True))
    try:
        found = jax.jit(lambda now, action: dict(known(now, action)))(now, action)
    except KeyError as error:
        raise LogError(
            f"known(observation, action) asks for {error}, but observations are "
            f"{', '.join(now)} and actions {', '.join(action) or 'none'}"
        ) from error
    except Exception as error:
        raise LogError(
            "known(observation, action) must give a mapping from names to values and be written "
            f"with jax.numpy, without if or float() of values; it failed with {_first_line(error)}"
        ) from error
    check_known("known gives", found, log.observations)
    for name, value in found.items():
        if jnp.shape(value) != ():
            raise LogError(f"known: {name!r} must be one number, got the shape {jnp.shape(value)}")
    return tuple(name for name in log.observations if name in found)


def _check_computed(log: Log, embedding: Embedding) -> None:
    """Warn if what is said to be known is not what the log says."""
    if not embedding.computed:
        return
    found = steps(log, 1)
    with jax.enable_x64(True):
        said = jax.jit(jax.vmap(embedding._known))(found.windows.observations[:, -1], found.actions)
    for name in embedding.computed:
        true = found.next_observations[:, log.observations.index(name)]
        off = np.abs(np.asarray(said[name]) - true)
        if not off.max() <= ROUNDING * (np.ptp(true) or 1.0):
            warnings.warn(
                f"known gives {name!r} up to {off.max():.3g} from the log ({off.mean():.3g} on "
                f"average, where its range is {np.ptp(true):.3g}); correct it, or add {name!r} to "
                "the targets so that the difference is learnt",
                LogWarning,
                stacklevel=3,
            )


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
