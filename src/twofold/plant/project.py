"""``find_policies``: from a log and a cost to policies with their risks, in a folder.

Each result is written as soon as it is available: the model, its quality, the policies and their
forecasts. The same call resumes a run that was stopped or killed.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from sklearn.base import clone

from twofold.core import persistence
from twofold.core.persistence import FileFormatError, OtherRunError
from twofold.estimators.regressor import BNNLVRegressor, load
from twofold.estimators.storage import PAPER_SHAPE, plain_settings
from twofold.estimators.training import Checkpoint, whole_fits
from twofold.inference.alpha import Alpha
from twofold.plant.cost import Cost, CostFunction, check_gradient, cost_of
from twofold.plant.descent import check_draws
from twofold.plant.embedding import Embedding, embed
from twofold.plant.forecast import Trial, evaluate_policy
from twofold.plant.log import Log, check_length
from twofold.plant.moves import logged_rates, rates_of
from twofold.plant.policy import LearnedPolicy, load_policy
from twofold.plant.quality import Doubt, Quality, assess, warn_about
from twofold.plant.recommendation import advice, finer_weights, recommend
from twofold.plant.rollout import MODEL, DynamicsModel, fit_regressors
from twofold.plant.search import (
    Pair,
    SearchSettings,
    check_risk_weights,
    file_name,
    search_policies,
)
from twofold.plant.second_opinion import linear_model
from twofold.plant.tuned import Tuning, choose_tuning, split_draws, tune_all
from twofold.plant.tuning import TuningSettings

CLAIM, QUALITY, POLICIES = "project.json", "quality.json", "policies"
FINER = "finer"  # folder of the search between values of β
TUNING, TUNED, TUNING_CHECKPOINT = "tuning.json", "tuned.safetensors", "tuning.checkpoint"
LONG_LOG = 8_000
RISK_WEIGHTS = tuple((beta, 0.0) for beta in (0.0, 1.0, 2.0, 4.0, 8.0, 30.0))
# Settings of a regressor that do not affect the fitted model.
WITHOUT_EFFECT = ("checkpoint", "checkpoint_seconds", "verbose")
RECREATE = "delete it and run the same search again to recreate it"


class ProjectError(ValueError):
    """A folder, setting or log that cannot be used for a policy search."""


@dataclass(frozen=True, eq=False)
class Project:
    """Policies for a grid of risk weights, with their forecasts on a model.

    ``tuning`` is the result of tuning on roll-outs, if enabled. ``about`` has facts about the log:
    ``transitions``, ``episodes``, ``held_out_transitions`` and their mean ``logged_cost``.
    """

    folder: Path
    quality: Quality
    policies: tuple[LearnedPolicy, ...]
    trials: tuple[Trial, ...]
    about: dict[str, Any]
    tuning: Tuning | None = None

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """Reasons not to plan with the model."""
        return self.quality.doubts

    @property
    def logged_cost(self) -> float:
        """Mean logged cost per step of the held-out passages from which policies are forecast."""
        found = self.quality.multi_step.logged_cost
        return found if np.isfinite(found) else self.about["logged_cost"]

    @property
    def recommended(self) -> LearnedPolicy | None:
        """The recommended policy (``recommendation.recommend``), or None to keep the controller."""
        number = recommend(self.trials, *self._known)
        return None if number is None else self.policies[number]

    @property
    def advice(self) -> list[str]:
        """The recommendation, reasons and caveats, in sentences; the first is the headline."""
        return advice(self.doubts, self.trials, *self._known)

    @property
    def _known(self) -> tuple[float, float, bool]:
        """What recommendations depend on beside the trials."""
        margin = self.quality.multi_step.replay_margin
        return self.logged_cost, margin, self.quality.far_below_linear

    @property
    def regressor(self) -> BNNLVRegressor:
        """The fitted model, tuned if tuning was kept."""
        tuned = self.folder / TUNED
        return load(tuned if tuned.exists() else self.folder / MODEL)

    @property
    def model_report(self) -> str:
        """The quality of the model, and the effect of tuning."""
        return f"{self.quality}\n{self.tuning}" if self.tuning else str(self.quality)

    @property
    def files(self) -> list[str]:
        """Files of the policies, relative to the folder."""
        return [f"{POLICIES}/{file_name(one.risk_weights)}.policy" for one in self.trials]


def find_policies(
    log: Log,
    cost: CostFunction | Cost,
    folder: str | Path,
    *,
    embedding: Embedding | None = None,
    regressor: BNNLVRegressor | None = None,
    risk_weights: Sequence[Pair] = RISK_WEIGHTS,
    settings: SearchSettings = SearchSettings(),  # noqa: B008
    max_rate: Mapping[str, float] | None = None,
    tuning: TuningSettings | None = TuningSettings(),  # noqa: B008
    held_out: float = 0.2,
    random_state: int = 0,
    verbose: bool | str = "auto",
) -> Project:
    """A policy for each pair (β, γ) of ``risk_weights``, from a log and a cost. If there is a wide
    gap between a β whose policy promises less cost, but is mostly beyond the data, and the next
    larger one, values between them are searched too (``recommendation.finer_weights``).

    Parameters
    ----------
    cost : function
        ``cost(row)`` of named columns, as for ``twofold.plant.cost_of``.
    folder : path
        Output folder; an existing one of the same search is resumed.
    embedding : Embedding or None
        Inputs and targets of the model (default: ``embed(log)``, the last row only).
    regressor : BNNLVRegressor or None
        Settings of the model; by default a mean field with α = 1 (``planning_regressor``).
    max_rate : mapping from actions to numbers, or None
        Largest change of an action per step, in its units. By default, actions change no faster
        than in the log (``logged_rates``); ``{}`` sets no limits.
    tuning : TuningSettings or None
        How to tune the model on roll-outs; tuning is kept only if it helps. None disables it.
    held_out : float
        Share of the runs that are held out to evaluate the model, and from which policies are
        forecast; of a single run, its last part.
    """
    folder = Path(folder)
    pairs = _check(log, risk_weights, settings, held_out, random_state)
    cost = cost if isinstance(cost, Cost) else cost_of(cost, log)
    check_gradient(cost, log)
    embedding = embed(log) if embedding is None else embedding
    own = clone(regressor or planning_regressor(log.transitions)).set_params(verbose=verbose)
    if own.random_state is None:
        own.set_params(random_state=random_state)
    train, test = log.split(held_out, seed=random_state)
    rates = logged_rates(log) if max_rate is None else dict(max_rate)
    limited = replace(embedding, limited=bool(rates_of(log, rates)))
    for part, which in ((train, ""), (test, "held-out ")):
        check_length(part, limited.history, which)
        limited.check_horizon(part, settings.horizon, which)
    episodes = [part for one in log.episodes for part in (one.observations, one.actions)]
    # Settings as in earlier versions: automatic values are resolved or omitted.
    shape = {name: plain_settings(own)[name] for name in PAPER_SHAPE}
    of_model = {k: v for k, v in (own.get_params() | shape).items() if str(v) != "auto"}
    identity = {
        "log": persistence.fingerprint(*episodes, log.action_low, log.action_high)[:16],
        # Functions are identified by their values on the log and far beyond it.
        "cost": cost.fingerprint(log)[:16],
        "embedding": embedding.fingerprint(log)[:16],
        "observations": embedding.observations,
        "actions": embedding.actions,
        "inputs": embedding.input_names,
        "targets": embedding.target_names,
        **{f"model {k}": v for k, v in of_model.items() if k not in WITHOUT_EFFECT},
        **asdict(settings),
        "risk_weights": pairs,
        "held_out": held_out,
        "random_state": random_state,
        **({"max_rate": rates} if rates else {}),
        **({"tuning": asdict(tuning)} if tuning else {}),
    }
    about = {
        "transitions": log.transitions,
        "episodes": len(log.episodes),
        "held_out_transitions": test.transitions,
        "logged_cost": float(np.concatenate(cost.of(test)).mean()),
    }
    try:
        about = persistence.claim_folder(folder, CLAIM, identity, about)["about"]
    except (OtherRunError, FileFormatError, OSError) as error:
        raise ProjectError(str(error)) from error
    if not _missing_files(folder, pairs):
        project = open_project(folder)
        finer = finer_weights([one for one in project.trials if one.risk_weights in pairs])
        if not _missing_files(folder, finer):
            warn_about(project.doubts)
            return project
    (fit,) = fit_regressors([own], embedding, train, folder)
    model, horizon = DynamicsModel(fit, embedding, cost, train, rates), settings.horizon
    found = None
    if tuning:
        model, found = _tune(model, horizon, folder, tuning, random_state, own)
    planner, referee = split_draws(model) if found and found.kept else (model, model)
    judge = partial(assess, model, test, horizon, random_state=random_state)
    quality = _keep(folder / QUALITY, Quality.of, judge)
    warn_about(quality.doubts)
    second = linear_model(referee) if quality.far_below_linear else None
    quiet = not (sys.stderr.isatty() if verbose == "auto" else verbose)
    console = Console(stderr=True)

    def find(pairs: Sequence[Pair], place: str) -> list[Trial]:
        policies = search_policies(
            planner, pairs, folder / place, settings=settings, seeds=(random_state,),
            random_state=random_state, checkpoint_seconds=own.checkpoint_seconds, verbose=verbose,
        )  # fmt: skip
        trials = []
        for policy in track(policies, "evaluating policies", console=console, disable=quiet):
            path = folder / POLICIES / f"{file_name(policy.risk_weights)}.json"
            if not path.with_suffix(".policy").exists():
                policy.save(path.with_suffix(".policy"))
            if find_spec("onnx") is not None and not path.with_suffix(".onnx").exists():
                policy.export_onnx(path.with_suffix(".onnx"))
            judge = partial(evaluate_policy, referee, policy, test, horizon, random_state, second)
            trials.append(_keep(path, Trial, judge))
        return trials

    finer = finer_weights(find(pairs, POLICIES))
    if finer:
        find(finer, FINER)
    return open_project(folder)


def _tune(
    model: DynamicsModel,
    steps: int,
    folder: Path,
    settings: TuningSettings,
    random_state: int,
    watched: BNNLVRegressor,
) -> tuple[DynamicsModel, Tuning]:
    """Tune the model on roll-outs if that helps; returns it and a summary, read from the folder."""
    identity = {"settings": asdict(settings), "steps": steps, "model": model.fingerprint}
    identity |= {"random_state": random_state}
    options = settings, random_state

    def checkpoint(name: int | str) -> Checkpoint:
        path = folder / f"{TUNING_CHECKPOINT}.{name}"
        return Checkpoint(path, watched.checkpoint_seconds, identity)

    with whole_fits(f"finished parts are in {folder}; the same call resumes from there"):
        choose = partial(choose_tuning, model, steps, *options, checkpoint, watched.verbose)
        tuning = _keep(folder / TUNING, Tuning, choose)
        if tuning.kept and not (folder / TUNED).exists():
            tuned = tune_all(model, tuning, *options, checkpoint("all"), watched.verbose)
            tuned.regressor.save(folder / TUNED)
    return (model.with_regressor(load(folder / TUNED)) if tuning.kept else model), tuning


def open_project(folder: str | Path) -> Project:
    """Read a finished folder of ``find_policies``; nothing is fitted or searched."""
    folder = Path(folder)
    path = folder / CLAIM
    if not path.is_file():
        raise ProjectError(f"{folder} is not a folder of policies: it has no {CLAIM}")
    try:
        content = persistence.read_claim(path)
        identity, about = content["identity"], content["about"]
        pairs = check_risk_weights(identity["risk_weights"])
        if not np.isfinite(about["logged_cost"]):
            raise ValueError("the logged cost is not a number")
    except FileFormatError as error:
        raise ProjectError(str(error)) from error
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        why = f"{type(error).__name__}: {error}"
        raise ProjectError(f"{path} is damaged ({why}); {persistence.RESTORE}") from error
    if absent := _missing_files(folder, pairs):
        raise ProjectError(
            f"{folder} is not finished: {absent[0]} and {len(absent) - 1} more are missing; run "
            "the same search again to resume it"
        )
    trials = _read_trials(folder, pairs)
    finer = finer_weights(trials)
    if finer and not _missing_files(folder, finer):
        pairs = sorted([*pairs, *finer], key=lambda pair: pair[::-1])
        trials = _read_trials(folder, pairs)
    files = [folder / POLICIES / file_name(pair) for pair in pairs]
    policies = tuple(load_policy(f"{file}.policy") for file in files)
    quality, path = read_json(folder / QUALITY, Quality.of), folder / TUNING
    tuning = read_json(path, Tuning) if path.exists() else None
    return Project(folder, quality, policies, tuple(trials), about, tuning)


def _read_trials(folder: Path, pairs: Sequence[Pair]) -> list[Trial]:
    paths = [folder / POLICIES / f"{file_name(pair)}.json" for pair in pairs]
    return [read_json(path, Trial) for path in paths]


def planning_regressor(transitions: int) -> BNNLVRegressor:
    """The paper's mean field with α = 1, with a size that depends on the number of logged steps.
    Its uncertainty is large away from the data, which planning needs, and grows with the number of
    units. With too many units for a short log, noise would be attributed to the epistemic part."""
    sizes = (50, 50) if transitions >= LONG_LOG else (20, 20)
    return BNNLVRegressor(sizes, inference=Alpha(draws=20))


def write_json(path: Path, content: Any) -> None:
    """Numbers and arrays as JSON; what is not finite becomes null."""
    text = json.dumps(persistence.to_plain(content), indent=1, allow_nan=False)
    persistence.write_text(path, text)


def _keep(path: Path, kind: Callable[..., Any], make: Callable[[], Any]) -> Any:
    """Read a file, or make its content and write it."""
    if path.exists():
        return read_json(path, kind)
    made = make()
    write_json(path, asdict(made))
    return made


def read_json(path: Path, kind: Callable[..., Any]) -> Any:
    """Read a dataclass from a file of its fields that ``write_json`` wrote."""
    try:
        made = kind(**_numbers(json.loads(path.read_text(encoding="utf-8"))))
        str(made)  # content without a readable text form is damaged
        return made
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise ProjectError(f"{path} is damaged ({error}); {RECREATE}") from error


def _numbers(value: Any) -> Any:
    """Convert lists of numbers to arrays, and null to NaN."""
    if isinstance(value, dict):
        return {name: _numbers(one) for name, one in value.items()}
    if isinstance(value, list):
        words = any(isinstance(one, str | dict) for one in value)
        return [_numbers(one) for one in value] if words else np.array(value, float)
    return np.nan if value is None else value


def _missing_files(folder: Path, pairs: Sequence[Pair]) -> list[Path]:
    files = [f"{POLICIES}/{file_name(pair)}" for pair in pairs]
    names = [QUALITY, MODEL, *(f"{file}.{end}" for end in ("policy", "json") for file in files)]
    return [Path(name) for name in names if not (folder / name).exists()]


def _check(
    log: Log, risk_weights: Any, settings: SearchSettings, held_out: float, random_state: Any
) -> list[Pair]:
    """Check the arguments before a model is fitted; returns the distinct risk weights."""
    if not log.actions:
        raise ProjectError("the log has no actions, so a policy has nothing to decide; name some")
    if not 0.0 < held_out < 1.0:
        raise ProjectError(f"held_out must be a fraction between 0 and 1, got {held_out!r}")
    if not isinstance(random_state, int | np.integer) or not 0 <= random_state < 2**31:
        raise ProjectError(f"random_state must be an integer in [0, 2**31), got {random_state!r}")
    try:
        check_draws(settings.weight_draws, settings.noise_draws)
        return list(dict.fromkeys(check_risk_weights(risk_weights)))
    except (TypeError, ValueError) as error:
        raise ProjectError(str(error)) from error
