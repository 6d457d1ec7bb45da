"""Where should the next runs of a reactor be, and when is it time to stop?

    python examples/campaign.py [--smoke] [--output FOLDER]

The yield of a reaction depends on temperature, stirring and solvent; stirred slowly, the mixture
is uneven and the same settings give very different yields. The campaign is a file: stop the program
at any time and run it again to resume. As the reactor is simulated, the result can be checked.
"""

import argparse
import warnings
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from twofold import Ensemble
from twofold.campaign import Campaign, Categorical, Continuous, Integer
from twofold.core.sharding import enable_compile_cache
from twofold.report import figures, plot_remaining_share

INPUTS = (
    Continuous("temperature", 20.0, 100.0),
    Integer("stirring", 100, 1000),
    Categorical("solvent", ("water", "ethanol")),
)
# The quick fit, so that all of it takes a few minutes.
SETTINGS = {"inference": Ensemble()}
SMOKE_SETTINGS = {"inference": Ensemble(members=4, updates=300), "latent_dim": 0}


def mean_yield(point: dict[str, Any]) -> float:
    """The mean yield of the reactor, in percent."""
    best, top = {"water": (70.0, 60.0), "ethanol": (55.0, 75.0)}[point["solvent"]]
    mixed = 1.0 - 0.5 * np.exp(-point["stirring"] / 300.0)
    return float(top * mixed * np.exp(-0.5 * ((point["temperature"] - best) / 30.0) ** 2))


def noise(stirring: Any) -> Any:
    """Standard deviation of a yield, in percentage points: slow stirring mixes unevenly."""
    return 4.0 + 16.0 * np.exp(-(stirring - 100.0) / 200.0)


def run(campaign: Campaign, batch: int, most: int) -> None:
    """Measure open proposals and ask for more until the campaign suggests stopping."""
    status = campaign.status()
    while not status.consider_stopping and status.measurements < most:
        for proposal in campaign.pending():
            luck = np.random.default_rng([0, proposal.number]).normal()
            measured = mean_yield(proposal.point) + noise(proposal.point["stirring"]) * luck
            campaign.tell({"yield": float(measured)}, proposal=proposal.number)
        campaign.ask(batch)
        status = campaign.status()
        print(f"{status.measurements} measurements: {status.advice}", flush=True)


def compare(campaign: Campaign) -> None:
    """Compare the campaign's model with the truth, known only in a simulation."""
    points, model = campaign.space.spread(512, seed=1), campaign.model()
    x = campaign.space.encode(points)
    found = model.decompose(x, by="variance")
    errors = model.predict(x) - [mean_yield(point) for point in points]
    noises = [noise(point["stirring"]) for point in points]
    for what, said, true in (
        ("error of the mean", found.epistemic, errors),
        ("noise", found.aleatoric, noises),
    ):
        said, true = np.sqrt(np.mean(said)), np.sqrt(np.mean(np.square(true)))
        print(f"{what}, root mean square: {true:.1f} % points; estimated {said:.1f}")
    slow = np.mean([row["stirring"] < 300 for row in campaign.export()])
    print(f"{slow:.0%} of the measurements were stirred below 300 rpm, 22% of the range")


def draw(campaign: Campaign, path: Path) -> None:
    """Draw the learning curve, the measured settings, and the two parts of the uncertainty."""
    with figures.style():
        figure, axes = plt.subplots(1, 3, figsize=(13.5, 4.4), layout="constrained")
        plot_remaining_share(axes[0], campaign.status().curve)
        draw_runs(axes[1], campaign.export())
        draw_parts(axes[2], campaign)
        figure.savefig(path, dpi=100)
    plt.close(figure)


def draw_runs(axes: Axes, rows: list[dict[str, Any]]) -> None:
    """Temperature and stirring of every run."""
    for solvent, marker, colour in (("water", "o", 0), ("ethanol", "^", 3)):
        own = [row for row in rows if row["solvent"] == solvent]
        place = [row["temperature"] for row in own], [row["stirring"] for row in own]
        axes.scatter(*place, s=22, marker=marker, color=figures.PALETTE[colour], label=solvent)
    axes.axhline(300, color=figures.DATA, linestyle=":", label="below: noise ≥ 10")
    axes.set(xlabel="temperature (°C)", ylabel="stirring (rpm)", title="Measured settings")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=3)


def draw_parts(axes: Axes, campaign: Campaign) -> None:
    """Both parts of the uncertainty along the stirring speed, and the true noise."""
    speeds = np.linspace(100, 1000, 40).astype(int)
    points = [{"temperature": 60.0, "stirring": int(s), "solvent": "ethanol"} for s in speeds]
    split = campaign.model().decompose(campaign.space.encode(points), by="variance")
    found = split.standard_deviations()
    axes.plot(speeds, noise(speeds), "--", color=figures.TRUTH, label="true noise")
    axes.plot(speeds, found.aleatoric, color=figures.ALEATORIC, label="aleatoric part, found")
    axes.plot(speeds, found.epistemic, color=figures.EPISTEMIC, label="epistemic part, left")
    axes.set(xlabel="stirring (rpm)", ylabel="deviation of the yield (% points)")
    axes.set(title="The two parts at 60 °C in ethanol", ylim=(0, None))
    axes.legend()


def main() -> None:
    """Open or create the campaign, run it to the end, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    parser.add_argument("--smoke", action="store_true", help="a short run of a few seconds")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")  # short fits warn that they are short
    enable_compile_cache()
    place = arguments.output / ("smoke.db" if arguments.smoke else "reactor.db")
    if place.exists():
        campaign = Campaign.open(place)
        print(f"resuming {place}, {campaign.status().measurements} measurements so far")
    else:
        settings = SMOKE_SETTINGS if arguments.smoke else SETTINGS
        campaign = Campaign.create(place, INPUTS, ["yield"], settings=settings)
    run(campaign, batch=12 if arguments.smoke else 32, most=24 if arguments.smoke else 512)
    compare(campaign)
    draw(campaign, place.with_suffix(".png"))
    print(f"wrote {place.with_suffix('.png')}")


if __name__ == "__main__":
    main()
