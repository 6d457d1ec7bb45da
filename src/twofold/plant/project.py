"""``find_policies``: from a log and a cost to policies, a risk frontier and a report, in a folder.

Everything is written as it is made: the model, its quality, the policies, what the model says of
each. A run that was stopped or killed goes on with what is missing when it is called again.
"""

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from sklearn.base import clone

from twofold.core import persistence
from twofold.estimators.regressor import BNNLVRegressor, load
from twofold.estimators.training import whole_fits
from twofold.plant import identity, summary, trial
from twofold.plant.cost import Cost, CostFunction, cost_of
from twofold.plant.dynamics import DynamicsModel
from twofold.plant.embed import embed
from twofold.plant.embedding import Embedding
from twofold.plant.identity import ProjectError
from twofold.plant.log import Log
from twofold.plant.policy import LearnedPolicy, load_policy
from twofold.plant.quality import assess, doubts_in, warn_of
from twofold.plant.search import SearchSettings, check_weights, search
from twofold.plant.trial import Trial, try_policy

MODEL, QUALITY, POLICIES = "model.safetensors", "quality.txt", "policies"
FIT_CHECKPOINT, SEARCH_CHECKPOINT = "fit.checkpoint", "search.checkpoint"
WEIGHTS = ((0.0, 0.0), (1.0, 0.0), (2.0, 0.0), (4.0, 0.0))


@dataclass(frozen=True, eq=False)
class Project:
    """Policies for a grid of risk weights, and what a model says of each of them.

    ``quality`` is the text of ``Quality``, ``logged_cost`` what a held-out step cost as it was run.
    """

    folder: Path
    quality: str
    policies: tuple[LearnedPolicy, ...]
    trials: tuple[Trial, ...]
    about: dict[str, Any]

    @property
    def doubts(self) -> list[str]:
        """Reasons not to plan with the model."""
        return doubts_in(self.quality)

    @property
    def logged_cost(self) -> float:
        """What a held-out step cost, under whatever ran the plant."""
        return self.about["logged_cost"]

    @property
    def recommended(self) -> LearnedPolicy:
        """The policy that ``twofold.plant.summary.recommended`` chooses."""
        return self.policies[summary.recommended(self.trials)]

    @property
    def regressor(self) -> BNNLVRegressor:
        """The fitted model."""
        return load(self.folder / MODEL)

    def policy(self, epistemic_weight: float, aleatoric_weight: float = 0.0) -> LearnedPolicy:
        """The policy that was found with these weights."""
        wanted = epistemic_weight, aleatoric_weight
        for policy, found in zip(self.policies, self.trials, strict=True):
            if found.weights == wanted:
                return policy
        known = ", ".join(f"({b:g}, {g:g})" for b, g in (one.weights for one in self.trials))
        raise ProjectError(f"there is no policy with the weights {wanted}; there are {known}")

    @property
    def files(self) -> list[str]:
        """The policies' files, within the folder."""
        return [f"{POLICIES}/{file_name(one.weights, 'policy')}" for one in self.trials]


def find_policies(
    log: Log,
    cost: CostFunction | Cost,
    folder: str | Path,
    *,
    embedding: Embedding | None = None,
    regressor: BNNLVRegressor | None = None,
    weights: Sequence[tuple[float, float]] = WEIGHTS,
    settings: SearchSettings = SearchSettings(),  # noqa: B008
    held_out: float = 0.2,
    random_state: int = 0,
    verbose: bool | str = "auto",
) -> Project:
    """A policy for each pair (β, γ) of ``weights``, from a log and a cost.

    Parameters
    ----------
    cost : function
        ``cost(row)`` of named columns, as for ``twofold.plant.cost.cost_of``.
    folder : path
        A new folder, or one in which the same search was begun: then that goes on.
    embedding : Embedding or None
        What the model sees and predicts (``embed(log)``: the last row only).
    regressor : BNNLVRegressor or None
        Settings of the model; by default a mean field with α = 1 (``planning_regressor``).
    held_out : float
        The part of the runs that the model is judged by, and that policies are forecast from.
    """
    folder = Path(folder)
    if not log.actions:
        raise ProjectError("the log has no actions, so that there is nothing to decide")
    identity.check_settings(settings, held_out, random_state)
    pairs = list(dict.fromkeys(_checked(weights)))
    cost = cost if isinstance(cost, Cost) else cost_of(cost, log)
    embedding = embed(log) if embedding is None else embedding
    own = clone(regressor or planning_regressor()).set_params(verbose=verbose)
    if own.random_state is None:
        own.set_params(random_state=random_state)
    train, test = log.split(held_out, seed=random_state)
    mine = identity.identity(
        log, cost, embedding, own, pairs, settings, held_out, random_state
    )  # fmt: skip
    identity.claim(folder, mine, identity.about(log, test, cost))
    model = DynamicsModel(_fitted(own, embedding, train, folder), embedding, cost, train)
    warn_of(doubts_in(_quality(model, test, settings.horizon, random_state, folder)))
    policies = _found(model, pairs, settings, own, random_state, folder)
    for pair, policy in _watched(list(zip(pairs, policies, strict=True)), verbose):
        path = folder / POLICIES / file_name(pair, "json")
        if not path.exists():
            trial.write(path, try_policy(model, policy, test, settings.horizon, random_state))
    return open_project(folder)


def open_project(folder: str | Path) -> Project:
    """Read a finished folder of ``find_policies``; nothing is fitted or searched."""
    folder = Path(folder)
    content = identity.read(folder)
    pairs = [(beta, gamma) for beta, gamma in content["identity"]["weights"]]
    wanted = [folder / QUALITY, folder / MODEL]
    for ending in ("policy", "json"):
        wanted += [folder / POLICIES / file_name(pair, ending) for pair in pairs]
    absent = [path.relative_to(folder) for path in wanted if not path.exists()]
    if absent:
        raise ProjectError(
            f"{folder} is not finished: {absent[0]} and {len(absent) - 1} more are missing; the "
            "search that began it goes on with what is missing when it is started again"
        )
    files = [folder / POLICIES / file_name(pair, "policy") for pair in pairs]
    return Project(
        folder,
        _read_quality(folder / QUALITY),
        tuple(load_policy(path) for path in files),
        tuple(trial.read(path.with_suffix(".json")) for path in files),
        content["about"],
    )


def _read_quality(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except ValueError as error:
        raise ProjectError(
            f"{path} is damaged ({error}); delete it and search again, which makes it anew"
        ) from error


def planning_regressor() -> BNNLVRegressor:
    """The paper's mean field with α = 1: wide where there are no data, which planning needs."""
    return BNNLVRegressor(inference="alpha", draws=20)


def file_name(pair: tuple[float, float], ending: str) -> str:
    """Of a policy, by its weights."""
    beta, gamma = pair
    return f"beta-{beta:.12g}_gamma-{gamma:.12g}.{ending}"


def _fitted(
    regressor: BNNLVRegressor, embedding: Embedding, train: Log, folder: Path
) -> BNNLVRegressor:
    path = folder / MODEL
    if path.exists():
        return load(path)
    regressor = clone(regressor).set_params(checkpoint=folder / FIT_CHECKPOINT)
    with _whole(folder):
        regressor.fit(*embedding.design(train))
    regressor.set_params(checkpoint=None).save(path)
    return regressor


def _quality(
    model: DynamicsModel, held_out: Log, horizon: int, random_state: int, folder: Path
) -> str:
    path = folder / QUALITY
    if not path.exists():
        found = assess(model, held_out, horizon, random_state=random_state)
        persistence.write_text(path, found.text() + "\n")
    return _read_quality(path)


def _found(
    model: DynamicsModel,
    pairs: Sequence[tuple[float, float]],
    settings: SearchSettings,
    regressor: BNNLVRegressor,
    random_state: int,
    folder: Path,
) -> list[LearnedPolicy]:
    """Policies from their files, or from a search that writes them."""
    paths = [folder / POLICIES / file_name(pair, "policy") for pair in pairs]
    if not all(path.exists() for path in paths):
        with _whole(folder):
            policies = search(
                model,
                pairs,
                settings=settings,
                seeds=(random_state,),
                random_state=random_state,
                checkpoint=folder / SEARCH_CHECKPOINT,
                checkpoint_seconds=regressor.checkpoint_seconds,
                verbose=regressor.verbose,
            )
        (folder / POLICIES).mkdir(exist_ok=True)
        for path, policy in zip(paths, policies, strict=True):
            if find_spec("onnx") is not None:
                policy.export_onnx(path.with_suffix(".onnx"))
            policy.save(path)
    return [load_policy(path) for path in paths]


def _whole(folder: Path) -> AbstractContextManager[None]:
    """A loop that Ctrl-C has ended early ends all, for what comes next needs it whole."""
    return whole_fits(f"{folder} keeps what there is, and the same call goes on from there")


def _checked(weights: Any) -> list[tuple[float, float]]:
    try:
        return check_weights(weights)
    except (TypeError, ValueError) as error:
        raise ProjectError(str(error)) from error


def _watched(members: Sequence[Any], verbose: bool | str) -> Any:
    """The members, with a bar for who is watching."""
    shown = sys.stderr.isatty() if verbose == "auto" else bool(verbose)
    return track(
        members, "trying policies on the model", console=Console(stderr=True), disable=not shown
    )
