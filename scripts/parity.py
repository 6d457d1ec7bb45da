"""The numbers of two versions of twofold, compared: fits, splits, policies, campaigns, systems.

    PYTHONPATH=<old>/src python scripts/parity.py write old.npz     # with the older version
    python scripts/parity.py write new.npz                          # with this one
    python scripts/parity.py compare old.npz new.npz

Everything runs at a tiny size on the CPU, with fixed seeds; ``compare`` prints the largest
difference of each number relative to its size and fails where one is above 1e-6. The older version
is one from before methods were objects (``inference_options``).
"""

import argparse
import tempfile
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import jax
import numpy as np

import twofold

TOLERANCE = 1e-6
NEW = hasattr(twofold, "Ensemble")
# Name in the old constructor, options of the method, and its class.
METHODS: dict[str, tuple[str, dict[str, Any], str]] = {
    "alpha": ("alpha", {"alpha": 0.5, "draws": 5, "epochs": 4}, "Alpha"),
    "vb": ("alpha", {"alpha": 1e-6, "draws": 5, "epochs": 4}, "Alpha"),
    "alpha_nodes": ("alpha", {"nodes": 6, "draws": 5, "epochs": 4}, "Alpha"),
    "alpha_encoder": ("alpha", {"encoder": [6], "draws": 5, "epochs": 4}, "Alpha"),
    "hmc": (
        "hmc",
        {"chains": 2, "warmup": 6, "samples": 3, "nodes": 6, "leapfrog_steps": 3},
        "HMC",
    ),
    "nuts": (
        "nuts",
        {"chains": 2, "warmup": 6, "samples": 3, "nodes": 6, "max_doublings": 2},
        "NUTS",
    ),
}
OWN = ("alpha", "draws", "epochs", "batch_size")  # options that the old constructor had itself
ESTIMATORS = ("auto", "mixture", "nearest_neighbour", "adaptive", "kernel_density", "histogram")
DRAWS = {"n_weight_draws": 8, "n_latent_draws": 30, "verbose": False}


def regressor(method: str, seed: int = 0, **more: Any) -> Any:
    """A small regressor of either version."""
    name, options, class_name = METHODS[method]
    if NEW:
        settings = {"inference": getattr(twofold, class_name)(**options)}
    else:
        rest = {key: value for key, value in options.items() if key not in OWN}
        own = {key: value for key, value in options.items() if key in OWN}
        settings = {"inference": name, "inference_options": rest or None} | own
    return twofold.BNNLVRegressor((6, 5), random_state=seed, **settings, **DRAWS, **more)


def toy(outputs: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Ninety rows of two inputs with noise that grows."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, (90, 2))
    noise = 0.2 * np.abs(x[:, :1]) * rng.normal(size=(90, outputs))
    y = np.sin(x[:, :1]) * np.arange(1, outputs + 1) + noise
    return x, y[:, 0] if outputs == 1 else y


def fits() -> dict[str, Any]:
    """Posterior, predictions and splits of every method."""
    found: dict[str, Any] = {}
    x, y = toy()
    for method in METHODS:
        model = regressor(method).fit(x, y)
        draws = model.posterior_.sample(jax.random.key(1), 6)
        mean, deviation = model.predict(x[:20], return_std=True)
        entropy, variance = model.decompose(x[:20]), model.decompose(x[:20], by="variance")
        found |= {
            f"fit/{method}/weights": draws.weights,
            f"fit/{method}/noise": draws.log_noise,
            f"fit/{method}/energies": model.energies_,
            f"predict/{method}/mean": mean,
            f"predict/{method}/deviation": deviation,
            f"predict/{method}/log_likelihood": model.log_likelihood(x, y),
            f"predict/{method}/sample": model.sample(x[:20], 5),
            f"split/{method}/entropy": np.stack([entropy.total, entropy.epistemic]),
            f"split/{method}/variance": np.stack([variance.total, variance.epistemic]),
        }
    model = regressor("alpha_nodes", dtype="float64").fit(*toy(2))
    for estimator in ESTIMATORS:
        joint = estimator not in ("kernel_density", "histogram")
        split = model.decompose(x[:10], joint=joint, estimator=estimator)
        found[f"split/two_outputs/{estimator}"] = np.stack([split.total, split.epistemic])
    many = [regressor("alpha", seed) for seed in (1, 2)]
    twofold.fit_many(many, [x, x[:60]], [y, y[:60]])
    found["fit_many"] = np.stack([one.predict(x[:20]) for one in many])
    return found


def campaigns() -> dict[str, Any]:
    """What a campaign proposes after a few results."""
    campaign = import_module("twofold.campaign")
    x, y = toy()
    settings = {"hidden_layer_sizes": [5], **DRAWS}
    settings |= (
        {"inference": {"method": "alpha", "nodes": 6, "draws": 5, "epochs": 4}}
        if NEW
        else {"inference": "alpha", "inference_options": {"nodes": 6}, "draws": 5, "epochs": 4}
    )
    settings.pop("verbose")
    inputs = [campaign.Continuous("a", -2.0, 2.0), campaign.Continuous("b", -2.0, 2.0)]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "c.db"
        one = campaign.Campaign.create(place, inputs, ["y"], settings=settings)
        for (a, b), value in zip(x[:12].tolist(), y[:12].tolist(), strict=True):
            one.tell({"y": value}, point={"a": a, "b": b})
        points = [list(proposal.point.values()) for proposal in one.ask(3)]
    return {"campaign/proposals": np.array(points)}


def policies() -> dict[str, Any]:
    """A search over two risk weights, and what the model says of the policies."""
    package = import_module("twofold.plant" if NEW else "twofold.policies")
    logs = package if NEW else import_module("twofold.logs")
    rng = np.random.default_rng(0)
    episodes = []
    for number in range(6):
        flows, levels = rng.uniform(0.0, 2.0, (25, 1)), [rng.normal()]
        for (flow,) in flows:
            levels.append(0.8 * levels[-1] + 0.5 * flow + 0.1 * rng.normal())
        episodes.append(logs.Episode(np.array(levels)[:, None], flows, name=str(number)))
    log = logs.Log(("level",), ("flow",), [0.0], [2.0], tuple(episodes))

    def cost(row: Any) -> Any:
        return (row["level"] - 2.0) ** 2 + 0.1 * row["flow"]

    sizes = package.SearchSettings(horizon=4, weight_draws=3, noise_draws=2, epochs=5, updates=2)
    pairs = {"risk_weights" if NEW else "weights": [(0.0, 0.0), (2.0, 0.5)]}
    with tempfile.TemporaryDirectory() as folder:
        project = package.find_policies(
            log, cost, Path(folder) / "p", regressor=regressor("alpha"), settings=sizes,
            verbose=False, **pairs,
        )  # fmt: skip
        window = np.linspace(0.0, 3.0, 7)[:, None, None]
        actions = [
            [policy.act(one, np.zeros((0, 1))) for one in window] for policy in project.policies
        ]
        costs = [[one.expected, one.epistemic, one.aleatoric] for one in project.trials]
    return {"policy/actions": np.array(actions), "policy/forecasts": np.array(costs)}


def systems() -> dict[str, Any]:
    """Episodes of the systems under uniform random actions."""
    system = import_module("twofold.envs.system")
    catalogue = import_module("twofold.envs.catalogue")
    found = {}
    for name in ("wet_chicken", "industrial_benchmark", "wind_turbine"):
        one = catalogue.make(name)
        episodes = system.episodes(jax.random.key(3), one, system.uniform(one), 12, 3)
        found |= {f"system/{name}/{part}": value for part, value in episodes._asdict().items()}
    return found


def write(path: Path) -> None:
    """All numbers, to a file."""
    numbers: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part in (systems, policies, campaigns, fits):
            numbers |= part()
    np.savez(path, **{name: np.asarray(value) for name, value in numbers.items()})


def compare(old: Path, new: Path) -> bool:
    """Print what differs; whether nothing differs by more than the tolerance."""
    first, second = np.load(old), np.load(new)
    same = True
    for name in sorted({*first.files, *second.files}):
        if name not in first.files or name not in second.files:
            print(f"{name:40s} only in one of them")
            same = False
            continue
        a, b = first[name], second[name]
        scale = max(float(np.nanmax(np.abs(a))), 1e-30)
        gap = float(np.nanmax(np.abs(a - b))) / scale if a.shape == b.shape else np.inf
        print(f"{name:40s} {'identical' if np.array_equal(a, b, equal_nan=True) else f'{gap:.1e}'}")
        same &= gap <= TOLERANCE
    return same


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("write").add_argument("file", type=Path)
    both = commands.add_parser("compare")
    both.add_argument("old", type=Path)
    both.add_argument("new", type=Path)
    given = parser.parse_args()
    if given.command == "write":
        write(given.file)
    elif not compare(given.old, given.new):
        raise SystemExit("the versions differ")


if __name__ == "__main__":
    main()
