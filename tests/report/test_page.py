"""Pages are whole, escape what they are given, and pictures on them do not disturb each other."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from jinja2 import UndefinedError
from matplotlib.figure import Figure

from twofold.report import page
from twofold.report.figures import EPISTEMIC
from twofold.report.page import Chooser, Document
from twofold.report.svg import make_clickable, to_svg

EMPTY = {"meta", "path", "use", "br", "rect", "circle"}
NASTY = "<script>alert('x')</script> & \"so\" ’ ü ￼ {{ 7 * 7 }} </style> --><b onload='x'>"
PARTS = (
    "{% from 'page.html' import choose_button, chooser, picture, section, table, "
    "warning with context %}"
)


def drawn(click=False):
    figure = Figure(figsize=(4.6, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1, 2], [1.0, 3.0, 2.0], color="black", label="a < b & c")
    axes.scatter(np.arange(5), np.arange(5), color=EPISTEMIC, facecolors="white")
    if click:
        (point,) = axes.plot(1.0, 3.0, marker="o")
        make_clickable(point, "policy", ("1", "a|b"), 'the "first" point')
    axes.legend()
    return figure


class Nesting(HTMLParser):
    """Tags must be closed in the order in which they were opened."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if tag not in EMPTY:
            assert self.open.pop() == tag


def parsed(text):
    found = Nesting()
    found.feed(text)
    assert found.open == []
    return found.seen


def render(source, **content):
    """A piece of a template that uses the parts of pages."""
    template = page._environment().from_string(source)
    return template.render(document=Document(), title=NASTY, version="1", nasty=NASTY, **content)


def whole():
    names = ("one", "two", NASTY)
    blocks = {(name,): drawn() for name in names}
    return render(
        "{% extends 'page.html' %}"
        + """{% block introduction %}{{ nasty }}{% endblock %}{% block body %}
        {% call section(nasty) %}
        {{ numbers({nasty: nasty}) }}
        <p>{{ nasty }}</p>{{ warning(nasty) }}
        {% endcall %}
        {% call section("Two") %}
        {% call(figure) chooser(choices) %}{{ picture(figure, nasty, nasty) }}{% endcall %}
        {% endcall %}
        {% call section("Three") %}
        {% set button = choose_button(nasty, nasty, [nasty]) %}
        {{ table([nasty, "b"], [["1", nasty], ["2", button]], nasty) }}
        {% endcall %}{% endblock %}""",
        choices=Chooser("policy", {NASTY: names}, blocks),
    )


def test_a_page_is_well_formed_and_escapes_all_that_it_is_given():
    text = whole()
    tags = [tag for tag, _ in parsed(text)]
    assert tags.count("script") == 1 and tags.count("main") == tags.count("h1") == 1
    assert {"skip", "warning", "numbers"} <= {one.get("class") for _, one in parsed(text)}
    assert "<script>alert" not in text and "b" not in tags and "{{ 7 * 7 }}" in text
    assert text.count("&lt;script&gt;alert(&#39;x&#39;)") >= 12
    labels = [one.get("aria-label") for tag, one in parsed(text) if tag == "svg"]
    assert labels == [NASTY] * 3


def test_a_page_refers_to_nothing_outside():
    outside = re.sub(r'xmlns="[^"]*"', "", whole())
    assert "http:" not in outside and "https:" not in outside and "@import" not in outside
    policy = next(one for tag, one in parsed(whole()) if "http-equiv" in one)["content"]
    assert policy.startswith("default-src 'none';")


def test_equal_reports_are_equal_files_and_ids_are_unique():
    """The three pictures are the same, down to their descriptions."""
    assert whole() == whole()
    attributes = [one for _, one in parsed(whole())]
    ids = [one["id"] for one in attributes if "id" in one]
    assert len(ids) == len(set(ids))
    links = {one["href"][1:] for one in attributes if one.get("href", "").startswith("#")}
    clips = {one["clip-path"][5:-1] for one in attributes if "clip-path" in one}
    assert clips and links and links | clips <= set(ids)


def test_a_figure_takes_the_colours_and_the_font_of_its_page():
    found = to_svg(drawn(), "mine-", "words")
    assert "stroke: currentColor" in found and "fill: var(--surface)" in found
    assert "var(--blue)" in found and "#000000" not in found and "#ffffff" not in found
    assert ">a &lt; b &amp; c</text>" in found and "DejaVu" not in found
    assert 'id="mine-' in found and "url(#mine-" in found and 'href="#mine-' in found
    assert "<style" not in found and "metadata" not in found


def test_drawing_a_figure_leaves_it_as_it_was():
    figure = drawn()
    assert to_svg(figure, "a", "") == to_svg(figure, "a", "")
    assert figure.patch.get_visible() and figure.axes[0].patch.get_visible()


def test_points_to_click_on_are_buttons_and_not_hidden_by_a_role():
    found = parsed(Document().draw(drawn(click=True), "a frontier"))
    (button,) = [one for _, one in found if one.get("role") == "button"]
    assert button["data-chooser"] == "policy" and button["data-choice"] == "1|a¦b"
    assert button["tabindex"] == "0" and button["aria-label"] == 'the "first" point'
    assert [one.get("class") for tag, one in found if tag == "circle"] == ["target"]
    (plot,) = [one for tag, one in found if tag == "svg"]
    assert plot["role"] == "group" and plot["aria-label"] == "a frontier"
    (plot,) = [one for tag, one in parsed(Document().draw(drawn(), "curves")) if tag == "svg"]
    assert plot["role"] == "img"


def test_a_chooser_has_a_control_for_each_thing_to_choose():
    selects = {"β": ["0", "1"], "γ": ["0"]}
    choices = Chooser("policy", selects, {("0", "0"): "a", ("1", "0"): "b"}, ("1", "0"))
    source = PARTS + "{% call(text) chooser(choices) %}{{ text }}{% endcall %}"
    found = parsed(render(source, choices=choices))
    hidden = ["hidden" in one for tag, one in found if tag == "label"]
    assert hidden == [False, True]
    assert [one["value"] for tag, one in found if tag == "option"] == ["0", "1", "0"]
    assert [one["data-block"] for _, one in found if "data-block" in one] == ["0|0", "1|0"]
    assert found[0][1]["data-first"] == "1|0"
    with pytest.raises(ValueError, match=r"choice among .*, got \('2', '0'\)"):
        Chooser("policy", selects, {("0", "0"): "a"}, ("2", "0"))


def test_numbers_are_set_to_the_right_and_words_to_the_left():
    source = PARTS + "{{ table(headings, rows, caption) }}"
    rows = [["-1.5e-3", "x"], ["12 %", "3"]]
    found = parsed(render(source, headings=["a", "b"], rows=rows, caption="caption"))
    assert [one.get("class") for tag, one in found if tag == "td"] == [None, "text"] * 2
    region = found[0][1]
    assert region["role"] == "region" and region["tabindex"] == "0"
    assert "caption" in region["aria-label"]
    assert parsed(render(source, headings=["a"], rows=[], caption=""))


def test_a_name_that_a_template_does_not_know_is_an_error():
    with pytest.raises(UndefinedError, match="'typo' is undefined"):
        render("{{ typo }}")
