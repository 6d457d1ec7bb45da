"""The tutorials are stored with their output, and run at a small size."""

import pytest

from scripts import notebooks

SMALL = "inference={'method': 'ensemble', 'members': 2, 'updates': 20}, n_latent_draws=10"
CHANGES = {
    "measure": {"random_state=0": f"random_state=0, {SMALL}"},
    "split": {"random_state=0": f"random_state=0, {SMALL}"},
    "policy": {
        "Alpha(epochs=1000)": "Alpha(epochs=2, draws=5)",
        "SearchSettings(horizon=20, epochs=8)": (
            "SearchSettings(horizon=3, epochs=1, updates=2, weight_draws=4, noise_draws=2)"
        ),
    },
}


def test_there_are_three():
    assert sorted(CHANGES) == notebooks.NAMES


@pytest.mark.parametrize("name", notebooks.NAMES)
def test_output_is_stored(name):
    cells = notebooks.code_cells(notebooks.read(name))
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert sum(map(len, (cell["outputs"] for cell in cells))) >= 3
    path = notebooks.FOLDER / f"{name}.ipynb"
    assert path.stat().st_size < 200_000


@pytest.mark.parametrize("name", notebooks.NAMES)
def test_a_notebook_becomes_a_page(name):
    text, figures = notebooks.to_page(notebooks.read(name), name)
    assert text.startswith("# Tutorial ") and "```python\n" in text and "```text\n" in text
    for file, content in figures.items():
        assert f"]({file})" in text and content.startswith(b"\x89PNG")


def test_cells_share_names_and_show_what_they_print(capsys):
    cell = {"cell_type": "code", "source": ["a = 1\n", "print('one')\n", "a + 1"]}
    hidden = {"cell_type": "code", "source": "a;"}
    names = notebooks.execute({"cells": [cell, hidden]})
    assert names["a"] == 1 and cell["outputs"][0]["text"] == "one\n2\n"
    assert hidden["outputs"] == [] and hidden["execution_count"] == 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", notebooks.NAMES)
def test_a_tutorial_runs(name):
    notebook = notebooks.read(name)
    source = "".join("".join(cell["source"]) for cell in notebooks.code_cells(notebook))
    assert all(old in source for old in CHANGES[name])
    notebooks.execute(notebook, CHANGES[name])


def test_long_sentences_of_output_are_wrapped_and_tables_are_not():
    sentence, row = "  - " + "word " * 30, "1.0" + " " * 100 + "2.0"
    text = notebooks.wrap_sentences(f"{sentence.rstrip()}\n{row}\nshort")
    lines = text.splitlines()
    assert lines[-2:] == [row, "short"] and len(lines) == 4
    assert max(map(len, lines[:2])) <= notebooks.WIDTH and lines[1].startswith(" " * 6 + "word")
    assert " ".join(" ".join(lines[:2]).split()) == sentence.strip()
