"""Share a fitted model as one file; loading it runs no code from the file.

python examples/interop/share_model.py [--smoke] [--output FOLDER]
"""

import argparse
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from twofold import BNNLVRegressor, Ensemble

RECEIVER = """
import sys
import pandas as pd
import twofold

model = twofold.load(sys.argv[1])
new = pd.DataFrame({"minutes": [20.0], "celsius": [180.0]})  # columns are matched by name
print(*model.predict(new, quantiles=[0.05, 0.5, 0.95])[0].tolist())
"""


def main() -> None:
    """Fit and save here; load and predict in another process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    parser.add_argument("--smoke", action="store_true", help="a short run of a few seconds")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)

    rng = np.random.default_rng(0)
    X = pd.DataFrame({"celsius": rng.uniform(150, 250, 150), "minutes": rng.uniform(5, 40, 150)})
    y = 0.2 * X.celsius + X.minutes + rng.normal(size=150)
    method = Ensemble(members=2, updates=20) if arguments.smoke else Ensemble()
    model = BNNLVRegressor(inference=method, random_state=0).fit(X, y)
    path = arguments.output / "shared.twofold"
    model.save(path)

    here = model.predict(pd.DataFrame({"celsius": [180.0], "minutes": [20.0]}), quantiles=[0.5])
    words = [sys.executable, "-c", RECEIVER, str(path)]
    received = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    print(f"median here {here[0, 0]:.4f}, from the file {float(received[1]):.4f}")
    print(f"wrote {path}, {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
