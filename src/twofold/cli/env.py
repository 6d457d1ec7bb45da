"""``twofold env``: the systems that come with the library, and logs of them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer import Argument, Option

from twofold.cli.fit import Seed, Texts
from twofold.cli.run import Run, verb
from twofold.cli.terminal import CommandError, check_place, parse_settings, to_table

if TYPE_CHECKING:
    from twofold.envs.system import System
    from twofold.plant.log import Log

# Copies of a log in memory: on the device, on the host, and as table columns.
COPIES = 4
POLICY = "Policy: behaviour or uniform."

app = typer.Typer(help="Simulated systems, and logs of them.", no_args_is_help=True)


@verb(app, "list")
def list_systems(run: Run) -> None:
    """List the systems with their observations and actions.

    Example: twofold env list
    """
    from twofold.envs import catalogue

    content, rows = {}, []
    for name in catalogue.SYSTEMS:
        system = catalogue.make(name)
        seen, actions, horizon = system.observations, system.actions, system.horizon
        content[name] = {"observations": seen, "actions": actions, "horizon": horizon}
        some = f"{len(seen)}: {', '.join(seen[:5])}{', …' if len(seen) > 5 else ''}"
        rows.append([name, some, ", ".join(actions), str(horizon)])
    run.show(content, to_table(["system", "observations", "actions", "episode length"], rows))


@verb(app)
def sample(
    run: Run,
    name: Annotated[str, Argument(help="Name of a system (see twofold env list).")],
    transitions: Annotated[int, Option(help="Minimum number of transitions.", min=1)] = 30_000,
    out: Annotated[Path | None, Option(help="Log to write, *.csv or *.parquet.")] = None,
    minari: Annotated[str | None, Option(help="Minari data set, such as mine/a-v0.")] = None,
    policy: Annotated[Literal["behaviour", "uniform"], Option(help=POLICY)] = "behaviour",
    seed: Seed = 0,
    param: Annotated[Texts, Option(help="Parameter of the system, such as history=1")] = None,
) -> None:
    """Simulate a system under a policy and write a log.

    Example: twofold env sample industrial_benchmark --transitions 30000 --out plant.csv
    """
    from twofold.core import memory
    from twofold.envs import catalogue
    from twofold.plant.log_files import write_log
    from twofold.plant.minari import check_new_name, write_minari

    if out is None and minari is None:
        raise CommandError("choose an output: --out FILE, --minari NAME, or both")
    check_place(out)
    try:
        system = catalogue.make(name, **parse_settings(param or []))
    except TypeError as error:
        raise CommandError(str(error)) from error
    if minari is not None:
        check_new_name(minari)
    size = COPIES * 8.0 * transitions * (len(system.observations) + len(system.actions) + 2)
    memory.refuse_beyond(size, f"a log of {transitions} transitions", "ask for fewer")
    with run.timed("sample"):
        log = _sample_log(system, policy, transitions, seed)
    counts = {"transitions": log.transitions, "episodes": len(log.episodes)}
    run.metrics |= {name: float(count) for name, count in counts.items()}
    if out is not None:
        write_log(log, out)
    if minari is not None:
        write_minari(log, minari, description=f"{policy} of {name}, seed {seed}")
    record = run.write(out)
    places = [place for place in (out, minari and f"the Minari data set {minari}") if place]
    count = f"{log.transitions} transitions in {len(log.episodes)} episodes"
    content = {"file": out, "minari": minari, **counts, "record": record}
    run.show(content, *(f"wrote {place}: {count}" for place in places))


def _sample_log(system: "System", policy: str, transitions: int, seed: int) -> "Log":
    """As many whole episodes as the transitions need."""
    import jax
    import jax.numpy as jnp

    from twofold.envs.system import episodes, uniform
    from twofold.plant.log import from_episodes

    rule = system.behaviour if policy == "behaviour" else uniform(system)
    num = -(-transitions // system.horizon)
    sample = episodes(jax.random.key(seed), system, rule, system.horizon, num)
    if not all(bool(jnp.isfinite(part).all()) for part in sample):
        raise CommandError("the system gives non-finite values with these parameters")
    return from_episodes(system, sample)
