"""Every fault that is put into a clean log is found, named and placed, and no other is."""

import re

import numpy as np
import pytest

from twofold.plant.log import LogError, LogWarning
from twofold.plant.log_files import check, read_log, read_raw_log


def swap(rows):
    rows[10], rows[11] = rows[11], rows[10]


def repeat(rows):
    rows.insert(51, dict(rows[50]))


def remove(rows):
    del rows[20:25]


def stick(rows):
    for row in rows[60:75]:
        row["heat"] = rows[60]["heat"]


def merge(rows):
    for row in rows:
        row["run"] = "all"


def interleave(rows):
    rows[:80] = [row for pair in zip(rows[:40], rows[40:80], strict=True) for row in pair]


def assign(column, values):
    def change(rows):
        for place, value in values.items():
            rows[place][column] = value

    return change


def everywhere(column, value):
    return lambda rows: [row.update({column: value}) for row in rows]


FAULTS = {
    "unsorted": (swap, "error", "line 13", {"sort": True}),
    "duplicate": (repeat, "error", "line 53", {"drop_duplicates": True}),
    "gap": (remove, "error", "line 22", {"split_at_gaps": True}),
    "mixed": (merge, "error", "lines 42, 82", {"split_at_restarts": True}),
    "stuck": (stick, "warning", "lines 62-76", {"drop_stuck": True}),
    "text": (assign("level", {3: "Bad", 4: "Bad"}), "error", "lines 5-6", None),
    "missing": (
        assign("level", {3: "", 9: "nan", 50: "inf"}), "error", "lines 5, 11, 52",
        {"drop_missing": True},
    ),
    "out_of_bounds": (assign("valve", {3: 1.5, 8: -2}), "error", "lines 5, 10",
                      {"clip_actions": True}),
    "sentinel": (
        assign("heat", {3: -999, 4: -999, 50: -999}), "warning", "lines 5-6, 52", None,
    ),
    "constant": (everywhere("valve", 0.5), "warning", "column 'valve'", None),
    "interleaved": (interleave, "warning", None, None),
    "uneven": (assign("t", {3: 6.4}), "warning", "time", None),
}  # fmt: skip


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_is_found_and_no_other(rows, columns, write, kind):
    spoil, severity, where, _ = FAULTS[kind]
    spoil(rows)
    findings = check(read_raw_log(write(rows), **columns))
    assert [finding.kind for finding in findings] == [kind]
    assert findings[0].severity == severity
    assert where is None or findings[0].where == where
    assert "plant.csv" in str(findings[0])


@pytest.mark.parametrize("kind", [kind for kind, fault in FAULTS.items() if fault[1] == "error"])
def test_a_log_with_an_error_is_refused_and_the_remedy_works(rows, columns, write, kind):
    spoil, _, _, remedy = FAULTS[kind]
    spoil(rows)
    with pytest.raises(LogError, match="1 fault found") as caught:
        read_log(write(rows), **columns)
    if remedy is not None:
        assert f"{next(iter(remedy))}=True" in str(caught.value)
        log = read_log(write(rows), **columns, **remedy)
        assert not [finding for finding in check(log) if finding.severity == "error"]


@pytest.mark.parametrize("kind", [kind for kind, fault in FAULTS.items() if fault[1] == "warning"])
def test_a_doubtful_log_is_read_with_a_warning_or_refused_strictly(rows, columns, write, kind):
    FAULTS[kind][0](rows)
    with pytest.warns(LogWarning):
        log = read_log(write(rows), **columns)
    assert log.transitions == 117
    with pytest.raises(LogError, match="1 fault found"):
        read_log(write(rows), **columns, strict=True)


def test_a_clean_log_has_no_findings(rows, columns, write):
    assert check(read_raw_log(write(rows), **columns, cost="cost")) == []
    assert check(read_log(write(rows), **columns, cost="cost"), history=5) == []


def test_all_faults_are_listed_at_once(rows, columns, write):
    for kind in ("unsorted", "gap", "text", "stuck"):
        FAULTS[kind][0](rows)
    with pytest.raises(LogError) as caught:
        read_log(write(rows), **columns)
    message = str(caught.value)
    assert "4 faults" in message
    for word in ("sort=True", "split_at_gaps=True", "missing=['Bad']", "drop_stuck=True"):
        assert word in message


def test_episodes_that_come_back_need_a_time_or_a_cut(rows, columns, write):
    parts = rows[:20] + rows[40:60] + rows[20:40]
    columns = columns | {"time": None}
    with pytest.raises(LogError, match=r"'r0', which continues at line 42.*split_at_restarts=True"):
        read_log(write(parts), **columns)
    with pytest.warns(LogWarning, match="pass time='t'"):
        log = read_log(write([row | {"time": 1} for row in parts]) , **columns | {"time": None},
                         split_at_restarts=True)  # fmt: skip
    assert [(one.name, len(one)) for one in log.episodes] == [("r0", 19), ("r1", 19), ("r0/2", 19)]


def test_a_plant_at_rest_has_no_stuck_sensor(rows, columns, write):
    for row in rows[60:75]:
        row |= {name: rows[60][name] for name in ("level", "heat", "valve")}
    assert check(read_raw_log(write(rows), **columns)) == []


def test_a_column_that_moves_in_steps_is_not_stuck(rows, columns, write):
    for place, row in enumerate(rows):
        row["heat"] = float(place // 12)
    assert check(read_raw_log(write(rows), **columns)) == []


@pytest.mark.parametrize("seed", range(3))
def test_one_stuck_stretch_is_found_among_coarse_readings(rows, columns, write, seed):
    rng = np.random.default_rng(seed)
    for row in rows:
        row["heat"] = rng.integers(4)
    for row in rows[45:75]:
        row["heat"] = 2
    kinds = [
        (finding.kind, finding.column) for finding in check(read_raw_log(write(rows), **columns))
    ]
    assert kinds == [("stuck", "heat")]


@pytest.mark.parametrize(
    "value", [-999, 9999, -99.99, 9999999, 65535, 1e31, float(np.float32(-999.9))]
)
def test_numbers_that_loggers_write_for_no_value_are_found_and_the_remedy_works(
    rows, columns, write, value
):
    for place in (7, 8, 90):
        rows[place] |= {"heat": value, "cost": value}
    columns = columns | {"cost": "cost"}
    findings = check(read_raw_log(write(rows), **columns))
    assert [(one.kind, one.column) for one in findings] == [
        ("sentinel", "heat"),
        ("sentinel", "cost"),
    ]
    remedy = float(re.search(r"missing=\[(.*)\]", findings[0].sentence)[1])
    findings = check(read_raw_log(write(rows), **columns, missing=[remedy]))
    assert [one.kind for one in findings] == ["missing", "missing"]


@pytest.mark.parametrize("value", [1.7e20, -3e9])
def test_a_value_that_no_sensor_measures_is_an_error_with_its_place(rows, columns, write, value):
    rows[7]["heat"] = value
    with pytest.raises(LogError, match=r"error: column 'heat' is \S+ in 1 row, .* at line 9"):
        read_log(write(rows), **columns)
    (finding,) = check(read_raw_log(write(rows), **columns))
    remedy = eval(re.search(r"missing=(\[.*\])", finding.sentence)[1])
    log = read_log(write(rows), **columns, missing=remedy, drop_missing=True)
    assert log.transitions == 3 * 39 - 2


def test_a_marker_a_million_spreads_away_is_an_error(rows, columns, write):
    rows[7]["heat"] = 1e30
    (finding,) = check(read_raw_log(write(rows), **columns))
    assert (finding.kind, finding.severity) == ("sentinel", "error")


def test_events_of_a_quiet_column_are_not_far(rows, columns, write):
    for number, row in enumerate(rows):
        row["heat"] = 5e4 * (number == 50) + 7.0 * (number in (20, 80))
    assert "far" not in {one.kind for one in check(read_raw_log(write(rows), **columns))}


@pytest.mark.parametrize(
    "usual",
    [
        np.linspace(0.0, 99.0, 120),
        np.linspace(-999.0, 999.0, 120),
        np.resize([98.0, 99.0], 120),
        np.resize([850.0, 900.0, 999.0], 120),
        np.resize([0.0, 480.0], 120),
    ],
)
def test_nines_among_numbers_like_them_are_measurements(rows, columns, write, usual):
    for row, value in zip(rows, usual, strict=True):
        row["heat"] = value
    assert check(read_raw_log(write(rows), **columns)) == []


def test_short_episodes_are_named_and_an_error_if_there_are_no_others(rows, columns, write):
    path = write(rows[:40] + rows[40:44])
    findings = check(read_raw_log(path, **columns), history=5)
    assert [(one.kind, one.severity) for one in findings] == [("short", "warning")]
    assert "'r1' (4)" in findings[0].sentence
    with pytest.raises(LogError, match="fewer than the 51 rows"):
        read_log(path, **columns, history=50)


def test_findings_of_a_log_name_episodes_and_steps(log):
    log.episodes[1].observations[3:5, 2] = np.nan
    log.episodes[2].actions[4, 0] = 9.0
    findings = {finding.kind: finding for finding in check(log)}
    assert findings.keys() == {"missing", "out_of_bounds"}
    assert findings["missing"].where == "episode 'e12' steps 3-4"
    assert findings["missing"].column == "c"
    assert findings["out_of_bounds"].where == "episode 'e30' step 4"


def test_check_says_what_it_takes():
    with pytest.raises(LogError, match=r"takes a Log or a RawLog.*got list"):
        check([1, 2])
