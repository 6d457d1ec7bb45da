"""``twofold example``: sample files for trying the commands, and the commands to type next."""

import shlex
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from typer import Argument, Option

from twofold.cli.fit import Force
from twofold.cli.run import Run
from twofold.cli.terminal import CommandError, check_names, to_table
from twofold.core.persistence import write_text
from twofold.tables import csv_text

SEED = 0
MEASUREMENTS, CANDIDATES = 150, 40
RUNS, MINUTES, SETPOINT = 15, 60, 55.0

COST = f'''\
"""The cost of a minute of the tank."""

import jax.numpy as jnp


def cost(row):
    """Degrees away from {SETPOINT:g} °C, squared, and the cold water that the valve lets in."""
    return jnp.square(row["temperature_celsius"] - {SETPOINT:g}) + 20.0 * row["valve"]
'''

SCRIPT = '''\
"""Fit a toy problem, split its uncertainty in two, and draw both parts."""

import matplotlib.pyplot as plt
import numpy as np

from twofold import BNNLVRegressor
from twofold.envs.toy import HETEROSCEDASTIC

X, y = HETEROSCEDASTIC.training_data(0)
model = BNNLVRegressor(inference="ensemble", random_state=0).fit(X, y)

grid = np.linspace(HETEROSCEDASTIC.low, HETEROSCEDASTIC.high, 200)[:, None]
mean = model.predict(grid)
parts = model.decompose(grid, by="variance").standard_deviations()

figure, (above, below) = plt.subplots(2, 1, sharex=True)
above.plot(X[:, 0], y, ".", markersize=2)
above.plot(grid[:, 0], mean)
below.plot(grid[:, 0], parts.epistemic, label="epistemic: shrinks with more data")
below.plot(grid[:, 0], parts.aleatoric, label="aleatoric: noise, stays")
below.legend()
figure.savefig("toy.png")
print("wrote toy.png")
'''


class Example(NamedTuple):
    """Description, a function that creates the files, and the commands to run next."""

    about: str
    write: Callable[[Any], dict[str, str]]
    commands: tuple[str, ...]


def write_oven(rng: Any) -> dict[str, str]:
    """Yields of an oven: noisier when hot, and few measurements there."""

    def settings(count: int, power: float) -> dict[str, Any]:
        celsius = (150 + 100 * rng.uniform(size=count) ** power).round(1)
        minutes = rng.uniform(5, 40, count).round(1)
        return {"temperature_celsius": celsius, "duration_minutes": minutes}

    measured = settings(MEASUREMENTS, 2.0)
    heat = (measured["temperature_celsius"] - 150) / 100
    time = (measured["duration_minutes"] - 5) / 35
    noise = (0.5 + 5 * heat**2) * rng.normal(size=MEASUREMENTS)
    measured["yield_percent"] = (40 + 30 * heat + 25 * time - 30 * heat * time**2 + noise).round(2)
    candidates = settings(CANDIDATES, 1.0)
    return {"oven.csv": csv_text(measured), "candidates.csv": csv_text(candidates)}


def write_tank(rng: Any) -> dict[str, str]:
    """A heated tank cooled by cold water; every five minutes a simple controller sets its valve,
    with some exploration. Hot water is noisier."""
    names = "run", "minute", "temperature_celsius", "heater_kilowatts", "valve"
    rows = []
    for run in range(RUNS):
        celsius, heater = rng.uniform(30.0, 75.0), round(rng.uniform(1.5, 5.0), 3)
        for minute in range(MINUTES):
            if minute % 5 == 0:
                wish = 0.3 + 0.02 * (celsius - 50.0) + 0.25 * rng.normal()
                valve = round(float(np.clip(wish, 0.0, 1.0)), 3)
            rows.append([run, minute, round(celsius, 2), heater, valve])
            restless = 0.1 + 0.5 / (1.0 + np.exp((60.0 - celsius) / 3.0))
            cooled = (0.012 + 0.08 * valve) * (celsius - 15.0)
            celsius += 0.4 * heater - cooled + restless * rng.normal()
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    return {"tank.csv": csv_text(columns), "cost.py": COST}


EXAMPLES = {
    "oven": Example(
        "noisy measurements in a table: where to measure next",
        write_oven,
        (
            "twofold fit oven.csv --target yield_percent --out oven.twofold",
            "twofold report oven.twofold",
            "twofold suggest oven.twofold candidates.csv --num 5",
            "twofold decompose oven.twofold candidates.csv --by variance --out split.csv",
        ),
    ),
    "tank": Example(
        "the log of a plant and its cost: policies with known risks",
        write_tank,
        (
            "twofold policy search tank.csv --observations temperature_celsius,heater_kilowatts "
            "--held heater_kilowatts --action valve:0:1 --cost cost.py:cost --episode run "
            "--time minute --horizon 20 --beta 0,2 --out tank",
            "twofold report tank",
        ),
    ),
    "toy": Example(
        "a script that fits, splits and draws: the library from Python",
        lambda _: {"toy.py": SCRIPT},
        ("python toy.py",),
    ),
}


def example(
    run: Run,
    name: Annotated[str | None, Argument(help="Name of an example (default: list them).")] = None,
    out: Annotated[Path, Option(help="Output folder.")] = Path(),
    force: Force = False,
) -> None:
    """Write sample files to try twofold on, and show the commands to type next.

    Example: twofold example oven
    """
    if name is None:
        descriptions = {name: one.about for name, one in EXAMPLES.items()}
        run.show(descriptions, to_table(["example", "description"], list(descriptions.items())))
        return
    check_names("twofold example", [name], list(EXAMPLES))
    files = write_example(name, out, force)
    commands = list(EXAMPLES[name].commands)
    if out != Path():
        commands.insert(0, f"cd {shlex.quote(str(out))}")
    wrote = f"wrote {', '.join(map(str, files))}; next:\n"
    run.show({"files": files, "next": commands}, wrote, textwrap.indent("\n".join(commands), "  "))


def write_example(name: str, folder: Path, force: bool = False) -> list[Path]:
    """Write the files of an example; refuses to overwrite files that differ."""
    if folder.exists() and not folder.is_dir():
        raise CommandError(f"--out must be a folder, got the file {folder}")
    content = EXAMPLES[name].write(np.random.default_rng(SEED))
    files = {folder / file: text for file, text in content.items()}
    for path, text in files.items():
        if path.exists() and not force and path.read_bytes() != text.encode():
            raise CommandError(f"{path} exists and differs; use --force to replace it, or --out")
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        write_text(path, text)
    return list(files)
