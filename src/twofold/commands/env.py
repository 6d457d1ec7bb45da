"""``twofold env``: the systems that come with the library, and logs of them."""

import json
from importlib import import_module
from pathlib import Path
from typing import Annotated

import jax
import jax.numpy as jnp
import typer
from rich.console import Console
from rich.table import Column, Table

from twofold.compilation import enable_compile_cache
from twofold.envs import catalogue
from twofold.envs.system import System, episodes, uniform
from twofold.logs import from_episodes, write_minari, write_table

app = typer.Typer(help="Systems to be controlled, and logs of them.")


class EnvError(ValueError):
    """A mistake of the user's."""


@app.command(name="list")
def list_systems() -> None:
    """The systems, with what is seen of them and done to them.

    Example: twofold env list
    """
    table = Table(Column("system", no_wrap=True), "observations", "actions", "steps of an episode")
    for name in catalogue.SYSTEMS:
        system = catalogue.make(name)
        seen = f"{len(system.observations)}: {', '.join(system.observations[:5])}"
        seen += ", …" if len(system.observations) > 5 else ""
        table.add_row(name, seen, ", ".join(system.actions), str(system.horizon))
    Console().print(table)


@app.command()
def sample(
    name: Annotated[str, typer.Argument(help="A system of twofold env list.")],
    transitions: Annotated[int, typer.Option(help="How many steps in all, at least.")] = 30_000,
    out: Annotated[Path | None, typer.Option(help="A file, *.csv or *.parquet.")] = None,
    minari: Annotated[
        str | None, typer.Option(help="A Minari data set, such as mine/a-v0.")
    ] = None,
    policy: Annotated[str, typer.Option(help="behaviour, or uniform.")] = "behaviour",
    seed: Annotated[int, typer.Option(help="The same seed gives the same log.")] = 0,
    param: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE of the system, such as history=1.")
    ] = None,
) -> None:
    """Run a system with its behaviour policy and write a log of it.

    Example: twofold env sample industrial_benchmark --transitions 30000 --out plant.csv
    """
    if out is None and minari is None:
        raise EnvError("say where to: --out FILE, or --minari NAME, or both")
    _check_file(out)
    system = _system(name, param or [])
    policies = {"behaviour": system.behaviour, "uniform": uniform(system)}
    if policy not in policies or transitions < 1 or not 0 <= seed < 2**32:
        raise EnvError(
            "expected a policy that is behaviour or uniform, at least 1 transition and a seed "
            f"below 2**32, got {policy}, {transitions} and {seed}"
        )
    _check_data_set(minari)
    enable_compile_cache()
    num = -(-transitions // system.horizon)
    found = episodes(jax.random.key(seed), system, policies[policy], system.horizon, num)
    if not all(bool(jnp.isfinite(part).all()) for part in found):
        raise EnvError(f"with these parameters {name} gives numbers that are not finite")
    log = from_episodes(system, found)
    if out is not None:
        write_table(log, out)
        print(f"wrote {out}: {log.transitions} transitions in {num} episodes")
    if minari is not None:
        write_minari(log, minari, description=f"{policy} of {name}, seed {seed}")
        print(f"wrote the Minari data set {minari}: {log.transitions} transitions, {num} episodes")


def _check_file(out: Path | None) -> None:
    if out is None:
        return
    if out.suffix not in (".csv", ".parquet") or not out.parent.is_dir() or out.is_dir():
        raise EnvError(f"expected a *.csv or *.parquet file in a folder that exists, got {out}")


def _check_data_set(name: str | None) -> None:
    """Minari itself would find fault with a name only after it has made a folder for it."""
    if name is None:
        return
    try:
        parse = import_module("minari.dataset.minari_dataset").parse_dataset_id
        path = import_module("minari.storage").get_dataset_path
    except ImportError as error:
        raise EnvError(
            "Minari data sets need gymnasium and minari; install them with: "
            "pip install 'twofold[rl]'"
        ) from error
    try:
        parse(name)
    except (TypeError, ValueError) as error:
        raise EnvError(
            "expected a Minari data set such as mine/a-v0, with a version and with two letters or "
            f"more before each slash, got {name!r}"
        ) from error
    if path(name).exists():
        raise EnvError(f"the Minari data set {name} is there already; choose another version")


def _system(name: str, params: list[str]) -> System:
    try:
        return catalogue.make(name, **dict(map(_param, params)))
    except ValueError as error:
        raise EnvError(str(error)) from error


def _param(text: str) -> tuple[str, object]:
    name, sign, value = text.partition("=")
    try:
        return name, json.loads(value if sign else "")
    except ValueError:
        raise EnvError(f"expected NAME=NUMBER, or true or false, got {text!r}") from None
