"""A fit and a split of tables that are read block by block, against the same in memory."""

import os
import signal
import warnings

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from twofold import Alpha, BNNLVRegressor, Ensemble, Langevin, decompose_table, fit_table, load
from twofold.core.numerics import Running, Standardizer
from twofold.estimators import streaming
from twofold.estimators.streaming import write_scratch
from twofold.estimators.training import InterruptedFitWarning
from twofold.inference import alpha
from twofold.inference.method import resolve_method
from twofold.tables import TableError, open_table, read_table

SMALL = {
    "inference": Alpha(nodes=4, draws=5, epochs=2),
    "random_state": 0,
    "n_weight_draws": 10,
    "n_latent_draws": 10,
}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def problem(rows, seed=0):
    """Sorted inputs, so that neighbours are alike, and a noise that grows along them."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.sort(rng.uniform(-2, 2, rows)), rng.normal(size=rows)])
    return x, np.sin(2 * x[:, 0]) + 0.3 * x[:, 1] + (0.1 + 0.1 * (x[:, 0] + 2)) * rng.normal(
        size=rows
    )


def write(path, x, y, **parquet):
    columns = {"a": x[:, 0], "b": x[:, 1], "y": y}
    if path.suffix == ".csv":
        lines = [",".join(map(repr, row)) for row in np.column_stack([x, y]).tolist()]
        path.write_text("a,b,y\n" + "\n".join(lines) + "\n")
    else:
        pyarrow.parquet.write_table(pyarrow.table(columns), path, **parquet)
    return path


def small_blocks(monkeypatch, strip=32, strips=4):
    monkeypatch.setattr(streaming, "STRIP_ROWS", strip)
    monkeypatch.setattr(streaming, "BLOCK_ROWS", strip * strips)


@pytest.mark.parametrize("offset", [0.0, 1e9])
def test_merged_moments_are_those_of_all_rows(rng, offset):
    values = offset + rng.normal(size=(1000, 3)) * [1.0, 1e-3, 50.0]
    values[:, 2] = 7.0
    running = None
    for part in np.split(values, [1, 3, 400, 999]):
        running = Running.of(part) if running is None else running.merge(Running.of(part))
    expected = Standardizer.fit(values)
    found = running.standardizer()
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-14)
    # 1e9 is rounded to 1e-7, a ten-thousandth of the smallest deviation here.
    np.testing.assert_allclose(found.scale, expected.scale, rtol=1e-12 if not offset else 1e-4)
    assert running.rows == 1000
    np.testing.assert_array_equal(running.low, values.min(axis=0))
    np.testing.assert_array_equal(running.high, values.max(axis=0))


@pytest.mark.parametrize("rows", [2, 31, 128, 129, 1000])
def test_every_pass_reads_every_row_once_from_all_over_the_table(tmp_path, rng, monkeypatch, rows):
    small_blocks(monkeypatch)
    values = rng.normal(size=(rows, 3))
    found = write_scratch(tmp_path / "rows", iter(np.array_split(values, min(rows, 7))))
    np.testing.assert_allclose(found.running.mean, values.mean(axis=0), rtol=1e-12, atol=1e-15)
    assert found.rows == rows and found.blocks == -(-rows // 128)
    orders = []
    for turn in range(2):
        visits = range(turn * found.blocks, (turn + 1) * found.blocks)
        parts = [found.rows_of(visit, 5) for visit in visits]
        assert max(map(len, parts)) <= found.block_rows <= 128
        assert min(map(len, parts)) >= max(map(len, parts)) - 2 * 32
        for part in parts:
            np.testing.assert_array_equal(found.read(part), values[part])
        orders.append(np.concatenate(parts))
        np.testing.assert_array_equal(np.sort(orders[-1]), np.arange(rows))
    if rows == 1000:
        assert not np.array_equal(*orders)
        assert np.ptp(found.rows_of(0, 5)) > 500
        assert not np.array_equal(found.rows_of(0, 5), found.rows_of(0, 6))


def test_a_file_does_not_depend_on_how_it_was_read(tmp_path, rng):
    values = rng.normal(size=(100, 2))
    prints = {
        write_scratch(tmp_path / "rows", iter(np.array_split(values, n))).fingerprint
        for n in (1, 3, 50)
    }
    assert len(prints) == 1


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_a_table_in_one_block_is_fitted_as_well_as_in_memory(tmp_path, ending):
    x, y = problem(600)
    path = write(tmp_path / f"table{ending}", x, y)
    settings = {"random_state": 0, "inference": Alpha(nodes=8, draws=8, epochs=40)}
    own = BNNLVRegressor((10,), **settings).fit(x, y)
    model = fit_table(BNNLVRegressor((10,), **settings), path, target="y")
    assert list(model.feature_names_in_) == ["a", "b"] and model.n_features_in_ == 2
    np.testing.assert_allclose(model.x_standardizer_.mean, own.x_standardizer_.mean, atol=1e-14)
    np.testing.assert_allclose(model.y_standardizer_.scale, own.y_standardizer_.scale)
    test_x, test_y = problem(1000, seed=1)
    table = {"a": test_x[:, 0], "b": test_x[:, 1]}
    pandas = pytest.importorskip("pandas")
    found = model.log_likelihood(pandas.DataFrame(table), test_y)
    apart = found - own.log_likelihood(test_x, test_y)
    # The two differ in the order of the rows: as two seeds do, by less than a twentieth of a nat.
    assert abs(apart.mean()) < 4 * apart.std() / np.sqrt(len(apart)) + 0.05


def test_sorted_rows_in_many_blocks_are_fitted_as_well_as_at_once(tmp_path, monkeypatch):
    small_blocks(monkeypatch, strip=2, strips=128)
    x, y = problem(2000)
    path = write(tmp_path / "table.parquet", x, y, row_group_size=300)
    settings = {"random_state": 0, "inference": Alpha(nodes=8, draws=8, epochs=60)}
    own = BNNLVRegressor((10,), **settings).fit(x, y)
    model = fit_table(BNNLVRegressor((10,), **settings), path, target="y")
    assert len(model.energies_) == 60 * 8
    test_x, test_y = problem(1000, seed=1)
    del model.feature_names_in_
    apart = model.log_likelihood(test_x, test_y) - own.log_likelihood(test_x, test_y)
    # Two seeds of either differ by a few hundredths of a nat; one block after the other in their
    # order, the last one would be all that the model knows.
    assert abs(apart.mean()) < 4 * apart.std() / np.sqrt(len(apart)) + 0.05


@pytest.mark.parametrize(
    "settings",
    [
        {"inference": Alpha(encoder=[5], draws=5, epochs=2)},
        {"inference": Alpha(nodes=4, draws=5, epochs=2)},
        {"inference": Alpha(draws=5, epochs=2), "latent_dim": 0},
    ],
)
def test_other_methods_pass_over_blocks_too(tmp_path, monkeypatch, settings):
    small_blocks(monkeypatch)
    x, y = problem(300)
    path = write(tmp_path / "table.parquet", x, y)
    model = fit_table(
        BNNLVRegressor((5,), random_state=0, **settings),
        path,
        target="y",
        inputs=["a"],
    )
    assert model.energies_.shape == (6,) and np.isfinite(model.energies_).all()
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    del model.feature_names_in_, again.feature_names_in_
    np.testing.assert_array_equal(model.predict(x[:, :1]), again.predict(x[:, :1]))


def test_a_stopped_fit_goes_on_exactly(tmp_path, monkeypatch):
    small_blocks(monkeypatch)
    x, y = problem(300)
    path = write(tmp_path / "table.parquet", x, y)
    whole = fit_table(BNNLVRegressor((5,), **SMALL), path, target="y")
    read = streaming.Scratch.read
    stopped_at = []

    def stop(self, rows):
        stopped_at.append(len(rows))
        if len(stopped_at) == 4:
            os.kill(os.getpid(), signal.SIGINT)
        return read(self, rows)

    settings = SMALL | {"checkpoint": tmp_path / "state", "checkpoint_seconds": 1e9}
    with monkeypatch.context() as patch:
        patch.setattr(streaming.Scratch, "read", stop)
        with pytest.warns(InterruptedFitWarning, match=r"of 6 blocks"):
            half = fit_table(BNNLVRegressor((5,), **settings), path, target="y")
    assert 0 < len(half.energies_) < 6
    resumed = fit_table(BNNLVRegressor((5,), **settings), path, target="y")
    np.testing.assert_array_equal(resumed.energies_, whole.energies_)
    np.testing.assert_array_equal(resumed.posterior_.mean, whole.posterior_.mean)
    other = write(tmp_path / "other.parquet", x + 1.0, y)
    with pytest.raises(ValueError, match="belongs to another run"):
        fit_table(BNNLVRegressor((5,), **settings), other, target="y")


def test_what_grows_is_refused_with_what_it_costs(tmp_path):
    path = write(tmp_path / "table.parquet", *problem(300))
    with pytest.raises(ValueError, match=r"28 bytes for each row, .* 300 rows.*encoder"):
        fit_table(BNNLVRegressor(inference="alpha"), path, target="y")
    assert alpha.bytes_per_datum(1, 4) == 28
    with pytest.raises(ValueError, match="'nuts' needs all data in every step"):
        fit_table(BNNLVRegressor(inference="nuts"), path, target="y")


def test_the_default_passes_over_blocks_as_a_mean_field(tmp_path, monkeypatch):
    small_blocks(monkeypatch)
    monkeypatch.setattr(Alpha, "min_updates", 4)
    path = write(tmp_path / "table.parquet", *problem(300))
    with pytest.warns(UserWarning, match=r"read in blocks is fitted with Alpha\(nodes=24\)"):
        model = fit_table(BNNLVRegressor((5,), random_state=0), path, target="y")
    assert resolve_method(model.inference) == Alpha(nodes=24) and model.model_.latents == 1
    for chosen in (Langevin(), {"method": "langevin", "chains": 2}, "ensemble", Ensemble()):
        with pytest.raises(ValueError, match=r"all data in every step .* use 'alpha'$"):
            fit_table(BNNLVRegressor(inference=chosen), path, target="y")


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_bad_cells_are_named_or_left_out(tmp_path, ending):
    x, y = problem(300)
    x[217, 1] = np.nan
    path = write(tmp_path / f"table{ending}", x, y)
    where = "line 219" if ending == ".csv" else "row 217"
    with pytest.raises(TableError, match=rf"\('b' 1\), the first of them {where}; .*drop_missing"):
        fit_table(BNNLVRegressor((5,), **SMALL), path, target="y")
    model = fit_table(BNNLVRegressor((5,), **SMALL), path, target="y", drop_missing=True)
    np.testing.assert_allclose(model.x_standardizer_.mean, np.delete(x, 217, 0).mean(axis=0))
    with pytest.raises(TableError, match="no column 'c'; its columns are a, b, y"):
        fit_table(BNNLVRegressor(), path, target="c")
    with pytest.raises(TableError, match="no column twice"):
        fit_table(BNNLVRegressor(), path, target="y", inputs=["y"])


def test_text_is_named(tmp_path):
    table = pyarrow.table({"a": ["1", "2", "x"], "y": [1.0, 2.0, 3.0]})
    pyarrow.parquet.write_table(table, tmp_path / "table.parquet")
    with pytest.raises(
        TableError, match="'a' must be numbers, but 1 row has text, first 'x' in row 2"
    ):
        fit_table(BNNLVRegressor(**SMALL), tmp_path / "table.parquet", target="y")


def test_a_folder_is_one_table_and_csv_knows_decimal_commas(tmp_path):
    x, y = problem(90)
    (tmp_path / "parts").mkdir()
    for index, rows in enumerate(np.array_split(np.arange(90), 3)):
        write(tmp_path / "parts" / f"{index}.parquet", x[rows], y[rows])
    source = open_table(tmp_path / "parts")
    assert source.count_rows() == 90
    blocks = list(source.blocks(50, ["y"]))
    np.testing.assert_array_equal(np.concatenate([b.data["y"] for b in blocks]), y)
    np.testing.assert_array_equal(np.concatenate([b.rows for b in blocks]), np.arange(90))
    (tmp_path / "comma.csv").write_text("a;y\n1,5;2\n\n2,5;3\n3;4\n")
    source = open_table(tmp_path / "comma.csv")
    assert source.decimal == "," and source.names == ["a", "y"]
    assert [list(b.rows) for b in source.blocks(2, ["a"])] == [[2, 4], [5]]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fitted")
    x, y = problem(300)
    path = write(folder / "table.parquet", x, y, row_group_size=77)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit_table(BNNLVRegressor((5,), **SMALL), path, target="y"), path


def test_what_is_read_is_not_written_over(tmp_path, fitted):
    model, path = fitted
    folder = tmp_path / "parts"
    folder.mkdir()
    part = folder / f"a{path.suffix}"
    part.write_bytes(path.read_bytes())
    before = part.read_bytes()
    for source, out in ((part, part), (folder, part), (folder, folder / "new.parquet")):
        with pytest.raises(TableError, match="is the input; write to another file"):
            decompose_table(model, source, out)
    assert [one.name for one in folder.iterdir()] == [part.name] and part.read_bytes() == before


@pytest.mark.parametrize("by", ["entropy", "variance"])
@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_a_table_is_split_as_in_memory(tmp_path, monkeypatch, fitted, by, ending):
    monkeypatch.setattr(streaming, "POOL_ROWS", 70)
    model, path = fitted
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        written = decompose_table(model, path, tmp_path / f"out{ending}", by, outputs=["y"])
    x = np.column_stack([read_table(path).numbers(name).values for name in ("a", "b")])
    pandas = pytest.importorskip("pandas")
    split = model.decompose(pandas.DataFrame(x, columns=["a", "b"]), by=by)
    lists = read_table(tmp_path / f"out{ending}").to_lists()
    found = {name: np.array(cells) for name, cells in lists.items()}
    unit, root = ("nats", lambda v: v) if by == "entropy" else ("sd", np.sqrt)
    assert list(found)[:4] == ["a", "b", "y", "y_mean"] and written.rows == 300
    for part in ("total", "epistemic", "aleatoric"):
        # Blocks of another length are another program, with roundings of its own.
        np.testing.assert_allclose(
            found[f"y_{part}_{unit}"], root(getattr(split, part)), rtol=1e-5, atol=1e-6
        )
    assert written.means["y_mean"] == pytest.approx(found["y_mean"].mean())
    np.testing.assert_allclose(found["a"], x[:, 0])


def test_a_split_that_fails_leaves_nothing_behind(tmp_path, fitted, monkeypatch):
    monkeypatch.setattr(streaming, "POOL_ROWS", 70)
    model, _ = fitted
    x, y = problem(300)
    x[250, 0] = np.nan
    path = write(tmp_path / "table.parquet", x, y)
    with pytest.raises(TableError, match=r"\('a' 1\), the first of them row 250"):
        decompose_table(model, path, tmp_path / "out.parquet")
    assert [p.name for p in tmp_path.iterdir()] == ["table.parquet"]
    written = decompose_table(model, path, tmp_path / "out.parquet", drop_missing=True)
    assert written.rows == 299
    kept = read_table(tmp_path / "out.parquet").data["a"]
    np.testing.assert_array_equal(kept, np.delete(x[:, 0], 250))
    del_names = BNNLVRegressor((5,), **SMALL).fit(x[:100], y[:100])
    with pytest.raises(ValueError, match="without names"):
        decompose_table(del_names, path, tmp_path / "out.parquet")


def test_reading_keeps_no_more_than_a_few_row_groups(tmp_path, rng):
    columns = {name: rng.normal(size=200_000) for name in "abcd"}
    pyarrow.parquet.write_table(
        pyarrow.table(columns), tmp_path / "table.parquet", row_group_size=2_000
    )
    source, group = open_table(tmp_path / "table.parquet"), 2_000 * 4 * 8
    before = pyarrow.total_allocated_bytes()
    kept = [pyarrow.total_allocated_bytes() - before for _ in source.blocks(2_000)]
    assert len(kept) == 100 and max(kept) < 10 * group
