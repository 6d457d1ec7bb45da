"""Registry of all tables and figures of the paper, and of further experiments.

A piece's name is used on the command line (``python -m paper table_1``), in the documentation, and
for its module if it has its own. Records keep their names over time; a piece names the record that
it writes.
"""

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple


class Piece(NamedTuple):
    """A table or figure: its place in the paper, what it shows, and how it is made.

    ``maker`` names a module of this package and its function, which is called with ``arguments``
    and a ``records.Context``. ``kept`` is a pattern of metrics that other pieces write into the
    same record; ``work`` is a work folder that is kept when the source changes, for runs that take
    days.
    """

    place: str
    shows: str
    maker: str
    arguments: tuple[str, ...] = ()
    record: str | None = None
    in_jobs: bool = False
    kept: str = ""
    work: str | None = None

    def load_maker(self) -> Callable[..., Any]:
        """Import the module and return the function."""
        module, _, function = self.maker.partition(":")
        return getattr(import_module(f"paper.{module}"), function)

    def keeps(self, metric: str) -> bool:
        """Whether a metric of the record belongs to another piece."""
        return bool(self.kept and re.search(self.kept, metric))


BEYOND = "beyond the paper"
STAGED = "langevin|ensemble|default"  # methods, in patterns
# Metrics of the library's own policies in the record of the paper's frontier.
PRODUCT = "(large_log/)?(over_neutral|abstained|product)/"


def _split(place: str, shows: str, name: str) -> Piece:
    return Piece(place, shows, "toy_figures:draw_splits", (name,), work="posteriors")


def _table_1(shows: str, function: str, *arguments: str) -> Piece:
    record = None if arguments else "table1"
    return Piece("Table 1", shows, f"table_1:{function}", arguments, record, work="table_1")


def _frontier(place: str, shows: str, record: str) -> Piece:
    return Piece(
        place, shows, "frontiers:trace_frontier", (record,), record, in_jobs=True, work="frontiers"
    )


def _beyond(shows: str, maker: str, record: str | None, **more: Any) -> Piece:
    return Piece(BEYOND, shows, maker, record=record, **more)


def _reference(shows: str, form: str, held_against: str) -> Piece:
    return Piece(
        BEYOND,
        f"the reference posterior of {shows}, on a GPU",
        "posteriors:compare_halves",
        (form,),
        "posteriors",
        # Comparisons with an earlier reference are removed with it.
        kept=f"^wet_chicken/|^(?!.*/{form}/|.*/({held_against})/epistemic_)",
        work="posteriors",
    )


PIECES = {
    "figure_1": _split("Figure 1", "the split on heteroscedastic data", "figure_1"),
    "figure_2": _split("Figure 2", "the split on bimodal data", "figure_2"),
    "figure_3": Piece(
        "Figure 3",
        "the split on wet-chicken's dynamics",
        "figure_3:map_wet_chicken",
        record="wet_chicken_map",
    ),
    "table_1": _table_1("active learning, with Gaussian processes", "learn_all_blocks")._replace(
        in_jobs=True
    ),
    "table_1_paper": _table_1("its block with the paper's posterior", "learn_block", "paper"),
    "table_1_default": _table_1(
        "its block with the default posterior's ensemble", "learn_block", "default"
    ),
    "table_1_together": _table_1("its block of joint batches", "learn_block", "together"),
    "table_1_gp": _table_1("its block of Gaussian processes", "learn_block", "gp"),
    "table_1_record": _table_1(
        "its record, of the blocks that are finished", "compose_record"
    )._replace(kept="."),
    "table_1_figure": Piece("Table 1", "its curves", "table_1_report:draw_curves"),
    "figure_4a": _frontier(
        "Figure 4a", "cost and bias, industrial benchmark", "industrial_frontier"
    ),
    "figure_4a_paper": Piece(
        "Figure 4a",
        "its policies of the paper's model",
        "frontiers:retrace_paper",
        ("industrial_frontier",),
        "industrial_frontier",
        in_jobs=True,
        kept="^(?!alpha/).*/test_log_likelihood/",
        work="frontiers",
    ),
    "figure_4b": _frontier("Figure 4b", "cost and bias, wind turbine", "wind_frontier")._replace(
        kept=f"^{PRODUCT}"
    ),
    "figure_5": _frontier("Figure 5", "roll-outs, industrial benchmark", "industrial_frontier"),
    "appendix_a": _split("Appendix A", "the toys with Hamiltonian Monte Carlo", "appendix_a"),
    "appendix_b": _split("Appendix B", "the toys with α = 0.5 and variational Bayes", "appendix_b"),
    "split_default": _split(BEYOND, "the toys with the default posterior", "split_default"),
    "toy_fit": _beyond(
        "test log-likelihood on the toy problems", "toy_fit:score_toy_fits", "toy_fit"
    ),
    "alpha_vs_hmc": _beyond(
        "posteriors against Hamiltonian Monte Carlo",
        "alpha_vs_hmc:compare_with_hmc",
        "alpha_vs_hmc",
        work="posteriors",
    ),
    "alpha_vs_hmc_default": _beyond(
        "the same, default and quick posterior",
        "alpha_vs_hmc:compare_default_with_hmc",
        "alpha_vs_hmc",
        kept="^(?!.*/(langevin|ensemble|hmc)/)",
        work="posteriors",
    ),
    "calibration": _beyond(
        "calibration on the toy problems",
        "calibration:score_calibration",
        "calibration",
        work="posteriors",
    ),
    "entropy_estimators": _beyond(
        "entropy estimators on known densities",
        "entropy_estimators:compare_estimators",
        "entropy_estimators",
    ),
    "uci": _beyond(
        "the UCI regression sets, α = 1", "uci:score_sets", "uci", in_jobs=True, kept="/default"
    ),
    "uci_default": _beyond(
        "the UCI regression sets, default posterior",
        "uci:score_sets_by_default",
        "uci",
        in_jobs=True,
        kept="^(?!.*/default)",
    ),
    "reference_paper": _reference("the paper's model", "hmc", "(alpha|vb)[^/]*"),
    "reference_latent": _reference("the default's model, with z", "reference", STAGED),
    "reference_plain": _reference("the default's model, without z", "reference_plain", STAGED),
    "posteriors": _beyond(
        "posteriors compared with a reference and the truth",
        "posteriors:compare_posteriors",
        "posteriors",
        kept="/(seconds_|hmc/|reference/|reference_plain/)",
        work="posteriors",
    ),
    "posteriors_default": _beyond(
        "the same, default and quick posterior",
        "posteriors:compare_staged",
        "posteriors",
        kept=f"^wet_chicken/|^(?!.*/({STAGED})/)",
        work="posteriors",
    ),
    "posteriors_default_river": _beyond(
        "the same on wet-chicken",
        "posteriors:compare_staged_on_river",
        "posteriors",
        kept=f"^(?!wet_chicken/({STAGED})/)",
        work="posteriors",
    ),
    "posteriors_figure": _beyond(
        "their quality against seconds", "posteriors_report:draw_tradeoffs", None
    ),
    "off_manifold": _beyond(
        "posteriors far from the data, in 60 dimensions",
        "off_manifold:compare_away",
        "off_manifold",
    ),
    "small_tables": _beyond(
        "tables of 30 to 150 rows against a Gaussian process",
        "small_tables:score_small_tables",
        "small_tables",
        in_jobs=True,
    ),
    "out_of_bag": _beyond(
        "out-of-bag scores against scores of new rows",
        "out_of_bag:compare_scores",
        "out_of_bag",
        in_jobs=True,
    ),
    "split_truth": _beyond(
        "the split against the true noise, from 50 to 1,600 rows",
        "split_truth:compare_splits",
        "split_truth",
        in_jobs=True,
    ),
    "off_manifold_default": _beyond(
        "the same, default and quick posterior",
        "off_manifold:compare_defaults_away",
        "off_manifold",
        kept="^(?!.*/(langevin|ensemble|ensemble_planning|sghmc)/)",
    ),
    "batch_choice": _beyond(
        "several measurements at a time", "batch_choice:compare_choices", "batch_choice"
    ),
    "amortised": _beyond("one network for every q(z)", "amortised:compare_latents", "amortised"),
    "systems": _beyond(
        "costs of the systems under simple policies",
        "systems:measure_systems",
        "systems",
        kept="/steps_per_second/|/original/",
    ),
    "systems_speed": _beyond(
        "speed of the industrial benchmark", "systems:measure_speed", "systems", kept="."
    ),
    "systems_original": _beyond(
        "costs of the original industrial benchmark",
        "industrial_checks:measure_original",
        "systems",
        kept=".",
    ),
    "river": _beyond("canoes on the wet-chicken river", "systems:draw_river", None),
    "wind_product": _beyond(
        "recommended policies for the wind turbine, wind as an exogenous column",
        "wind_product:measure_product",
        "wind_frontier",
        kept=f"^(?!{PRODUCT})",
        work="wind_product",
    ),
    "wet_chicken_frontier": _frontier(
        BEYOND, "policy search on wet-chicken", "wet_chicken_frontier"
    ),
    "industrial_quick": _frontier(BEYOND, "figure_4a in a quarter of an hour", "industrial_quick"),
    "industrial_random_batch": _beyond(
        "industrial benchmark, random batch",
        "industrial_random_batch:search_by_model",
        "industrial_random_batch",
        kept="^(direct|gap)/",
        work="frontiers",
    ),
    "industrial_gap": _beyond(
        "what the model, the search and its budget lose against the simulator",
        "search_gap:locate_gap",
        "industrial_random_batch",
        kept="^(?!gap/)",
        work="frontiers",
    ),
    "selection": _beyond(
        "the recommended policy against the truth",
        "selection:judge_selection",
        "selection",
        work="frontiers",
    ),
    "dynamics": _beyond(
        "posteriors as models of dynamics",
        "dynamics:compare_posteriors",
        "dynamics",
        work="frontiers",
    ),
    "industrial_direct": _beyond(
        "the same policy network tuned on the simulator",
        "industrial_random_batch:search_on_simulator",
        "industrial_random_batch",
        kept="^(?!direct/)",
    ),
}


def commands_for(record: str) -> list[str]:
    """The commands that write a record: one, or several that share it."""
    names = [name for name, piece in PIECES.items() if piece.record == record]
    return [f"python -m paper {name}" for name in names if name == names[0] or PIECES[name].kept]
