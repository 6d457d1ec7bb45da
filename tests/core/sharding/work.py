"""Small fits, predictions and a search; ``python work.py FOLDER`` stores what came of them.

The tests run it here on one device, and in another process on eight.
"""

import itertools
import sys
import warnings
from functools import partial
from pathlib import Path

import jax
import numpy as np

from twofold import NUTS, Alpha, BNNLVRegressor, Ensemble, fit_many, fit_table
from twofold.core import sharding
from twofold.inference import loop
from twofold.plant.embedding import embed
from twofold.plant.forecast import forecast
from twofold.plant.log import Episode, Log
from twofold.plant.rollout import DynamicsModel
from twofold.plant.search import SearchSettings, search_policies
from twofold.uncertainty.sample_entropy import from_samples, nearest_neighbour

ALPHA = {"inference": Alpha(draws=5, epochs=6, batch_size=8)}
CHAINS = {
    "inference": NUTS(chains=2, warmup=2, annealing=0, samples=3, nodes=4, thin=1),
    "dtype": "float64",  # chains are chaotic: rounding doubles with every few steps
}
ENSEMBLE = {"inference": Ensemble(members=3, updates=20, batch_size=8), "latent_dim": 1}
SETTINGS = SearchSettings(
    horizon=3, weight_draws=3, noise_draws=2, starts=2, epochs=4, updates=3, hidden=(4,)
)
PAIRS = [(0, 0), (1, 0), (2, 1), (4, 0), (0, 2)]


def data(rows=30, outputs=1):
    rng = np.random.default_rng(rows)
    x = rng.uniform(-2, 2, (rows, 2))
    y = np.stack([x[:, 0] * x[:, 1] + 0.3 * rng.normal(size=rows) for _ in range(outputs)], 1)
    return x, y


def fits(settings, count, outputs=1, checkpoint=None):
    """``count`` seeds side by side, each with data of its own."""
    common = {"n_weight_draws": 12, "n_latent_draws": 30, "verbose": False}
    common |= {"checkpoint": checkpoint, "checkpoint_seconds": 1e-6}
    models = [
        BNNLVRegressor((6,), random_state=seed, **common, **settings) for seed in range(count)
    ]
    sets = [data(30 + seed, outputs) for seed in range(count)]
    return fit_many(models, [x for x, _ in sets], [y for _, y in sets])


def posteriors(models):
    return {f"{n}/{i}": leaf for n, m in enumerate(models) for i, leaf in enumerate(m.posterior_)}


def splits(model, x):
    """All that is asked of a model, by name."""
    found = {"predict": model.predict(x, return_std=True), "sample": model.sample(x, 4)}
    for name in ("quadrature", "mixture"):
        split = model.decompose(x, estimator=name)
        found[f"entropy/{name}"] = np.stack([split.total, split.epistemic, split.aleatoric])
    split = model.decompose(x, by="variance")
    found["variance"] = np.stack([split.total, split.epistemic, split.aleatoric])
    found["moments"] = model.conditional_moments(x)
    return found


def lone(model, x):
    """The split of one row, by estimators that do not fill it up to many."""
    drawn = from_samples(partial(nearest_neighbour, k=3))
    estimators = {"mixture": "mixture", "nearest_neighbour": drawn}
    found = [(name, model.decompose(x, estimator=one)) for name, one in estimators.items()]
    return {name: np.stack([split.total, split.aleatoric]) for name, split in found}


def streamed(folder):
    """A mean field fitted to a table on disk, block by block."""
    x, y = data(700)
    table = folder / "rows.csv"
    np.savetxt(table, np.hstack([x, y]), delimiter=",", header="a,b,y", comments="", fmt="%.17g")
    method = Alpha(draws=5, nodes=4, epochs=6, batch_size=8)
    model = BNNLVRegressor((6,), random_state=0, verbose=False, inference=method)
    return posteriors([fit_table(model, table, target="y")])


def repeated():
    """Three entries, three times each, over all devices, and how many each device has."""
    mesh = sharding.devices_for(9)
    spread = sharding.spread(mesh, np.arange(3), times=3)
    return spread, [len(shard.data) for shard in spread.addressable_shards]


def tank():
    rng = np.random.default_rng(0)
    episodes = [
        Episode(rng.normal(size=(13, 1)), rng.uniform(-1, 1, (12, 1)), name=str(i))
        for i in range(4)
    ]
    return Log(("level",), ("flow",), [-1.0], [3.0], tuple(episodes))


def plant():
    """A model of the tank to search with."""
    log = tank()
    embedding = embed(log)
    regressor = BNNLVRegressor((4,), **ALPHA, random_state=0, verbose=False)
    regressor.fit(*embedding.design(log))
    return DynamicsModel(regressor, embedding, lambda row: row["level"] ** 2, log)


def policies(model):
    """Weights of five policies, and what the model expects of the first."""
    found = search_policies(model, PAIRS, settings=SETTINGS, verbose=False)
    starts = type(model.starts)(*(np.asarray(leaf)[:11] for leaf in model.starts))
    ahead = forecast(model, found[0], starts, 3, weight_draws=4, noise_draws=3)
    return {
        "weights": np.stack([policy.weights for policy in found]),
        "criteria": np.array([policy.notes["criterion"] for policy in found]),
        **{f"forecast/{name}": value for name, value in ahead._asdict().items()},
    }


def begin(path):
    """A checkpoint of a run that was stopped after two chunks."""
    whole = loop.run
    loop.run = lambda *arguments: itertools.islice(whole(*arguments), 2)
    try:
        fits(ALPHA, 9, checkpoint=path)
    finally:
        loop.run = whole
    assert path.exists()


class Watch:
    """By stage, of the results that came to the host the fewest parts that one was in, and the
    fewest devices that one was made by."""

    def __init__(self):
        self.stages = {}

    def __call__(self, stage, function, *arguments):
        seen, fetch = [], sharding.on_host  # pairs of parts and devices

        def watched(tree):
            leaves = [leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, jax.Array)]
            for leaf in leaves:
                parts = {str(shard.index) for shard in leaf.addressable_shards}
                seen.append((len(parts), len(leaf.sharding.device_set)))
            return fetch(tree)

        sharding.on_host = watched
        try:
            return function(*arguments)
        finally:
            sharding.on_host = fetch
            # What the cores of one device have found is on the host already.
            self.stages[f"devices/{stage}"] = np.min(seen or [(1, 1)], axis=0)


def everything(folder):
    """What came of it all; a run that lies begun in ``folder`` is gone on with."""
    watch = Watch()
    alpha, ensemble = watch("alpha", fits, ALPHA, 9), watch("ensemble", fits, ENSEMBLE, 3)
    wide = fits(ENSEMBLE, 1, outputs=2)[0]
    x = data(21)[0]
    found = {f"alpha/{name}": v for name, v in posteriors(alpha).items()}
    found |= {f"ensemble/{name}": v for name, v in posteriors(ensemble).items()}
    found |= {f"chains/{name}": v for name, v in posteriors(fits(CHAINS, 1)).items()}
    found |= {f"rows/{name}": v for name, v in watch("rows", splits, ensemble[0], x).items()}
    joint = wide.decompose(x, joint=True)
    found["rows/joint"] = np.stack([joint.total, joint.epistemic, joint.aleatoric])
    found["rows/density"] = ensemble[0].log_likelihood(*data(21))
    found |= {f"streamed/{name}": v for name, v in streamed(folder).items()}
    found |= {f"few/{name}": v for name, v in watch("few", lone, ensemble[0], x[:1]).items()}
    found |= {f"policies/{name}": v for name, v in watch("policies", policies, plant()).items()}
    resumed = fits(ALPHA, 9, checkpoint=folder / "begun.checkpoint")
    found |= {f"resumed/{name}": v for name, v in posteriors(resumed).items()}
    return found | watch.stages


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    place = Path(sys.argv[1])
    begin(place / "begun_there.checkpoint")
    with jax.default_device(jax.devices()[0]):
        alone = sharding.devices_for(9) is None
    whole, shares = repeated()
    np.savez(
        place / "found.npz",
        chosen_device_alone=alone,
        repeated=whole,
        shares=shares,
        **everything(place),
    )
