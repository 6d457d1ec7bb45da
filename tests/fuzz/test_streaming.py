"""Tables that are read in blocks: fitted and split, or refused in a sentence, and left alone."""

import io
import os
import shutil
import tempfile
from datetime import date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import strategies as st

from twofold import Alpha, BNNLVRegressor, decompose_table, fit_table
from twofold.estimators import streaming
from twofold.estimators.training import NonFiniteEnergyError
from twofold.tables import TableError, open_table, read_table

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

REFUSALS = (ValueError, OSError, NonFiniteEnergyError)
ROWS = 40
SMALL = {"hidden_layer_sizes": (4,), "inference": Alpha(nodes=2, draws=3, epochs=1)}
FIT = ("fit", "--setting", "epochs=1", "--setting", "hidden_layer_sizes=[4]",
       "--setting", "draws=3", "--setting", "nodes=2", "--setting", "n_latent_draws=3",
       "--setting", "n_weight_draws=2")  # fmt: skip
# A sentence about what was wrong, and a few notes.
LONGEST_SAID = 2_500


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Several blocks of a few rows, which need no more programs than one."""
    monkeypatch.setattr(streaming, "STRIP_ROWS", 4)
    monkeypatch.setattr(streaming, "BLOCK_ROWS", 16)
    monkeypatch.setattr(streaming, "POOL_ROWS", 10)


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Folders: of what is read, of what is written, and of scratch files."""
    found = [tmp_path / name for name in ("read", "written", "scratch")]
    monkeypatch.setattr(tempfile, "tempdir", str(found[2]))
    return found


def cleared(*folders):
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()


@pytest.fixture(scope="module")
def model(tiny, data):
    """A model of columns a and b."""
    pandas = pytest.importorskip("pandas")
    return BNNLVRegressor(**tiny | SMALL).fit(
        pandas.DataFrame(data[0], columns=["a", "b"]), data[1]
    )


def columns_of(rows, seed):
    generator = np.random.default_rng(seed)
    a, b, noise = generator.normal(size=(3, rows))
    return {"a": a, "b": b, "y": a - b + 0.1 * noise}


TEXTS = st.sampled_from(
    [
        "", " ", "nan", "NaN", "-", "inf", "-inf", "1e308", "-1e308", "1e-320", "1e200", "1e999",
        "text", "ä☃", "1,5", "1.5", "1_0", "0x10", "9" * 400, "-9" * 30, "x" * 3000, "x" * 140_000,
        "\0", '"', "'", "a;b", "1\n2", "\r", "\u2028", "true", "2024-03-01", "=1+1", " 3 ", "3\t",
    ]
)  # fmt: skip
HEADINGS = st.sampled_from(["a", "b", "y", "", " ", "y mean", "a.b", "ä", "\0", "1", "x" * 3000])
ENCODINGS = ["utf-8"] * 4 + ["utf-8-sig", "utf-16", "utf-16-le", "utf-32", "cp1252"]


def seldom(draw, one_in=5):
    return draw(st.integers(1, one_in)) == one_in


def changed(draw, lines):
    """Another cell, heading or length of some line of a table."""
    line = lines[draw(st.integers(0, len(lines) - 1))]
    how = draw(st.sampled_from(["cell", "cell", "cell", "heading", "less", "more", "none"]))
    if how == "cell" and line:
        line[draw(st.integers(0, len(line) - 1))] = draw(TEXTS)
    elif how == "heading" and lines[0]:
        lines[0][draw(st.integers(0, len(lines[0]) - 1))] = draw(HEADINGS)
    elif how == "less" and line:
        line.pop()
    elif how == "more":
        line.append(draw(TEXTS))
    elif how == "none":
        line.clear()


@st.composite
def texts(draw):
    """The bytes of a CSV file."""
    rows = draw(st.sampled_from([ROWS] * 5 + [0, 1, 2, 3]))
    columns = columns_of(rows, draw(st.integers(0, 9)))
    if seldom(draw):
        scale = draw(st.sampled_from([1e300, 1e-300, 1e150, 0.0, 1e30]))
        columns = {name: column * scale for name, column in columns.items()}
    if seldom(draw):
        columns[draw(st.sampled_from("aby"))] = np.full(rows, 0.1)
    lines = [
        list(columns),
        *(list(map(repr, row)) for row in np.stack([*columns.values()], 1).tolist()),
    ]
    for _ in range(draw(st.sampled_from([0, 0, 1, 1, 2, 5]))):
        changed(draw, lines)
    if seldom(draw, 12):
        lines = [
            [*line, *(f"{number} {at}" for at in range(400))] for number, line in enumerate(lines)
        ]
    delimiter = draw(st.sampled_from(",,,,;\t|"))
    if delimiter != "," and draw(st.booleans()):
        lines = [[cell.replace(".", ",") for cell in line] for line in lines]
    end = draw(st.sampled_from(["\n", "\n", "\r\n", "\r", "\n\n"]))
    text = end.join(map(delimiter.join, lines)) + end * draw(st.booleans())
    return text.encode(draw(st.sampled_from(ENCODINGS)), "replace")


def kinds(column):
    """One column as the types of Arrow have it."""
    rows = len(column)
    return [
        column,
        column.astype(np.float32),
        column.astype(np.float16),
        np.arange(rows),
        np.arange(rows, dtype=np.uint64) + np.uint64(2**64 - rows - 1),
        np.arange(rows) % 2 == 0,
        [None] * rows,
        [None if i == 3 else float(v) for i, v in enumerate(column)],
        [None if i == 3 else i for i in range(rows)],
        [float("nan") if i == 20 else v for i, v in enumerate(column)],
        [float("inf") if i == 20 else v for i, v in enumerate(column)],
        [repr(v) for v in column.tolist()],
        ["x" * 3000] * rows,
        ["ä\ud7ff\0"] * rows,
        [b"\xff"] * rows,
        [b"1.5"] * rows,
        [date(2024, 1, 1) + timedelta(days=i) for i in range(rows)],
        [datetime(1, 1, 1) if i == 0 else datetime(9999, 1, 1) for i in range(rows)],
        [timedelta(days=i) for i in range(rows)],
        [Decimal(i) / 8 for i in range(rows)],
        [Decimal(10) ** 70 + i for i in range(rows)],
        [[1.0], [2.0, 3.0], None, *[[]] * rows][:rows],
        [{"a": 1.0, "b": None}] * rows,
        pyarrow.array([str(i % 3) for i in range(rows)]).dictionary_encode(),
        pyarrow.array(column).cast(pyarrow.float64()).dictionary_encode(),
        np.full(rows, 0.1),
        column * 1e300,
        column * 1e-300,
        pyarrow.array([b"\xff"] * rows).cast(pyarrow.binary()).view(pyarrow.string()),
        pyarrow.nulls(rows, pyarrow.timestamp("s", "Mars/Olympus")),
    ]


KINDS = 30


@st.composite
def arrow_tables(draw):
    """The bytes of a Parquet file."""
    rows = draw(st.sampled_from([ROWS] * 5 + [0, 1, 2, 3]))
    columns = columns_of(rows, draw(st.integers(0, 9)))
    for name in draw(st.lists(st.sampled_from("aby"), max_size=2)):
        columns[name] = kinds(columns_of(rows, 1)[name])[draw(st.integers(0, KINDS - 1))]
    names, arrays = list(columns), list(map(pyarrow.array, columns.values()))
    if seldom(draw):
        names[draw(st.integers(0, 2))] = draw(HEADINGS)
    if seldom(draw, 12):
        names += [f"{at} " * 9 for at in range(100)]
        arrays += [pyarrow.array(np.zeros(rows))] * 100
    table = pyarrow.Table.from_arrays(arrays, names)
    table = table.select([]) if seldom(draw, 20) else table
    size, packed = draw(st.sampled_from([7, 1000])), draw(st.sampled_from(["none", "snappy"]))
    file = io.BytesIO()
    parquet.write_table(table, file, row_group_size=size, compression=packed)
    return file.getvalue()


def made(make, name):
    """A function that makes something of that name in a folder."""

    def put(folder):
        make(folder / name)
        return folder / name

    return put


ODD = {
    "missing": lambda folder: folder / "missing.csv",
    "missing parquet": lambda folder: folder / "no" / "missing.parquet",
    "folder": made(lambda path: path.mkdir(), "table.csv"),
    "folder of folders": made(lambda path: (path / "0.parquet").mkdir(parents=True), "parts"),
    "loop": made(lambda path: path.symlink_to(path), "table.csv"),
    "loop parquet": made(lambda path: path.symlink_to(path), "table.parquet"),
    "pipe": made(os.mkfifo, "table.csv"),
    "pipe parquet": made(os.mkfifo, "table.parquet"),
    "inside a file": lambda folder: made(lambda path: path.write_text("a"), "t")(folder) / "in.csv",
    "device": lambda folder: "/dev/null",
    "too long": lambda folder: folder / ("x" * 300 + ".csv"),
    "no name": lambda folder: folder / "\0.csv",
    "no text": lambda folder: folder / "\ud800.csv",
    "number": lambda folder: 3,
    "nothing": lambda folder: None,
    "empty": lambda folder: "",
}
ENDINGS = {"csv": ["csv", "csv", "txt", "parquet"], "parquet": ["parquet", "PQ", "csv"]}


@st.composite
def sources(draw, edits):
    """A function that puts a table, or something else, into a folder and returns its path."""
    kind = draw(st.sampled_from(["csv"] * 4 + ["parquet"] * 4 + ["folder"] * 2 + ["odd"]))
    if kind == "odd":
        return ODD[draw(st.sampled_from(sorted(ODD)))]
    contents = []
    for _ in range(draw(st.integers(1, 3)) if kind == "folder" else 1):
        content = draw(texts() if kind == "csv" else arrow_tables())
        contents.append(draw(edits)(content) if seldom(draw) else content)
    ending, alike = draw(st.sampled_from(ENDINGS.get(kind, [""]))), draw(st.booleans())

    def put(folder):
        if kind != "folder":
            (folder / f"table.{ending}").write_bytes(contents[0])
            return folder / f"table.{ending}"
        for index, content in enumerate(contents):
            (folder / f"{index}.parquet").write_bytes(contents[0] if alike else content)
        (folder / "note.txt").write_text("not a table")
        return folder

    return put


def sound(folder):
    """A table that nothing is wrong with."""
    lines = [
        ",".join(map(repr, row)) for row in np.stack([*columns_of(ROWS, 0).values()], 1).tolist()
    ]
    (folder / "table.csv").write_text("\n".join(["a,b,y", *lines]))
    return folder / "table.csv"


# What is right is of one shape, and so one program.
TARGETS = ["y", ["y"], "a", "c", "", [], ["y", "y"], 3, None, ["y", 3], b"y"]
INPUTS = [
    None,
    ["a", "b"],
    ["b", "a"],
    ["a", "a"],
    [],
    ["y"],
    ["c"],
    "a",
    "ab",
    3,
    [None],
    ["a", 3],
]
SETTINGS = [
    {"inference__epochs": 2}, {"inference__alpha": 0.5}, {"inference__epochs": 0},
    {"latent_dim": -1}, {"inference__batch_size": 2.5}, {"inference__epochs": 2**31 - 1},
    {"inference__batch_size": 0}, {"inference": "alpha"}, {"inference": "nuts"},
    {"inference": "x"}, {"inference__learning_rate": 1e300}, {"random_state": -1},
    {"dtype": "float16"},
    {"hidden_layer_sizes": (2**20, 2**20)}, {"checkpoint": "/no/such/state"},
]  # fmt: skip


@st.composite
def requests(draw, edits, scratches):
    """A table, and arguments of ``fit_table``, of which one kind is odd."""
    odd = draw(st.sampled_from(["table", "table", "words", "settings"]))
    put = draw(sources(edits)) if odd == "table" else sound
    words = {"target": "y", "inputs": ["a", "b"], "drop_missing": draw(st.booleans())}
    if odd == "words":
        words |= {
            "target": draw(st.sampled_from(TARGETS)),
            "inputs": draw(st.sampled_from(INPUTS)),
            "scratch": draw(st.sampled_from([None, scratches, scratches / "no"])),
        }
    return put, words, draw(st.sampled_from(SETTINGS)) if odd == "settings" else {}


@pytest.mark.examples(60, 1000)
def test_blocks(fuzz, edits, places):
    read = places[0]

    @fuzz.given(sources(edits), st.sampled_from([1, 7, 100]), st.booleans())
    def check(put, size, drop):
        cleared(read)
        path = put(read)
        names = f"{path} path codec folder table byte"
        with fuzz.unchanged(read), fuzz.case(ValueError, OSError, names=names):
            source, found = open_table(path), []
            for block in source.blocks(size):
                assert len(block.rows) == len(block.data) <= size
                found.append(block.values(source.names, drop)[0])
            assert all(np.isfinite(values).all() for values in found)
            try:
                whole = read_table(path).values(source.names, drop)[0]
            except TableError:
                return
            if not np.array_equal(np.concatenate(found), whole):
                fuzz.lost(f"{path} in blocks is not what it is as a whole")


@pytest.mark.examples(25, 500)
def test_fits(fuzz, edits, places, tiny):
    read, written, scratches = places

    @fuzz.given(requests(edits, scratches))
    def check(request):
        put, words, settings = request
        cleared(*places)
        path = put(read)
        model = BNNLVRegressor(**tiny | SMALL | {"checkpoint": written / "state"})
        with fuzz.case(*REFUSALS):
            model.set_params(**settings)
        before, refused = vars(model).copy(), True
        with fuzz.unchanged(read), fuzz.case(*REFUSALS):
            fit_table(model, path, **words)
            refused = False
            del model.feature_names_in_
            assert np.isfinite(model.predict(model.x_standardizer_.mean[None])).all()
        assert not list(scratches.iterdir()), "a scratch file is left"
        if refused and vars(model) != before:
            fuzz.lost("a refused fit has changed the model")


OUTS = ["out.csv", "out.parquet", "old.csv", "out.xlsx", "no/out.csv", "is.csv"]
NAMES = [None, ["b", "a"], ["a", "a"], ["a"], ["a", "y"], [], ["a", "c"], 3, "ab"]


@pytest.mark.examples(25, 500)
def test_splits(fuzz, edits, places, model):
    read, written, _ = places
    outs = st.one_of(st.sampled_from(OUTS[:3]), st.sampled_from(OUTS))
    names = st.one_of(st.none(), st.none(), st.sampled_from(NAMES))

    @fuzz.given(
        sources(edits), outs, names, st.booleans(), st.sampled_from(["entropy", "variance"])
    )
    def check(put, out, chosen, drop, by):
        cleared(read, written)
        (written / "is.csv").mkdir()
        (written / "old.csv").write_text("old")
        path, before, refused = put(read), contents(written), True
        with fuzz.unchanged(read), fuzz.case(*REFUSALS):
            done = decompose_table(model, path, written / out, by, inputs=chosen, drop_missing=drop)
            refused = False
            back = open_table(written / out)
            assert sum(map(len, back.blocks(9, ["y mean"]))) == done.rows
        if refused:
            assert contents(written) == before, "a piece of a file is left"


def contents(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in folder.iterdir()}


OPTIONS = ["--drop-missing", "--json", "--held-out=0", "--held-out=0.9", "--inputs=b,a",
           "--seed=7", "--by=variance"]  # fmt: skip


@pytest.mark.examples(15, 300)
def test_command_lines(fuzz, edits, places, model, run_command):
    read, written, scratches = places
    stored = scratches.parent / "model"
    model.save(stored)
    targets = st.sampled_from(["y"] * 6 + ["c", "", ","])
    options = st.lists(st.sampled_from(OPTIONS), max_size=2)

    @fuzz.given(st.one_of(st.just(sound), sources(edits)), st.booleans(), targets, options)
    def check(put, split, target, words):
        cleared(*places)
        path = put(read)
        line = [*FIT, str(path), f"--target={target}", f"--out={written}/out"]
        if split:
            line = ["decompose", str(stored), str(path), f"--out={written}/out.csv"]
        with fuzz.unchanged(read, stored), fuzz.case():
            code, out, err = run_command([*line, *words, "--stream"])
            if code not in (0, 2):
                raise RuntimeError(f"exit code {code} of {line}: {err[-2000:]}")
        fuzz.counts["refused"] += code != 0
        assert not list(scratches.iterdir()), "a scratch file is left"
        if code:
            assert not out and err.strip() and "Traceback" not in err
            assert len(err) <= LONGEST_SAID, f"{len(err)} characters"
            assert not list(written.iterdir()), "a piece of a file is left"
