"""Smoke test of an installed twofold: fit, decompose, save, load, and the command line.

    python scripts/smoke.py

Needs nothing but ``pip install twofold``, and writes only to a temporary folder.
``scripts/release.py`` runs it in an empty environment of every supported Python.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

MEMBERS, UPDATES = 2, 20


def check_estimator() -> None:
    """A model splits its variance, and is the same after saving and loading."""
    from twofold import BNNLVRegressor, Ensemble, load

    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (60, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=60)
    method = Ensemble(members=MEMBERS, updates=UPDATES)
    model = BNNLVRegressor((5,), inference=method, random_state=0).fit(X, y)
    mean, deviation = model.predict(X, return_std=True)
    parts = model.decompose(X, by="variance").standard_deviations()
    np.testing.assert_allclose(np.hypot(parts.epistemic, parts.aleatoric), deviation, rtol=1e-4)
    model.save("model.twofold")
    np.testing.assert_allclose(load("model.twofold").predict(X), mean, rtol=1e-5)


def check_commands() -> None:
    """The installed command writes an example, fits it, splits, suggests, and draws a page."""
    program = str(Path(sys.executable).parent / "twofold")
    small = f"--setting members={MEMBERS} --setting updates={UPDATES} --setting inference=ensemble"
    for line in (
        "--version",
        "doctor",
        "example oven",
        f"fit oven.csv --target yield_percent --out oven.twofold {small}",
        "decompose oven.twofold candidates.csv --out split.csv",
        "suggest oven.twofold candidates.csv --num 3",
        "report oven.twofold --out page.html",
        "campaign init oven.db --input celsius=150..250 --output yield",
        "campaign status oven.db",
    ):
        done = subprocess.run([program, *line.split()], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"twofold {line} failed:\n{done.stdout}{done.stderr}")
    assert "epistemic" in Path("split.csv").read_text().splitlines()[0]
    assert "<html" in Path("page.html").read_text()


def main() -> None:
    """Run both checks in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        check_estimator()
        check_commands()
        os.chdir(Path(folder).parent)
    print("twofold works")


if __name__ == "__main__":
    main()
