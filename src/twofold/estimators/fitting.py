"""Fit many regressors in one compiled program: seeds, values of α and data sets in parallel."""

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.utils import check_random_state

from twofold.core import memory, persistence
from twofold.core.numerics import Padded, Standardizer, key_of, pad, padded_size
from twofold.estimators import validation
from twofold.estimators.members import Task, pick
from twofold.estimators.out_of_bag import compare_out_of_bag
from twofold.estimators.staged import fit_staged
from twofold.estimators.storage import About, judge, plain_settings, store, warn
from twofold.estimators.training import KEPT, Checkpoint, InterruptedFitWarning, Plan, train
from twofold.estimators.validation import FORMS, RowFacts, check_row_facts, check_training_data
from twofold.inference.ensemble import UPDATES, Network
from twofold.inference.langevin import STEPS, Langevin
from twofold.inference.loop import Setup
from twofold.inference.method import Method, check_integer, option_names, resolve_method, to_mapping
from twofold.model.spec import BNNLV
from twofold.tables.coding import rounding_steps

TRAINING_STREAM = 2
Regressor = Any  # a BNNLVRegressor, whose module imports this one
# Settings that affect training, besides the method.
TRAINING = ("hidden_layer_sizes", "latent_dim", "weight_variance", "latent_variance", "dtype")
SMALL_TABLE, LARGE_TABLE = 200, 3_000
FLOOR_OF_REPEATED = 2.0**-5
REPEATED, FEW_REPEATS = 0.05, 5
NO_FLOOR = 2.0**-30


class JointFit(NamedTuple):
    """Estimators that are fitted together, and the method, data and number of rows of each."""

    estimators: Sequence[Regressor]
    methods: Sequence[Method]
    abouts: Sequence[About]
    sizes: np.ndarray

    def make_keys(self) -> jax.Array:
        """One key for each run; the runs of one estimator differ."""
        runs = self.methods[0].runs
        keys = jnp.stack([key_of(about.seed, TRAINING_STREAM) for about in self.abouts])
        numbers = jnp.tile(jnp.arange(runs), len(keys))
        return keys if runs == 1 else jax.vmap(jax.random.fold_in)(jnp.repeat(keys, runs), numbers)

    def make_checkpoint(
        self, epochs: int, stage: str = "", starts: Sequence[Network] | None = None
    ) -> Checkpoint | None:
        first, method = self.estimators[0], self.methods[0]
        if first.checkpoint is None:
            return None
        settings = plain_settings(first, self.abouts[0].seed)
        identity = {name: settings[name] for name in TRAINING} | to_mapping(method)
        identity |= {name: settings[name] for name in FORMS if name in settings}
        identity |= {name: [getattr(m, name) for m in self.methods] for name in method.differing}
        identity["epochs"] = int(epochs)
        identity["seed"] = [about.seed for about in self.abouts]
        identity["data"] = [about.fingerprint for about in self.abouts]
        if starts is not None:
            identity["start"] = [persistence.fingerprint(*map(np.asarray, one)) for one in starts]
        path = first.checkpoint
        if stage:
            identity["stage"] = stage
            path = f"{path}.{re.sub('[^a-z0-9]+', '-', stage)}"
        return Checkpoint(path, first.checkpoint_seconds, identity)

    def find_earlier(self, model: BNNLV) -> list[Network] | None:
        """Final states of earlier fits, if all can go on with the same number of latent inputs."""
        earlier = [_earlier_fit(one, self.methods[0], model) for one in self.estimators]
        starts = [start for start in earlier if start is not None]
        same = len(starts) == len(earlier) and len({e.model_.latents for e in self.estimators}) == 1
        return starts if same else None


def fit_many(
    estimators: Sequence[Regressor],
    X: Any,
    y: Any,
    *,
    sample_weight: Sequence[Any] | None = None,
    y_error: Sequence[Any] | None = None,
    groups: Sequence[Any] | None = None,
    capacity: int | None = None,
) -> list[Regressor]:
    """Fit all estimators at once, each to its own data, in one compiled program.

    ``X`` and ``y`` are lists with one entry per estimator; so are ``sample_weight``, ``y_error``
    and ``groups`` (see ``BNNLVRegressor.fit``), whose entries may be None. The estimators may
    differ in ``alpha`` and ``random_state`` only; the data sets need the same columns, but not the
    same number of rows. Without ``epochs`` the smallest data set determines the length of the run;
    all chains are extended while those of any data set improve. With ``capacity``, the number of
    rows that the data will grow to, later fits reuse the program compiled by this one. Returns the
    same estimators.
    """
    named = {"sample_weight": sample_weight, "y_error": y_error, "groups": groups}
    given = {n: [None] * len(estimators) if v is None else v for n, v in named.items()}
    _check_members(estimators, X, y, given)
    members = zip(estimators, X, y, *given.values(), strict=True)
    xs, ys, facts, abouts = zip(*(_prepare(*one) for one in members), strict=True)
    shapes = {(x.shape[1], y.shape[1]) for x, y in zip(xs, ys, strict=True)}
    if len(shapes) > 1:
        raise ValueError(
            "data sets fitted together need the same numbers of input and output columns, got "
            f"{sorted(shapes)}; fit them one by one"
        )
    sizes, dtype = np.array([len(x) for x in xs]), estimators[0].dtype
    if capacity is not None:
        check_integer("capacity", capacity, int(sizes.max()))
    rows = capacity or int(sizes.max())
    methods = [resolve_method(estimator.inference) for estimator in estimators]
    check_memory(methods[0], abouts[0].model, rows, dtype, len(methods))
    weights = _fill([fact.weight for fact in facts], [np.ones(len(y)) for y in ys])
    errors = _fill([fact.error for fact in facts], [np.zeros_like(y) for y in ys])
    with jax.enable_x64(dtype == "float64"):
        room, rows_of_all = padded_size(rows), zip(xs, ys, weights, errors, strict=True)
        padded = [pad(x, y, room, dtype, weight, error) for x, y, weight, error in rows_of_all]
        data = jax.tree.map(lambda *leaves: np.stack(leaves), *padded)
        joint = JointFit(estimators, methods, abouts, sizes)
        if methods[0].staged:
            _fit_in_stages(joint, data, [fact.groups for fact in facts])
        else:
            fit_prepared(joint, methods[0].problems(methods, data), lambda: padded)
    return list(estimators)


def fit_prepared(
    joint: JointFit, problems: Any, read: Callable[[], Sequence[Padded]], unit: str | None = None
) -> None:
    """Train all members on their ``problems``, which may be a function of the epoch, and store the
    results; ``read`` returns the data of a member, or some of them, for diagnostics."""
    estimators, (method, *_), abouts, sizes = joint
    first, runs = estimators[0], method.runs
    setup = method.set_up(abouts[0].model, sizes, first.dtype)
    checkpoint, batches = joint.make_checkpoint(setup.epochs), np.repeat(setup.batches, runs)
    plan = Plan(setup.epochs, batches, unit or setup.unit, first.verbose, checkpoint)
    outcome = train(setup.algorithm, joint.make_keys(), problems, setup.schedule, plan, runs)
    # Slice on the host: thousands of small slices on a device take longer than the fits.
    all_states = jax.device_get(outcome.states)
    for i, (estimator, about, data) in enumerate(zip(estimators, abouts, read(), strict=True)):
        member = slice(i * runs, (i + 1) * runs)
        states = jax.tree.map(lambda leaf, member=member: jnp.asarray(leaf[member]), all_states)
        energies = outcome.energies[:, member]
        result = method.finish(setup.config, states, energies, setup.epochs)
        fitted = judge(about.model, result, data) | {"energies": energies.mean(axis=1)}
        store(estimator, about._asdict() | fitted)
    warn(estimators)


def _fit_in_stages(joint: JointFit, data: Padded, groups: Sequence[np.ndarray | None]) -> None:
    """Fit with a method that selects the model and the length of the run on held-out rows."""
    estimators, (method, *_), abouts, sizes = joint
    first = estimators[0]

    def train_stage(name: str, title: str, model: BNNLV, setup: Setup, keys: Any, problems: Any):
        stage = f"{name}, latent_dim={model.latents}"
        checkpoint = joint.make_checkpoint(setup.epochs, stage, starts)
        batches, updates = np.ones(len(keys), int), UPDATES if name == "members" else STEPS
        steps = setup.epochs, batches, setup.unit
        plan = Plan(*steps, first.verbose, checkpoint, title, updates=updates)
        outcome = train(setup.algorithm, keys, problems, setup.schedule, plan)
        if outcome.stopped and outcome.epoch == setup.epochs:
            sentence = f"stopped by Ctrl-C between two stages; {KEPT}"
            warnings.warn(sentence, InterruptedFitWarning, stacklevel=6)
        return outcome

    floors = [about.model.noise_floor for about in abouts]
    floor = tuple(map(min, zip(*floors, strict=True))) if all(floors) else ()
    # The smallest data set decides, as for the length of a run.
    model = replace(abouts[int(np.argmin(sizes))].model, noise_floor=floor)
    models = [model]
    if first.latent_dim == "auto":
        models = [replace(model, latents=0, latent_levels=0), model]
    starts = joint.find_earlier(model)
    if starts is not None:
        models = [replace(first.model_, noise_floor=floor)]
    task = Task(method, data, joint.make_keys(), train_stage)
    fits = fit_staged(task, models, [about.seed for about in abouts], starts, groups)
    for i, (estimator, about, staged) in enumerate(zip(estimators, abouts, fits, strict=True)):
        data_set = pick(data, i)
        score = staged.result.out_of_bag
        shift = float(np.log(about.y_standardizer.scale).sum())
        score = score._replace(score=score.score - shift) if score.rows else None
        fitted = judge(staged.model, staged.result._replace(out_of_bag=score), data_set)
        comparison = compare_out_of_bag(staged.model, staged.held_out, data_set, groups[i])
        fitted |= {"energies": staged.energies, "comparison": comparison, "model": staged.model}
        store(estimator, about._asdict() | fitted)
    warn(estimators)


def _earlier_fit(estimator: Regressor, method: Method, model: BNNLV) -> Network | None:
    """The final state of each chain of an earlier fit, if a new fit may continue it: with
    ``warm_start``, chains that were kept, and a network of the same shape (except for what a fit
    selects)."""
    fitted = hasattr(estimator, "posterior_") and estimator.diagnostics_ is not None
    if not (estimator.warm_start and fitted and isinstance(method, Langevin)):
        return None
    before, draws = estimator.model_, estimator.posterior_
    chosen: Any = {"latents": 0, "latent_levels": 0, "noise_floor": ()}
    same = replace(before, **chosen) == replace(model, **chosen)
    same &= estimator.latent_dim == "auto" or before.latents == model.latents
    same &= before.latent_levels in (0, model.latent_levels)
    if not same or len(draws.weights) % method.runs:
        return None
    return Network(*(leaf.reshape(method.runs, -1, leaf.shape[-1])[:, -1] for leaf in draws))


def check_memory(method: Method, model: BNNLV, rows: int, dtype: str, fits: int = 1) -> None:
    """Refuse a fit whose largest arrays exceed the memory, before allocating them."""
    options = {name: getattr(method, name) for name in option_names(method)}
    room = padded_size(rows)
    numbers = room * (model.inputs + model.outputs) + model.num_weights
    numbers += min(options.get("batch_size", room), room) * (options["nodes"] or 0)
    epochs = options.get("epochs") or -(-(options.get("updates") or 0) // UPDATES)
    traces = 2 * 8 * epochs
    memory.refuse_beyond(
        float(fits * method.runs * (np.dtype(dtype).itemsize * numbers + traces)),
        f"a fit of {rows:,} rows",
        f"lower options of {type(method).__name__} ({', '.join(options)}) or hidden_layer_sizes, "
        "or use fewer rows",
        surely=1.0,
    )


def _fill(given: Sequence[Any], otherwise: Sequence[np.ndarray]) -> Sequence[Any]:
    """Replace missing arrays by defaults, unless all are missing."""
    if all(array is None for array in given):
        return given
    return [default if one is None else one for one, default in zip(given, otherwise, strict=True)]


def _check_members(
    estimators: Sequence[Regressor], X: Any, y: Any, given: Mapping[str, Sequence[Any]]
) -> None:
    if not estimators or not len(estimators) == len(X) == len(y):
        raise ValueError(
            "estimators, X and y must be lists of the same positive length, got "
            f"{len(estimators)}, {len(X)} and {len(y)}"
        )
    for name, values in given.items():
        if len(values) != len(estimators):
            raise ValueError(
                f"{name} needs an entry for each of {len(estimators)} estimators, got {len(values)}"
            )
    if len({id(estimator) for estimator in estimators}) < len(estimators):
        raise ValueError("estimators must be different objects; use sklearn.base.clone")
    settings = []
    for estimator in estimators:
        validation.check_settings(estimator)
        options = estimator.get_params(deep=False) | {"inference": None}
        settings.append(options | to_mapping(estimator.inference))
    free = {"random_state", *resolve_method(estimators[0].inference).differing}
    for options in settings[1:]:
        names = [name for name in {**settings[0], **options} if name not in free]
        differing = [name for name in names if options.get(name) != settings[0].get(name)]
        if differing:
            raise ValueError(
                f"estimators fitted together may differ in {' and '.join(sorted(free))} only, but "
                f"these differ in {', '.join(differing)}; fit them one by one"
            )


def _prepare(
    estimator: Regressor, X: Any, y: Any, sample_weight: Any, y_error: Any, groups: Any
) -> tuple[np.ndarray, np.ndarray, RowFacts, About]:
    """Validate and standardise, without changing fitted attributes that predictions use.

    Rows of weight 0 are left out; weights that are all 1 are None. Errors become variances.
    """
    x, targets = check_training_data(estimator, X, y)
    facts = check_row_facts(estimator, targets, sample_weight, y_error, groups)
    if facts.weight is not None:
        counted = facts.weight > 0
        x, targets, facts = x[counted], targets[counted], facts.take(counted)
        facts = facts._replace(weight=None if np.all(facts.weight == 1) else facts.weight)
    columns = targets.reshape(len(targets), -1)
    names = getattr(estimator, "feature_names_in_", [f"column {i} of X" for i in range(x.shape[1])])
    validation.warn_of_outliers(names, x)
    validation.warn_of_outliers([f"column {i} of y" for i in range(columns.shape[1])], columns)
    of_x, of_y = Standardizer.fit(x), Standardizer.fit(columns)
    fingerprint = persistence.fingerprint(x, columns, *(p for p in facts if p is not None))
    if facts.error is not None:
        facts = facts._replace(error=np.square(facts.error / of_y.scale))
    about = describe_data(estimator, of_x, of_y, targets.ndim, fingerprint, len(x))
    y = of_y.transform(columns)
    if about.model.varying_noise:
        about = about._replace(model=replace(about.model, noise_floor=noise_floor(y)))
    return of_x.transform(x), y, facts, about


def noise_floor(y: np.ndarray) -> tuple[float, ...]:
    """Standard deviation of the rounding error of each column of y, rounded to a power of two:
    1/√12 of the grid step. A column that is not rounded but often repeats one value (such as a
    saturation limit), where the density would be infinite, gets FLOOR_OF_REPEATED. Empty if neither
    occurs.
    """
    steps = rounding_steps(y)
    powers = 2.0 ** np.round(np.log2(steps / 12**0.5))
    counts = [np.unique(column, return_counts=True)[1] for column in y.T]
    repeats = [len(n) > 1 and n.max() >= max(FEW_REPEATS, REPEATED * len(y)) for n in counts]
    others = np.where(repeats, FLOOR_OF_REPEATED, NO_FLOOR)
    floors = np.where(np.isfinite(steps), powers, others)
    return tuple(floors.tolist()) if floors.max() > NO_FLOOR else ()


def hidden_sizes(sizes: Any, varying: bool, rows: int, inputs: int) -> tuple[int, ...]:
    """Resolve the hidden layers: "auto" is the paper's, or depends on the size of the table."""
    if isinstance(sizes, str):
        if not varying or (rows >= SMALL_TABLE and rows * inputs < LARGE_TABLE):
            return (20, 20)
        return (20,) if rows < SMALL_TABLE else (50, 50)
    return tuple(int(units) for units in sizes)


def describe_data(
    estimator: Regressor, x: Standardizer, y: Standardizer, y_ndim: int, fingerprint: str, rows: int
) -> About:
    """Model and seed of an estimator, from summaries of its data."""
    validation.refuse_huge("X", x.scale)
    validation.refuse_huge("y", y.scale)
    method: Any = resolve_method(estimator.inference)
    inputs, varying = len(x.mean), method.form == "varying"
    chosen = {name: getattr(estimator, name) for name in FORMS}
    # Which settings go beyond the paper.
    beyond = {n: varying if v == "auto" else v == FORMS[n][1] for n, v in chosen.items()}
    latents = 1 if estimator.latent_dim == "auto" else int(estimator.latent_dim)
    levels = method.nodes if method.staged and latents == 1 else 0
    model = BNNLV(
        inputs=inputs,
        outputs=len(y.mean),
        hidden=hidden_sizes(estimator.hidden_layer_sizes, varying, rows, inputs),
        latents=latents,
        latent_levels=levels,
        weight_variance=float(estimator.weight_variance),
        latent_variance=float(estimator.latent_variance or inputs),
        varying_noise=beyond["noise"],
        scaled_prior=beyond["prior"],
        linear_skip=beyond["prior"],
        activation=FORMS["activation"][beyond["activation"]],
    )
    seed = check_random_state(estimator.random_state).randint(np.iinfo(np.int32).max)
    return About(x, y, y_ndim, int(seed), fingerprint, model)
