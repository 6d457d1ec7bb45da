"""Write a log as a Minari data set, and train an offline RL algorithm of d3rlpy on it.

    python examples/interop/minari_d3rlpy.py [--smoke] [--output FOLDER]

d3rlpy pins an older Gymnasium, so it runs in its own environment (``make interop`` creates
``.peers/d3rlpy``).
"""

import argparse
import os
import subprocess
import tempfile
from pathlib import Path

import jax

from twofold.envs.system import episodes, uniform
from twofold.envs.wet_chicken import wet_chicken
from twofold.plant import from_episodes, read_minari, write_minari

NAME = "twofold/wet-chicken-v0"
PEER = Path(__file__).parents[2] / ".peers/d3rlpy/bin/python"
TRAIN = """
import sys
import d3rlpy
import minari
import numpy as np

episodes = list(minari.load_dataset(sys.argv[1]).iterate_episodes())
data = d3rlpy.dataset.MDPDataset(
    observations=np.concatenate([one.observations[:-1] for one in episodes]).astype(np.float32),
    actions=np.concatenate([one.actions for one in episodes]).astype(np.float32),
    rewards=np.concatenate([one.rewards for one in episodes]),
    terminals=np.concatenate([one.terminations for one in episodes]),
    timeouts=np.concatenate([one.truncations for one in episodes]),
)
steps = int(sys.argv[2])
cql = d3rlpy.algos.CQLConfig().create(device="cpu")
quiet = {"logger_adapter": d3rlpy.logging.NoopAdapterFactory(), "show_progress": False}
cql.fit(data, n_steps=steps, n_steps_per_epoch=steps, **quiet)
print(cql.predict(np.zeros((1, 2), np.float32))[0].tolist())
"""


def main() -> None:
    """Write, read back, and train with d3rlpy if its environment exists."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    parser.add_argument("--smoke", action="store_true", help="a short run of a few seconds")
    smoke = parser.parse_args().smoke

    river = wet_chicken()
    count = 4 if smoke else 100
    log = from_episodes(river, episodes(jax.random.key(0), river, uniform(river), 50, count))
    with tempfile.TemporaryDirectory() as folder:
        write_minari(log, NAME, root=folder, description="A canoe, paddled at random")
        print(f"{NAME}: {read_minari(NAME, root=folder)}")
        if not PEER.exists():
            print("d3rlpy is not installed (make interop)")
            return
        steps = "50" if smoke else "2000"
        done = subprocess.run(
            [PEER, "-W", "ignore", "-c", TRAIN, NAME, steps], capture_output=True, text=True,
            env=os.environ | {"MINARI_DATASETS_PATH": folder, "PYTHONPATH": ""},
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(done.stderr)
    print(f"d3rlpy's CQL after {steps} steps paddles {done.stdout.splitlines()[-1]} at the start")


if __name__ == "__main__":
    main()
