"""What is recorded of the wind turbine's recommended policies, beside the paper's frontier."""

import json

import numpy as np
import pytest

from paper.pieces import PIECES
from paper.records import Record
from paper.wind_product import CASES, Found, add_case, tabulate_product


def found(gains, best, recommended):
    return Found(gains, best, recommended, 0.03, 0.01, 0.002, True, {})


EVERY = [found([0.02, -0.01], 0, True), found([-0.03, 0.01], 0, False)]


def test_an_abstention_gains_nothing_and_does_not_hide_what_was_found():
    record = Record("wind_frontier", {}, [0, 1])
    add_case(record, CASES[0], EVERY)
    values = record.metrics
    assert values["over_neutral/mean"] == pytest.approx(np.mean([0.02, 0.0]))
    assert values["abstained/share"] == 0.5
    assert values["over_neutral/without_abstaining/mean"] == pytest.approx(np.mean([0.02, -0.03]))
    assert values["over_neutral/best/mean"] == pytest.approx(np.mean([0.02, 0.01]))


def test_both_pieces_of_the_record_keep_what_is_the_others(tmp_path):
    record = Record("wind_frontier", {}, [0, 1])
    for case in CASES:
        add_case(record, case, EVERY)
    paper, product = PIECES["figure_4b"], PIECES["wind_product"]
    for name in record.metrics:
        assert paper.keeps(name) and not product.keeps(name)
    for name in ("alpha/beta_0/gamma_0/true_cost/mean", "policies/alpha/0/seed", "seconds"):
        assert product.keeps(name) and not paper.keeps(name)
    (tmp_path / "wind_frontier.json").write_text(json.dumps({"metrics": record.metrics}))
    *_, small, large = tabulate_product(tmp_path).splitlines()
    assert small.startswith("| 5,000 transitions, exploration 0.15 | 0.0100 ± 0.0100 | 50% ")
    assert large.startswith("| 40,000 transitions, exploration 0.4 |")
