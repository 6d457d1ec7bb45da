"""Dates as loggers of several countries write them, against seconds counted by hand."""

import numpy as np
import pyarrow as pa
import pytest

from twofold.tables import TableError
from twofold.tables.table import Table

DAY, HOUR = 86_400.0, 3600.0


def times(*cells, **options):
    data = pa.table({"t": pa.array(cells, pa.string())})
    return Table("log.csv", "line", data, np.arange(len(cells)) + 2).times("t", **options)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (("03/03/2025 10:00", "03/03/2025 11:30"), [0.0, 1.5 * HOUR]),
        (("01/02/2025", "13/02/2025"), [0.0, 12 * DAY]),
        (("01/02/2025", "01/13/2025"), [0.0, 11 * DAY]),
        (("31.12.2024", "01.01.2025 00:00:10.5"), [0.0, DAY + 10.5]),
        (("01.02.2025", "02.02.2025"), [0.0, DAY]),
        (("1-2-2025 6:00", "28-2-2025 6:00"), [0.0, 27 * DAY]),
        (("02/13/2025 11:00 PM", "02/14/2025 12:05 am"), [0.0, HOUR + 300.0]),
        (("2025-03-01T10:00:00+01:00", "2025-03-01T10:00:00Z"), [0.0, HOUR]),
        # Clocks go from 2 to 3 and back: the zone says how much time has passed.
        (("2025-03-30T01:59:00+01:00", "2025-03-30T03:01:00+02:00"), [0.0, 120.0]),
        (("2025-10-26T02:59:00+02:00", "2025-10-26T02:01:00+01:00"), [0.0, 120.0]),
        (("2025-03-01 10:00", "", "2025-03-01 10:01Z"), [0.0, np.nan, 60.0]),
    ],
)
def test_dates_are_seconds_since_the_first(cells, expected):
    values, texts = times(*cells)
    np.testing.assert_allclose(values, expected)
    assert texts == {}


def test_an_order_that_nothing_shows_is_asked_for():
    cells = "03/04/2025", "03/05/2025"
    with pytest.raises(TableError, match=r"log.csv: column 't': .* 03/04/.*date_order='day-first'"):
        times(*cells)
    assert times(*cells, date_order="day-first").values[1] == 30 * DAY
    assert times(*cells, date_order="month-first").values[1] == DAY


def test_what_is_in_no_calendar_is_a_text():
    values, texts = times("31/13/2024", "30/12/2024", "29/02/2023", "1/1/2024 24:00")
    assert texts == {0: "31/13/2024", 2: "29/02/2023", 3: "1/1/2024 24:00"}
    assert values[1] == 0.0 and np.isnan(np.delete(values, 1)).all()


def test_a_date_among_numbers_is_a_text():
    values, texts = times("1", "2", "2025-03-01")
    np.testing.assert_array_equal(values, [1.0, 2.0, np.nan])
    assert texts == {2: "2025-03-01"}
