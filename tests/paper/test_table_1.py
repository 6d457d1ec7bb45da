"""Table 1: the problems' truth, the arms' courses, and what is made of them."""

import numpy as np
import pytest

from paper import learning, table_1, table_1_report
from paper.learning import Arm, Size, learn
from paper.learning_problems import LEARNING_PROBLEMS, river_log_density
from paper.records import Context, Record
from paper.table_1 import add_oracles, add_scores
from twofold import Decomposition
from twofold.active import Data
from twofold.core.persistence import OtherRunError
from twofold.uncertainty.decomposition import Parts

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

# Safe water, the bank where it may land at y = 0, the edge where it may fall, both.
PLACES = np.array([[4.0, 1.7, 0.5, 0.5], [0.5, 1.0, -1, 0], [4.5, 4.0, 1, 1], [0.0, 2.5, 0.3, 1.0]])
BLUR = np.array([0.2, 0.3])


@pytest.mark.parametrize("place", PLACES, ids=["safe", "landing", "falling", "both"])
def test_density_of_the_river_is_that_of_its_steps(place, rng):
    river = LEARNING_PROBLEMS["wet_chicken"]
    landed = river.respond(rng, np.repeat(place[None], 200_000, axis=0))
    for y in landed[:5] + BLUR * rng.normal(size=(5, 2)):
        squares = np.square((y - landed) / BLUR).sum(axis=1)
        kernels = np.exp(-0.5 * squares) / (2 * np.pi * BLUR.prod())
        error = kernels.std() / np.sqrt(len(kernels))
        found = np.exp(river_log_density(place[None], y[None], BLUR))[0]
        assert abs(found - kernels.mean()) < 5 * error + 1e-12


def test_density_of_the_river_is_one_in_all():
    """By the trapezoidal rule, whose steps are a twentieth of the blur."""
    x, y = np.arange(-1.5, 6.5, 0.01), np.arange(-2.0, 7.0, 0.015)
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    for place in PLACES:
        density = np.exp(river_log_density(np.tile(place, (len(points), 1)), points, BLUR))
        assert density.sum() * 0.01 * 0.015 == pytest.approx(1.0, abs=1e-3)


def test_the_rivers_density_has_no_underflow_far_from_where_it_can_land():
    far = river_log_density(PLACES[:1], np.array([[4.5, 4.99]]), np.array([0.01, 0.001]))
    assert np.isfinite(far).all() and far[0] < -1000


@pytest.mark.parametrize("name", LEARNING_PROBLEMS)
def test_problems_depend_on_their_seed_alone(name):
    problem = LEARNING_PROBLEMS[name]
    sizes = (7500, 2500) if name == "wet_chicken" else (750, 500)
    assert (len(problem.initial(1).x), len(problem.test(1).x)) == sizes
    pool = problem.pool(1, 3, 50)
    assert pool.shape == (50, len(problem.low))
    assert (pool >= problem.low).all() and (pool <= problem.high).all()
    np.testing.assert_array_equal(pool, problem.pool(1, 3, 50))
    assert not np.array_equal(pool, problem.pool(1, 4, 50))
    first, again = (problem.measure(1, 3, pool[:5]) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(problem.initial(1).y, problem.initial(2).y)
    assert not np.array_equal(problem.test(1).y[:500], problem.initial(1).y[:500])


class Stopped(Exception):
    """What a kill looks like from inside."""


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def part():
    return next(p for p in table_1.list_parts(smoke=True) if p.name == "default/toys")


@pytest.fixture(scope="module")
def whole(part, work):
    """The course of one part of the table, in the work folder."""
    return part.learn(work)


def test_a_course_goes_on_exactly_where_it_was_stopped(part, whole, tmp_path):
    fit = learning.fit_networks(part.arms, part.size, *part.training)

    def stopped_in_round_one(number, data):
        if number == 1:
            raise Stopped
        return fit(number, data)

    elsewhere = part.file(tmp_path)
    with pytest.raises(Stopped):
        learn(part.arms, stopped_in_round_one, part.size, elsewhere)
    before = learning.read_course(elsewhere, len(part.arms))
    assert before.rounds == 1 and len(before.scores) == 1
    rest = learn(part.arms, fit, part.size, elsewhere)
    for name in ("x", "y", "scores", "noise"):
        np.testing.assert_array_equal(getattr(rest, name), getattr(whole, name))
    assert rest.seconds > before.seconds
    other = part._replace(training=part.training._replace(updates=7))
    with pytest.raises(OtherRunError, match="settings"):
        learning.read_course(other.file(tmp_path), len(part.arms))
    assert learning.read_origin(elsewhere)["device"].startswith(("cpu", "gpu"))


def test_choices_follow_their_scores():
    """A stub with a known split: each method takes what it is after."""
    pool = np.arange(6.0)[:, None]

    class Model:
        def decompose(self, x, joint):
            epistemic = np.array([0.0, 0.1, 0.2, 0.3, 0.9, 0.8])
            total = np.array([9.0, 8.0, 1.0, 1.0, 2.0, 2.0])
            return Decomposition("entropy", total, epistemic, total - epistemic, Parts(0, 0, 0))

        def conditional_moments(self, x):
            # The two best points are copies of each other.
            draws = np.random.default_rng(0).normal(size=(50, 6))
            draws[:, 5] = draws[:, 4]
            return draws[:, None], np.full((50, 1, 6), 1e-3)

        def entropy(self, x):
            return -np.abs(x[:, 0] - 1.8)

    pick = [set(learning.choose(m, Model(), pool, 2, 0)) for m in ("epistemic", "total", "gp")]
    assert pick == [{4, 5}, {0, 1}, {1, 2}]
    assert set(learning.choose("together", Model(), pool, 2, 0)) == {4, 3}
    with pytest.raises(ValueError, match="unknown strategy 'epistemc'"):
        learning.choose("epistemc", Model(), pool, 2, 0)
    random = [tuple(learning.choose("random", None, pool, 2, seed)) for seed in range(20)]
    assert len(set(random)) > 5


def test_gaussian_processes_take_their_hyperparameters_from_the_round_of_their_turn(rng):
    size = Size(taken=2, refitted=3)
    arms = [Arm("heteroscedastic", "gp", 0)]
    x = rng.uniform(-5, 5, (40, 1))
    data = Data(x, np.sin(x[:, 0]) + 0.1 * rng.normal(size=40))
    first = learning.fit_processes(arms, size)
    at_turn = first(3, [Data(data.x[:36], data.y[:36])])[0].hyperparameters_
    (later,) = first(5, [data])
    (resumed,) = learning.fit_processes(arms, size)(5, [data])
    for one, other in zip(later.hyperparameters_, resumed.hyperparameters_, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(at_turn.noise, later.hyperparameters_.noise)
    assert len(later.x_) == 40


def test_a_record_holds_the_finished_parts_and_its_figure_all_curves(part, whole, work, tmp_path):
    context = Context(True, work, tmp_path)
    record = table_1.compose_record(context)
    values = record.metrics
    own = [i for i, arm in enumerate(part.arms) if arm[:2] == ("bimodal", "epistemic")]
    final = whole.scores[-1, own]
    score = "bimodal/epistemic/default/test_log_likelihood"
    assert values[f"{score}/mean"] == pytest.approx(final.mean())
    assert values[f"{score}/se"] == pytest.approx(final.std(ddof=1) / np.sqrt(2))
    assert values["seconds"] == values["seconds/default/toys"] == pytest.approx(whole.seconds)
    assert values["repetitions"] == 2 and values["iterations"] == 2
    assert not any(name.startswith("wet_chicken") or "/paper/" in name for name in values)
    assert record._settings["rounds_done"]["paper/river"] == 0
    record.write(tmp_path)
    lines = (tmp_path / "table1.csv").read_text().splitlines()
    row = f"default,bimodal,epistemic,2,{final.mean():.4f},{final.std(ddof=1) / 2**0.5:.4f}"
    assert row in lines and len(lines) == 1 + 2 * 3 * 3
    # Curves of parts that were learnt elsewhere stay, those of this one are replaced.
    elsewhere = "gp,bimodal,gp,0,-3.0000,0.1000"
    stale = row.replace(row.split(",")[4], "9.0000")
    (tmp_path / "table1.csv").write_text("\n".join([lines[0], elsewhere, stale]) + "\n")
    table_1.compose_record(context)
    assert (tmp_path / "table1.csv").read_text().splitlines() == [lines[0], elsewhere, *lines[1:]]
    (picture,) = table_1_report.draw_curves(context)
    assert picture.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(SystemExit, match="to make a record of"):
        table_1.compose_record(Context(True, tmp_path / "empty", tmp_path))


@pytest.mark.slow
def test_all_blocks_of_table_1(tmp_path):
    record = table_1.learn_all_blocks(Context(True, tmp_path, tmp_path))
    places = [f"{m}/{b}" for m in table_1.METHODS for b in ("paper", "default")]
    for problem in LEARNING_PROBLEMS:
        for place in (*places, "together/default", "gp"):
            score = f"{problem}/{place}/test_log_likelihood"
            assert -1000 < record.metrics[f"{score}/mean"] < 10
            assert record.metrics[f"{score}/se"] > 0
        assert f"{problem}/oracle/test_log_likelihood" in record.metrics


def test_metrics_are_means_and_differences_of_the_same_repetition():
    record = Record("table1", {}, [])
    finals = {
        ("default", "bimodal", "epistemic", 2000): -2.0,
        ("default", "bimodal", "epistemic", 2001): -3.0,
        ("default", "bimodal", "total", 2000): -2.1,
        ("default", "bimodal", "total", 2001): -3.3,
        ("default", "bimodal", "together", 2000): -1.5,
        ("default", "bimodal", "together", 2001): -2.5,
    }
    add_scores(finals, {("bimodal", 2000): -1.5, ("bimodal", 2001): -1.9}, record)
    values = record.metrics
    assert values["bimodal/epistemic/default/test_log_likelihood/mean"] == pytest.approx(-2.5)
    assert values["bimodal/epistemic/default/test_log_likelihood/se"] == pytest.approx(0.5)
    assert values["bimodal/epistemic_over_total/default/mean"] == pytest.approx(0.2)
    assert values["bimodal/epistemic_over_total/default/se"] == pytest.approx(0.1)
    assert values["bimodal/together_over_epistemic/default/mean"] == pytest.approx(0.5)
    assert values["bimodal/epistemic/default/oracle_gap/mean"] == pytest.approx(0.8)
    deviations = [LEARNING_PROBLEMS["bimodal"].initial(seed).y.std() for seed in (2000, 2001)]
    standardised = values["bimodal/epistemic/default/test_log_likelihood_standardised/mean"]
    assert standardised == pytest.approx(-2.5 + np.log(deviations).mean())


def test_oracle_of_a_toy_is_its_log_density_at_the_test_points():
    arms = [Arm("bimodal", "epistemic", seed) for seed in (1, 2)]
    course = learning.Course(1, *[np.zeros(0)] * 3, np.ones((2, 1)), 0.0)
    record = Record("table1", {}, [])
    found = add_oracles([(arms, course)], Size(), record)
    problem = LEARNING_PROBLEMS["bimodal"]
    expected = [problem.log_density(*problem.test(seed), np.ones(1)).mean() for seed in (1, 2)]
    assert list(found.values()) == pytest.approx(expected)
    assert record.metrics["bimodal/oracle/test_log_likelihood"] == pytest.approx(np.mean(expected))
