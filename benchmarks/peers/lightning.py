"""Training of lightning-uq-box's sequential BNN+LV, run through Lightning's Trainer and timed.

The setting is the package's own tutorial with alpha = 1: 560 points of the heteroscedastic toy,
batches of 50, 10 Monte Carlo samples, three hidden layers of 50 units, one thread.
"""

import argparse
import json
import logging
import time
import warnings
from functools import partial
from itertools import pairwise
from statistics import fmean, median

import torch
from lightning import Callback, Trainer, seed_everything
from lightning_uq_box.datamodules import ToyHeteroscedasticDatamodule
from lightning_uq_box.models import MLP
from lightning_uq_box.uq_methods import BNN_LV_VI_Regression

HIDDEN = [50, 50, 50]
DRAWS = 10
BATCH = 50
TRAINING_POINTS = 560
WARM_UP = 24


class Stopwatch(Callback):
    """Note the time after every update."""

    def __init__(self) -> None:
        """Start without any time."""
        self.stamps: list[float] = []

    def on_train_batch_end(self, *_: object) -> None:
        """Note the time."""
        self.stamps.append(time.perf_counter())


def make_model() -> BNN_LV_VI_Regression:
    """The sequential BNN+LV with its amortised q(z), which the package has instead of a table."""
    return BNN_LV_VI_Regression(
        model=MLP(n_inputs=1, n_hidden=HIDDEN, n_outputs=1),
        latent_net=MLP(n_inputs=2, n_hidden=[20], n_outputs=2),
        num_training_points=TRAINING_POINTS,
        n_mc_samples_train=DRAWS,
        alpha=1.0,
        optimizer=partial(torch.optim.Adam, lr=1e-3),
    )


def make_data() -> ToyHeteroscedasticDatamodule:
    """The package's standardised toy, of which 70 % are the training points."""
    data = ToyHeteroscedasticDatamodule(n_points=800, batch_size=BATCH)
    if len(data.X_train) != TRAINING_POINTS:
        raise ValueError(f"expected {TRAINING_POINTS} training points, got {len(data.X_train)}")
    return data


def make_trainer(steps: int, stopwatch: Stopwatch) -> Trainer:
    """A trainer that only trains: nothing is logged, shown, saved or validated."""
    return Trainer(
        accelerator="cpu",
        max_steps=steps,
        max_epochs=-1,
        callbacks=[stopwatch],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=0,
    )


def time_updates(updates: int = 3000, seed: int = 0) -> dict[str, float]:
    """Mean and median milliseconds of an update on one thread, after warm-up."""
    torch.set_num_threads(1)
    seed_everything(seed, verbose=False)
    stopwatch = Stopwatch()
    make_trainer(WARM_UP + updates, stopwatch).fit(make_model(), datamodule=make_data())
    ms = [1e3 * (after - before) for before, after in pairwise(stopwatch.stamps[WARM_UP - 1 :])]
    return {"ms_per_update": fmean(ms), "ms_median": median(ms)}


def main() -> None:
    """Time the number of updates given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    settings = vars(parser.parse_args())
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    print(json.dumps(time_updates(**settings)))


if __name__ == "__main__":
    main()
