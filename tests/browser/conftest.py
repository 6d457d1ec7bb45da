"""A real browser, and one page of each kind to open in it."""

import os
import shutil
import warnings
from contextlib import contextmanager
from functools import cache

import numpy as np
import pytest

from twofold import BNNLVRegressor, Ensemble
from twofold.campaign import Continuous, Proposal, Space
from twofold.core.numerics import Standardizer
from twofold.model.network import num_weights
from twofold.plant.embedding import embed
from twofold.plant.forecast import Trial
from twofold.plant.log import Episode, Log
from twofold.plant.policy import LearnedPolicy, PolicyNetwork
from twofold.plant.project import Project
from twofold.plant.quality import Doubt, MultiStep, OneStep, Quality, Scores
from twofold.report import (
    Course,
    write_campaign_page,
    write_model_page,
    write_policy_page,
)

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (
    "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
)  # fmt: skip
STEPS, COLUMNS = 12, tuple(f"column {number}" for number in range(1, 10))


@pytest.fixture(scope="session")
def browser():
    """Chromium without a window; tests are skipped where there is none."""
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is missing: pip install playwright"
    )
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)} is on the PATH; install chromium")
    # As root, which containers often are, Chromium runs without its sandbox or not at all.
    free = ("--no-sandbox",) if os.geteuid() == 0 else ()
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=[*QUIET, *free])
        yield running
        running.close()


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    """Addresses of the pages of ``PAGES``, each made when it is first asked for."""
    folder, made = tmp_path_factory.mktemp("pages"), {}

    def address(name):
        if name not in made:
            path = folder / f"{name}.html"
            PAGES[name](path)
            made[name] = path.as_uri()
        return made[name]

    return address


@pytest.fixture
def opened(browser, pages):
    """``opened(name, script)``: a page, which must stay quiet and ask for nothing else."""

    @contextmanager
    def open_page(name, script=True):
        context = browser.new_context(java_script_enabled=script)
        page, said, asked = context.new_page(), [], []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.set_default_timeout(30_000)
        page.goto(pages(name))
        yield page
        assert said == []
        assert {url.split("#")[0] for url in asked} == {pages(name)}
        context.close()

    return open_page


def made_up_trial(beta, gamma, rng):
    """A policy the surer, and the dearer, the larger β is."""
    cost, epistemic = 10.0 + beta + 2.0 * gamma, 4.0 / (1.0 + beta)
    expected = cost + np.exp(-np.arange(STEPS) / 3.0)
    names = *COLUMNS, "flow"
    logged = dict.fromkeys(names, np.array([-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0]))
    spread = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    return Trial(
        beta,
        gamma,
        expected=expected,
        epistemic=np.full(STEPS, epistemic),
        aleatoric=np.linspace(0.5, 1.0, STEPS),
        apart=np.linspace(0.5, 1.0, STEPS),
        beyond=np.linspace(0.0, 0.6 if beta == 0 else 0.1, STEPS),
        usual=0.6,
        far=1.8,
        columns={"column 2": 0.6, "column 1": 0.1},
        riskiest={"after steps": np.arange(3.0), "column 1": rng.normal(size=3)},
        rollouts=expected + rng.normal(size=(30, STEPS)),
        visited={name: beta + np.linspace(0.3, 1.0, STEPS)[:, None] * spread for name in names},
        logged=logged,
    )


def made_up_policy(beta, gamma):
    rows = np.zeros((8, len(COLUMNS)))
    log = Log(COLUMNS, ("flow",), [0.0], [2.0], (Episode(rows, np.ones((7, 1)), name="1"),))
    embedding = embed(log)
    shape = PolicyNetwork(len(COLUMNS), (), (0.0,), (2.0,))
    plain = Standardizer(np.zeros(len(COLUMNS)), np.ones(len(COLUMNS)))
    weights = np.zeros(num_weights(shape.sizes), np.float32)
    return LearnedPolicy(embedding, shape, plain, weights, beta, gamma)


def write_policies(path):
    """The page of four policies; with γ = 1 there is one for β = 2 alone."""
    rng = np.random.default_rng(0)
    pairs = [(0.0, 0.0), (2.0, 0.0), (4.0, 0.0), (2.0, 1.0)]
    about = {"transitions": 1000, "episodes": 10, "held_out_transitions": 200, "logged_cost": 15.0}
    one = OneStep(9, Scores(0.0, 0.0), Scores(0.0, 0.0), np.full(1, 0.5), np.full(1, 0.6))
    many = MultiStep(3, 1.0, *[np.ones(STEPS)] * 5)
    project = Project(
        path.parent,
        Quality(("level",), STEPS, one, many, (Doubt("coverage", 0.6, 0.7, "level"),)),
        tuple(made_up_policy(*pair) for pair in pairs),
        tuple(made_up_trial(*pair, rng) for pair in pairs),
        about,
    )
    write_policy_page(path, project)


@cache
def fitted():
    """A model of three inputs and one output, hardly fitted, and its rows."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(30, 3))
    y = x[:, :1] + 0.3 * rng.normal(size=(30, 1))
    small = {"inference": Ensemble(members=3, updates=20), "latent_dim": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BNNLVRegressor(**small, random_state=0, verbose=False).fit(x[:20], y[:20])
    return model, x, y


def write_model(path):
    """The page of the model, with held-out rows."""
    model, x, y = fitted()
    write_model_page(
        path, model, x[:20], y[:20], inputs=["heat", "flow", "acid"], outputs=["yield"],
        held_out=(x[20:], y[20:]),
    )  # fmt: skip


def write_campaign(path):
    """The page of a course of the model's rows, with open proposals."""
    model, x, y = fitted()
    space = Space(tuple(Continuous(name, 0.0, 1.0) for name in ("heat", "flow", "acid")))
    points = [dict(zip(space.names, row, strict=True)) for row in x[:20].tolist()]
    split = {"standard_deviation": {"epistemic": {"yield": 0.2}, "aleatoric": {"yield": 0.3}}}
    open_ones = [
        Proposal(number, point, split, "where most would be learned")
        for number, point in enumerate(points[:2], start=21)
    ]
    curve = [
        {"measurements": count, "epistemic_share": share, "epistemic_nats": share}
        for count, share in ((10, 0.4), (15, 0.2), (20, 0.1))
    ]
    course = Course(
        "Reactor", space, ["yield"], points, y[:20], open_ones, curve, "go on", False, model
    )
    write_campaign_page(path, course)


PAGES = {"policy": write_policies, "model": write_model, "campaign": write_campaign}
