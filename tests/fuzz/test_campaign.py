"""Calls in any order: what was told stays, no number is used twice, a refusal changes nothing."""

import json

import pytest
import sqlalchemy as sql
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from twofold.campaign import Campaign, CampaignError, Categorical, Continuous, Integer, Result
from twofold.campaign.storage import TABLES

INPUTS = (Continuous("x", -1.0, 1.0), Integer("n", 0, 3))
ODD = st.sampled_from(
    [None, True, "a", "", float("nan"), float("inf"), 1e300, -(10**20), 10**400, 1.5, [], {}, b"x"]
)
values = st.one_of(st.floats(-5, 5), st.integers(-3, 3), ODD)
outputs = st.dictionaries(st.sampled_from(["y", "w", "z", ""]), values, max_size=3)
good_outputs = st.dictionaries(st.sampled_from(["y", "w"]), st.floats(-5, 5), min_size=1)
points = st.one_of(
    st.fixed_dictionaries({"x": st.floats(-1, 1), "n": st.integers(0, 3)}),
    st.dictionaries(st.sampled_from(["x", "n", "m"]), values, max_size=3),
    st.none(),
)
numbers = st.one_of(st.integers(-1, 12), ODD, st.none())
results_given = st.builds(Result, st.one_of(good_outputs, outputs), points, numbers, st.none())
changes = st.dictionaries(st.sampled_from(["updates", "alpha", "draws", "checkpoint", "x"]), values)


class Calls(RuleBasedStateMachine):
    """A campaign, and what must be true of it."""

    fuzz, folder, count, tiny = None, None, 0, None

    def __init__(self):
        super().__init__()
        Calls.count += 1
        self.place = self.folder / f"{Calls.count}.db"
        self.campaign = Campaign.create(self.place, INPUTS, ["y", "w"], settings=self.tiny)
        self.recorded, self.asked = {}, set()

    def rows(self):
        """Everything that the database holds."""
        engine = sql.create_engine(f"sqlite:///{self.place}")
        with engine.connect() as connection:
            found = {
                table.name: [tuple(row) for row in connection.execute(sql.select(table))]
                for table in TABLES.sorted_tables
            }
        engine.dispose()
        return found

    def tried(self, call):
        """The result of a call, or None where it was refused, and then nothing has changed."""
        before = self.rows()
        result, refused = None, True
        with self.fuzz.case(CampaignError):
            result = call()
            refused = False
        if refused and self.rows() != before:
            self.fuzz.lost("a refused call has changed the campaign")
        return result

    @rule(num=st.one_of(st.integers(1, 3), st.integers(-2, 2), ODD, st.just(10**9)))
    def ask(self, num):
        found = self.tried(lambda: self.campaign.ask(num)) or []
        given = {one.number for one in found}
        if given & self.asked:
            self.fuzz.lost("a proposal's number was used twice")
        self.asked |= given

    @rule(result=results_given, repeat=st.booleans())
    def tell(self, result, repeat):
        self.note([result], self.tried(lambda: self.campaign.tell_all([result], repeat)))

    @rule(results=st.lists(results_given, max_size=3), skip=st.booleans())
    def tell_all(self, results, skip):
        self.note(results, self.tried(lambda: self.campaign.tell_all(results, skip_known=skip)))

    def note(self, results, found):
        if found is None or len(found) != len(results):
            return
        for number, result in zip(found, results, strict=True):
            self.recorded.setdefault(number, {}).update(dict(result.outputs))

    @rule(number=numbers, given=st.one_of(good_outputs, outputs), note=st.one_of(st.text(), ODD))
    def correct(self, number, given, note):
        def call():
            self.campaign.correct(number, given, note=note)
            self.recorded.setdefault(number, {}).update(given)

        self.tried(call)

    @rule(number=numbers)
    def remove(self, number):
        def call():
            self.campaign.remove(number)
            self.recorded.pop(number, None)

        self.tried(call)

    @rule(number=numbers)
    def cancel(self, number):
        self.tried(lambda: self.campaign.cancel(number))

    @rule(given=changes)
    def configure(self, given):
        changed = {k: v for k, v in given.items() if not (k == "updates" and v in (2, 3))}
        self.tried(lambda: self.campaign.configure(self.tiny | changed))
        self.campaign.configure(self.tiny)

    @rule(wrong=st.sampled_from(["twice", "again", "candidates"]))
    def create_again(self, wrong):
        inputs = INPUTS * 2 if wrong == "twice" else (Categorical("c", ("a", "b")),)
        more = {"candidates": [{"c": "z"}]} if wrong == "candidates" else {}
        self.tried(lambda: Campaign.create(self.place, inputs, ["y"], **more))

    @rule()
    def open_again(self):
        self.campaign = self.tried(lambda: Campaign.open(self.place))

    @invariant()
    def nothing_is_lost(self):
        held = {row["measurement"]: row for row in self.campaign.export()}
        for number, values in self.recorded.items():
            if any(held.get(number, {}).get(name) != value for name, value in values.items()):
                self.fuzz.lost(f"measurement {number} is not what was told: {values}")
        status = self.campaign.status()
        json.dumps(held, allow_nan=False)
        assert status.measurements == len(held)


@pytest.mark.examples(4, 40)
def test_calls_in_any_order(fuzz, tmp_path, tiny):
    Calls.fuzz, Calls.folder = fuzz, tmp_path
    Calls.tiny = tiny | {"hidden_layer_sizes": [3]}
    few = settings(
        max_examples=fuzz.examples,
        stateful_step_count=25,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    machine = seed(0)(Calls)
    run_state_machine_as_test(machine, settings=few)
