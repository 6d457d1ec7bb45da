"""Tables of any bytes are read or refused, and what was written is read back exactly."""

import io

import numpy as np
import pytest
from hypothesis import strategies as st

from twofold.campaign import Campaign, CampaignError, Continuous
from twofold.campaign.table import read_results
from twofold.plant.log import Episode, Log
from twofold.plant.log_files import read_log, write_log
from twofold.tables import TableError, read_table

pyarrow = pytest.importorskip("pyarrow")
TABLE = "run,t,level,valve,cost\n" + "".join(
    f"{run},{t},{0.5 * t + run},{t % 2},{'' if t == 0 else t}\n" for run in (1, 2) for t in range(5)
)
NAMES = {"observations": ["level"], "actions": {"valve": (0.0, 1.0)}}
pieces = st.sampled_from(
    [
        b"\0", b"\xff", b'"', b'""', b"'", b",", b";", b"\t", b"|", b"\n", b"\r\n", b"\r",
        b"\xef\xbb\xbf",
        b"\xff\xfe", b"\xfe\xff", b"nan", b"inf", b"-", b"1e999", b"1_000", b"1,5", b"level",
        b"x" * 200_000,
        "ä☃".encode(), "\u2028".encode(), b"\x85", b"\x1c", b"9" * 400, b"--5", b"0x10", b"=1+1",
        b"2024-03-01 06:00", b"-9999-01-01", b"9999-12-31T23:59:59+14:00", b"true", b"(1)", b"\x1a",
    ]
)  # fmt: skip
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "cp1252")
FORMS = {
    "comma": lambda text: text,
    "semicolon": lambda text: text.replace(",", ";"),
    "decimal comma": lambda text: text.replace(",", ";").replace(".", ","),
    "crlf": lambda text: text.replace("\n", "\r\n"),
    "cr": lambda text: text.replace("\n", "\r"),
    "heading only": lambda text: text.partition("\n")[0],
    "no heading": lambda text: text.partition("\n")[2],
    "twice": lambda text: text + text,
    "wide": lambda text: text.replace("\n", ",level\n"),
    "ragged": lambda text: text.replace("\n", ",\n", 3)[:-7],
    "empty": lambda text: "",
    "blank": lambda text: "\n \n\n",
}


@st.composite
def damaged(draw):
    """The bytes of a table as some program may have left them."""
    text = FORMS[draw(st.sampled_from(sorted(FORMS)))](TABLE)
    content = text.encode(draw(st.sampled_from(ENCODINGS)))
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(content)))
        end = place + draw(st.sampled_from([0, 0, 1, 5]))
        content = content[:place] + draw(st.one_of(pieces, st.binary(max_size=4))) + content[end:]
    return content


@pytest.mark.examples(60, 1500)
def test_damaged_csv_files(fuzz, tmp_path):
    path = tmp_path / "log.csv"
    columns = st.fixed_dictionaries(
        {},
        optional={
            "episode": st.just("run"),
            "time": st.just("t"),
            "cost": st.just("cost"),
            "decimal": st.just(","),
            "encoding": st.sampled_from([*ENCODINGS, "klingon"]),
            "delimiter": st.sampled_from([",", ";", "", ",,", "\n", '"']),
            "missing": st.sampled_from([["-"], [0.0], ["x", -9999]]),
            "drop_missing": st.just(True),
            "sort": st.just(True),
            "split_at_gaps": st.just(True),
            "drop_stuck": st.just(True),
        },
    )

    @fuzz.given(damaged(), columns)
    def check(content, options):
        path.write_bytes(content)
        with fuzz.unchanged(path), fuzz.case(TableError):
            log = read_log(path, **NAMES, **options)
            assert all(np.isfinite(episode.observations).all() for episode in log.episodes)
        with fuzz.unchanged(path), fuzz.case(TableError):
            assert np.isfinite(read_table(path).values(["level", "valve"])[0]).all()


@pytest.mark.examples(25, 400)
def test_results_of_a_campaign(fuzz, tmp_path):
    place, path = tmp_path / "c.db", tmp_path / "results.csv"
    campaign = Campaign.create(place, [Continuous("valve", 0.0, 1.0)], ["level"])
    text = "valve,level\n0.5,1\n0.25,2\n,\n1,\n"

    @fuzz.given(
        st.integers(0, len(text)), st.one_of(pieces, st.binary(max_size=3)), st.sampled_from([0, 1])
    )
    def check(at, some, cut):
        path.write_bytes(text.encode()[:at] + some + text.encode()[at + cut :])
        with fuzz.unchanged(path, place), fuzz.case(CampaignError):
            read_results(path, campaign)


@pytest.mark.examples(20, 300)
def test_damaged_parquet_files(fuzz, tmp_path):
    path, buffer = tmp_path / "log.parquet", io.BytesIO()
    rows = [line.split(",") for line in TABLE.splitlines()]
    columns = {
        name: [float(cell or "nan") for cell in column] for name, *column in zip(*rows, strict=True)
    }
    pyarrow.parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow.parquet.write_table(pyarrow.table(columns), buffer)
    whole = buffer.getvalue()

    @fuzz.given(st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=3), st.booleans())
    def check(places, cut):
        content = bytearray(whole)
        for place in places:
            content[int(place * len(whole))] ^= 0x41
        path.write_bytes(content[: int(places[0] * len(whole))] if cut else content)
        with fuzz.unchanged(path), fuzz.case(TableError):
            read_log(path, **NAMES, episode="run")
        with fuzz.unchanged(path), fuzz.case(TableError):
            read_table(path).values(["level", "valve"])


numbers = st.floats(allow_nan=False, allow_infinity=False)
words = st.text(min_size=1, max_size=6).filter(lambda word: word == word.strip() != "")


@st.composite
def logs(draw):
    """A log with odd names and any finite numbers."""
    reserved = {"episode", "step", "time", "cost"}
    names = draw(st.lists(words, min_size=2, max_size=4, unique=True))
    names = [f"{name}'" if name in reserved else name for name in names]
    seen, done = names[:-1], names[-1]
    episodes = []
    for number in range(draw(st.integers(1, 2))):
        rows = draw(st.integers(2, 4))
        observations = draw(st.lists(numbers, min_size=rows * len(seen), max_size=rows * len(seen)))
        actions = draw(st.lists(st.floats(0, 1), min_size=rows - 1, max_size=rows - 1))
        shape = rows, len(seen)
        episodes.append(
            Episode(
                name=str(number),
                observations=np.array(observations).reshape(shape),
                actions=np.array(actions)[:, None],
            )
        )
    return Log(tuple(seen), (done,), np.zeros(1), np.ones(1), tuple(episodes))


@pytest.mark.examples(20, 400)
def test_what_was_written_is_read_back(fuzz, tmp_path):
    @fuzz.given(logs(), st.sampled_from(["csv", "parquet"]))
    def check(log, ending):
        path = tmp_path / f"log.{ending}"
        with fuzz.case(TableError):
            write_log(log, path)
            back = read_table(path)
            for index, name in enumerate(log.observations):
                written = np.concatenate([one.observations[:, index] for one in log.episodes])
                if not (back.numbers(name).values == written).all():
                    fuzz.lost(f"column {name!r} came back changed")
