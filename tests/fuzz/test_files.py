"""Models, policies, checkpoints and projects whose bytes were changed: refused, or as they were."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

from twofold import Alpha, BNNLVRegressor, load
from twofold.cli import models
from twofold.core import persistence
from twofold.core.numerics import Standardizer
from twofold.core.persistence import FileFormatError, OtherRunError
from twofold.estimators.training import NonFiniteEnergyError
from twofold.model import network
from twofold.plant.columns import Transform
from twofold.plant.embedding import Embedding
from twofold.plant.forecast import Trial
from twofold.plant.policy import LearnedPolicy, PolicyNetwork, load_policy
from twofold.plant.project import ProjectError, open_project, write_json
from twofold.plant.quality import Doubt, MultiStep, OneStep, Quality, Scores
from twofold.tables.coding import Column


@pytest.fixture
def model_file(tmp_path, fitted):
    path = tmp_path / "model"
    fitted.save(path)
    return path


@pytest.mark.examples(60, 100_000)
def test_every_byte_of_a_model(fuzz, model_file, fitted):
    whole = model_file.read_bytes()
    step = max(1, len(whole) // fuzz.examples)
    for place in range(0, len(whole), step):
        changed = bytearray(whole)
        changed[place] ^= 1 << (place % 8)
        model_file.write_bytes(changed)
        with fuzz.unchanged(model_file), fuzz.case(FileFormatError, names=str(model_file)):
            load(model_file)
            fuzz.lost(f"byte {place} was changed, and nobody noticed")


@pytest.mark.examples(40, 500)
def test_edited_models(fuzz, edits, model_file, fitted, data):
    whole, expected = model_file.read_bytes(), fitted.predict(data[0])

    @fuzz.given(edits)
    def check(edit):
        model_file.write_bytes(edit(whole))
        with fuzz.unchanged(model_file), fuzz.case(FileFormatError, names=str(model_file)):
            if not (load(model_file).predict(data[0]) == expected).all():
                fuzz.lost("a changed model predicts otherwise")


@pytest.mark.examples(15, 200)
def test_edited_checkpoints(fuzz, edits, tmp_path, tiny, data):
    path = tmp_path / "run.checkpoint"
    method = Alpha(nodes=2, draws=2, epochs=1)
    model = BNNLVRegressor(**tiny | {"checkpoint": path, "inference": method})
    expected = model.fit(*data).predict(data[0])
    whole = path.read_bytes()

    @fuzz.given(edits)
    def check(edit):
        path.write_bytes(edit(whole))
        with fuzz.unchanged(path), fuzz.case(FileFormatError, names=str(path)):
            if not (model.fit(*data).predict(data[0]) == expected).all():
                fuzz.lost("a changed checkpoint leads elsewhere")


def small_policy():
    embedding = Embedding(("level",), ("valve",), (2,), (0,), ("level",), (), (Transform(),))
    shape = PolicyNetwork(2, (3,), (0.0,), (1.0,))
    weights = np.linspace(-1, 1, network.num_weights(shape.sizes)).astype(np.float32)
    scale = Standardizer(np.zeros(2, np.float32), np.ones(2, np.float32))
    return LearnedPolicy(embedding, shape, scale, weights, 1.0, 0.0, 0, {})


@pytest.mark.examples(30, 400)
def test_edited_policies(fuzz, edits, tmp_path):
    path, policy = tmp_path / "p.policy", small_policy()
    policy.save(path)
    whole = path.read_bytes()

    @fuzz.given(edits)
    def check(edit):
        path.write_bytes(edit(whole))
        with fuzz.unchanged(path), fuzz.case(FileFormatError, names=str(path)):
            if not (load_policy(path).weights == policy.weights).all():
                fuzz.lost("a changed policy was loaded")


@pytest.fixture
def project(tmp_path, fitted):
    """A folder like that of a search, with one policy."""
    folder = tmp_path / "project"
    (folder / "policies").mkdir(parents=True)
    about = {"transitions": 9, "episodes": 2, "held_out_transitions": 3, "logged_cost": 1.0}
    content = {"format_version": 1, "identity": {"risk_weights": [[1.0, 0.0]]}, "about": about}
    (folder / "project.json").write_text(json.dumps(content, indent=1))
    flat, scores = np.ones(2), Scores(1.0, 2.0)
    one, many = OneStep(9, scores, scores, flat, flat), MultiStep(3, 1.0, *[flat] * 5)
    doubts = (Doubt("coverage", 0.6, 0.7, "level"),)
    write_json(folder / "quality.json", asdict(Quality(("a", "b"), 2, one, many, doubts)))
    fitted.save(folder / "model.safetensors")
    small_policy().save(folder / "policies/beta-1_gamma-0.policy")
    steps = np.ones(3)
    found = Trial(
        1.0, 0.0, steps, steps, steps, steps, steps, 1.0, 2.0, {"level": 1.0}, {"level": steps}
    )
    write_json(folder / "policies/beta-1_gamma-0.json", asdict(found))
    open_project(folder)
    return folder


PARTS = ("project.json", "quality.json", "policies/beta-1_gamma-0.json")
odd_json = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.floats(), st.text(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["risk_weights", "identity", "about", "x"]), inner, max_size=3
        ),
    ),
    max_leaves=5,
)


@st.composite
def json_edits(draw):
    """A function that puts an odd value somewhere into a JSON document, or takes something out."""
    where, value, drop = draw(st.integers(0, 30)), draw(odd_json), draw(st.booleans())

    def edit(content: bytes) -> bytes:
        document = json.loads(content)
        places = [(document, key) for key in document]
        places += [(v, key) for v in document.values() if isinstance(v, dict) for key in v]
        holder, key = places[where % len(places)]
        holder[key] = value
        if drop:
            del holder[key]
        return json.dumps(document).encode()

    return edit


ODD_ARRAYS = {
    "cut": lambda a: a[..., :-1],
    "empty": lambda a: a[:0],
    "nested": lambda a: a[None],
    "flat": lambda a: a.reshape(-1)[:1],
    "integers": lambda a: a.astype(np.int64),
    "nan": lambda a: a * np.nan,
    "infinite": lambda a: a + np.inf,
    "zero": lambda a: a * 0,
    "negative": lambda a: -abs(a) - 1,
    "huge": lambda a: a.astype(float) + 1e300,
    "large": lambda a: a + 1e6,
    "double": lambda a: a.astype(float),
}
PATHS = ("/etc/passwd", "../../x.csv", "..", "", "C:\\\\x\\\\y.csv", "~/.bashrc", "table.csv\\0")
odd_values = st.one_of(odd_json, st.sampled_from(PATHS), st.sampled_from([-1, 0, 2**70, 1.5]))


def finite(value):
    """JSON as ``persistence.write`` takes it."""
    return json.loads(json.dumps(value), parse_constant=lambda _: None)


@st.composite
def forgeries(draw):
    """A function that puts something odd into the content of a file, which then has a right
    checksum: into an array, or somewhere into the metadata; or takes it out."""
    where, drop, value = draw(st.integers(0, 99)), draw(st.integers(0, 5)) == 0, draw(odd_values)
    change = draw(st.sampled_from(sorted(ODD_ARRAYS))) if draw(st.booleans()) else None

    def places(holder):
        for key in list(holder):
            yield holder, key
            if isinstance(holder[key], dict):
                yield from places(holder[key])

    def forge(stored):
        arrays, metadata = dict(stored.arrays), json.loads(json.dumps(stored.metadata))
        found = list(places(metadata if change is None else arrays))
        holder, key = found[where % len(found)]
        if drop:
            del holder[key]
        else:
            with np.errstate(all="ignore"):
                holder[key] = finite(value) if change is None else ODD_ARRAYS[change](holder[key])
        return arrays, metadata

    return forge


@pytest.mark.examples(120, 3_000)
def test_forged_models(fuzz, fitted, tmp_path, data):
    """Odd content under a right checksum: refused, or a model that predicts."""
    path = tmp_path / "model"
    columns = [Column(name, low=0.0, high=1.0) for name in "ab"]
    about = models.About(columns, ["y"], [("table.csv", "")], 0.0, 0, False)
    models.save_model(path, fitted, about)
    whole = persistence.read(path, "model")

    @fuzz.given(forgeries())
    def check(forge):
        persistence.write(path, "model", *forge(whole))
        with fuzz.unchanged(tmp_path), fuzz.case(FileFormatError, names=str(path)):
            load(path).predict(data[0])
        with fuzz.unchanged(tmp_path), fuzz.case(FileFormatError, names=str(path)):
            _, known = models.load_model(path)
            names = [] if known is None else [name for name, _ in known.tables]
            assert all(Path(name).name == name for name in names)


@pytest.mark.examples(60, 1_000)
def test_forged_policies(fuzz, tmp_path):
    path = tmp_path / "p.policy"
    small_policy().save(path)
    whole = persistence.read(path, "policy")

    @fuzz.given(forgeries())
    def check(forge):
        persistence.write(path, "policy", *forge(whole))
        with fuzz.unchanged(path), fuzz.case(FileFormatError, names=str(path)):
            policy = load_policy(path)
            columns = len(policy.embedding.observations), len(policy.embedding.actions)
            seen, done = np.ones((9, columns[0])), np.ones((8, columns[1]))
            assert np.isfinite(policy.act(seen, done)).all()


@pytest.mark.examples(20, 200)
def test_forged_checkpoints(fuzz, tmp_path, tiny, data):
    path = tmp_path / "run.checkpoint"
    method = Alpha(nodes=2, draws=2, epochs=1)
    model = BNNLVRegressor(**tiny | {"checkpoint": path, "inference": method})
    model.fit(*data)
    whole = persistence.read(path, "checkpoint")
    refused = FileFormatError, OtherRunError, NonFiniteEnergyError

    @fuzz.given(forgeries())
    def check(forge):
        persistence.write(path, "checkpoint", *forge(whole))
        with fuzz.unchanged(path), fuzz.case(*refused, names=f"{path} finite"):
            model.fit(*data)


@pytest.mark.examples(40, 800)
def test_edited_projects(fuzz, edits, project, tmp_path):
    wholes = {part: (project / part).read_bytes() for part in PARTS}

    @fuzz.given(st.sampled_from(PARTS), edits, json_edits(), st.booleans())
    def check(part, edit, json_edit, as_json):
        edit = json_edit if as_json and part.endswith("json") else edit
        (project / part).write_bytes(edit(wholes[part]))
        names = f"{project} damaged"
        with fuzz.unchanged(project), fuzz.case(ProjectError, FileFormatError, names=names):
            found = open_project(project)
            assert [one.careful_cost for one in found.trials]
            assert found.recommended is None or found.recommended in found.policies
            assert np.isfinite(found.logged_cost)
        (project / part).write_bytes(wholes[part])


@pytest.mark.examples(10, 60)
def test_files_in_each_others_place(fuzz, project, tmp_path, model_file):
    every = sorted(path for path in project.rglob("*") if path.is_file())
    copies = shutil.copytree(project, tmp_path / "copies")

    @fuzz.given(st.sampled_from(every), st.sampled_from(every))
    def check(one, other):
        one.write_bytes((copies / other.relative_to(project)).read_bytes())
        for read in (load, load_policy):
            with fuzz.unchanged(project), fuzz.case(FileFormatError, names=str(one)):
                read(one)
        with fuzz.unchanged(project), fuzz.case(ProjectError, FileFormatError, names=str(project)):
            open_project(project)
        one.write_bytes((copies / one.relative_to(project)).read_bytes())
