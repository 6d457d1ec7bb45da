"""Claims about the split on toy problems and wet-chicken (§4, appendices A and B)."""

from collections.abc import Callable, Mapping

import numpy as np

from paper.claim import (
    Check,
    Claim,
    Number,
    Values,
    correlated,
    difference,
    number,
    over_seeds,
)

NOISE_NATS = 0.1  # 0.1 nats is about 10 % of the width of the noise
DIP = 0.25  # "almost symmetric": mirrored points differ by less than a quarter of the dip
SMALL_BIAS = 0.05  # nats; "works well"
FAST = 1.0  # a ratio of times
SIMILAR = 0.1  # of a ratio to 1
Checks = Callable[[Values], list[Check]]


def follows(problem: str, method: str, part: str = "epistemic") -> Checks:
    """Rank correlation of a part with the scarcity of data."""
    return correlates(f"{problem}/{method}/scarcity_correlation_{part}")


def misses(problem: str, method: str) -> Checks:
    """The total does not follow the scarcity of data."""
    return stays_below(f"{problem}/{method}/scarcity_correlation_total", 0.5)


def noise_known(problem: str, method: str) -> Checks:
    """Error of the aleatoric entropy at points with plentiful data."""
    return stays_below(f"{problem}/{method}/aleatoric_abs_error_where_plentiful", NOISE_NATS)


def symmetric(problem: str, method: str) -> Checks:
    """Difference of mirrored points over the depth of the dip."""
    return stays_below(f"{problem}/{method}/aleatoric_asymmetry", DIP)


def like_hmc(problem: str, method: str) -> Checks:
    """Rank correlation of the epistemic part with that of the chains."""
    return correlates(f"{problem}/{method}/rank_correlation")


def vanishes(problem: str) -> Checks:
    """Decrease of the mean epistemic part from α = 1 to 0.5 to variational Bayes."""
    steps = {"1 → 0.5:": ("alpha_1", "alpha_0.5"), "0.5 → 0:": ("alpha_0.5", "vb")}
    return exceeds(f"{problem}/{{}}/mean_epistemic", steps)


def better_than_lower(problem: str) -> Checks:
    """How much better α = 1 ranks inputs (compared with the chains) than lower values."""
    others = {"over 0.5:": ("alpha_1", "alpha_0.5"), "over VB:": ("alpha_1", "vb")}
    return exceeds(f"{problem}/{{}}/rank_correlation", others)


def correlates(name: str) -> Checks:
    """A rank correlation of the record."""
    return lambda values: correlated(number(values, name))


def stays_below(name: str, line: float) -> Checks:
    """A number of the record below a threshold."""
    return lambda values: [Check(number(values, name), line, above=False)]


def exceeds(name: str, pairs: Mapping[str, tuple[str, str]]) -> Checks:
    """Difference of a quantity between the methods of each pair."""
    return lambda values: [
        Check(difference(values, name.format(one), name.format(other)), label=label)
        for label, (one, other) in pairs.items()
    ]


def _on_both(checks: Callable[..., Checks], problem: str, *words: str) -> tuple[Checks, Checks]:
    """Checks for the paper's posterior and for the default."""
    return checks(problem, "alpha_1", *words), checks(problem, "langevin", *words)


def gaussian_limit() -> float:
    """Best expected log-likelihood of a Gaussian prediction of the bimodal problem: with the true
    mean and variance at every x of the test range."""
    x = np.linspace(-0.5, 2.0, 2001)
    variance = 1.0 + 25.0 * np.square(np.sin(x) - np.cos(x))
    return float(np.mean(-0.5 * np.log(2.0 * np.pi * np.e * variance)))


def _two_humps(values: Values) -> list[Check]:
    return [Check(number(values, "bimodal/test_log_likelihood"), gaussian_limit())]


def _corners(part: str, higher: str, lower: str, above: bool = True) -> Checks:
    names = f"{higher}/{part}", f"{lower}/{part}"
    return lambda values: [Check(difference(values, *names), above=above)]


def _maximum(values: Values) -> list[Check]:
    share = Number(values["epistemic_maximum/share_in_top_right"])
    return [Check(share, 0.5, label="share of seeds:")]


def _small_bias(values: Values) -> list[Check]:
    checks = []
    for target, label in (("gaussian", "1-D:"), ("gaussian_2d", "2-D:")):
        name = f"{target}/500/nearest_neighbour/bias"
        checks.append(
            Check(Number(abs(values[name]), values[f"{name}/se"]), SMALL_BIAS, False, 3, label)
        )
    return checks


def _faster_than_kernels(values: Values) -> list[Check]:
    checks = []
    for size in (500, 10_000):
        times = [
            values[f"gaussian/{size}/{name}/milliseconds"]
            for name in ("nearest_neighbour", "kernel_density")
        ]
        checks.append(Check(Number(times[0] / times[1]), FAST, False, label=f"{size:,} draws:"))
    return checks


def _more_data(values: Values) -> list[Check]:
    """Decrease of the epistemic part from 50 to 1,600 rows, and ratio of estimated to true noise
    there."""
    problems = [name.split("/")[0] for name in values if name.endswith("/epistemic_falls")]
    falls = [
        values[f"{one}/50/epistemic/mean"] - values[f"{one}/1600/epistemic/mean"]
        for one in problems
    ]
    ratio = over_seeds([values[f"{one}/1600/noise_ratio/mean"] for one in problems])
    label = "noise, estimated over true:"
    return [
        Check(over_seeds(falls), label="fall in nats:"),
        Check(ratio, 1.0 - SIMILAR, label=label),
        Check(ratio, 1.0 + SIMILAR, above=False, label=label),
    ]


HET, BIM = "heteroscedastic", "bimodal"
TOY = [
    Claim(
        "§4, Fig. 1f",
        "Heteroscedastic: the epistemic part is high where data are scarce; rank correlation",
        *_on_both(follows, HET),
    ),
    Claim(
        "§4, Fig. 1d",
        "Heteroscedastic: the total does not find the scarce regions; rank correlation",
        *_on_both(misses, HET),
    ),
    Claim(
        "§4, Fig. 1e",
        "Heteroscedastic: the split is accurate; error of the aleatoric entropy in nats",
        *_on_both(noise_known, HET),
    ),
    Claim(
        "§4, Fig. 2f",
        "Bimodal: the epistemic part rises to the right, where data are scarce; rank correlation",
        *_on_both(follows, BIM),
    ),
    Claim(
        "§4, Fig. 2d",
        "Bimodal: the total rises there too; rank correlation",
        *_on_both(follows, BIM, "total"),
    ),
    Claim(
        "§4, Fig. 2e",
        "Bimodal: the aleatoric part is almost symmetric; difference of mirrored points over the "
        "depth of the dip",
        *_on_both(symmetric, BIM),
    ),
    Claim(
        "§4, Fig. 2e",
        "Bimodal: the aleatoric part follows the noise; error in nats",
        *_on_both(noise_known, BIM),
    ),
    Claim(
        "App. A",
        "Heteroscedastic, HMC: the split is the model's own, not the approximation's; rank "
        "correlation of HMC's epistemic part with the scarcity of data",
        follows(HET, "hmc"),
    ),
    Claim("App. A", "Bimodal, HMC: the same", follows(BIM, "hmc")),
    Claim(
        "§4, App. A",
        "Heteroscedastic: the splits of α = 1 and HMC are similar; rank correlation",
        *_on_both(like_hmc, HET),
    ),
    Claim(
        "§4, App. A",
        "Bimodal: the same",
        *_on_both(like_hmc, BIM),
    ),
    Claim(
        "§2, §4, App. B",
        "Heteroscedastic: α = 1 splits better than lower α; gain in rank correlation with HMC",
        better_than_lower(HET),
    ),
    Claim("§2, §4, App. B", "Bimodal: the same", better_than_lower(BIM)),
    Claim(
        "App. B",
        "Heteroscedastic: the epistemic part vanishes towards variational Bayes; fall of its mean "
        "in nats",
        vanishes(HET),
    ),
    Claim("App. B", "Bimodal: the same", vanishes(BIM)),
    Claim(
        "App. B",
        "Lower α puts more and more emphasis on the latent input z",
        reason="the paper defines no measure of emphasis",
    ),
]
DATA = [
    Claim(
        "§3",
        "More data shrink the epistemic part and leave the aleatoric part; with the default "
        "posterior, means over five problems of known truth",
        _more_data,
    ),
]
FIT = [
    Claim(
        "§4, Fig. 2c",
        "The model learns the two humps; test log-likelihood against the best that a Gaussian "
        "prediction can expect",
        _two_humps,
    ),
]
RIVER = [
    Claim(
        "§4, Fig. 3d",
        "The epistemic part is highest in the top right corner",
        _maximum,
    ),
    Claim(
        "§4, Fig. 3d",
        "It is higher at the top right than at the bottom right; difference in nats",
        _corners("epistemic", "top_right", "bottom_right"),
    ),
    Claim(
        "§4, Fig. 3a",
        "Data are scarcer at the bottom right than at the top right; difference in transitions "
        "per cell",
        _corners("transitions_per_cell", "bottom_right", "top_right", above=False),
    ),
    Claim(
        "§4, Fig. 3b",
        "The total does not show that: it is not higher at the top right; difference in nats",
        _corners("total", "top_right", "bottom_right", above=False),
    ),
]
ENTROPY = [
    Claim(
        "§4",
        "Nearest neighbours (k = 25) work well in low dimensions; bias of the entropy of 500 draws "
        "in nats",
        _small_bias,
    ),
    Claim("§4", "They are faster than kernel densities; ratio of times", _faster_than_kernels),
    Claim(
        "§4",
        "Histograms need more tuning",
        reason="a matter of judgement; their errors are in [the comparison](entropy_estimators.md)",
    ),
]
