"""All kinds of page in a real browser: they can be seen, read, and used without a mouse."""

from itertools import product

import pytest

KINDS = ["policy", "model", "campaign"]
EMPTY_PLOTS = """() => [...document.querySelectorAll("svg.plot")].filter((plot) => {
  if (!plot.checkVisibility()) return false;
  const box = plot.getBoundingClientRect();
  const drawn = [...plot.querySelectorAll("path, use")].filter((one) => {
    const own = one.getBoundingClientRect();
    return own.width + own.height > 0;
  });
  return box.width < 100 || box.height < 80 || drawn.length < 5;
}).map((plot) => plot.getAttribute("aria-label"))"""
BROKEN_LINKS = """() => [...document.querySelectorAll("[href^='#'], [clip-path]")].map(
  (one) => one.getAttribute("href") || one.getAttribute("clip-path").slice(4, -1)
).filter((name) => !document.getElementById(name.slice(1)))"""
# Contrasts of WCAG 2.2: of each text with what it stands on.
FAINT_TEXT = """() => {
  const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => parse(colour).slice(0, 3).map((part) => part / 255).map(
    (part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
  ).reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0);
  const behind = (one) => {
    for (; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      const parts = parse(colour);
      if (parts.length === 3 || parts[3] === 1) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const found = [];
  for (const one of document.querySelectorAll("body *")) {
    const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || !one.checkVisibility() || one.closest("script, style, option")) continue;
    const inPlot = one.closest("svg");
    const colour = getComputedStyle(one)[inPlot ? "fill" : "color"];
    const [text, ground] = [colour, behind(inPlot ? inPlot.parentElement : one)].map(light);
    const ratio = (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);
    if (ratio < 4.5) found.push([one.textContent, colour, ratio]);
  }
  return found;
}"""
# Words of a figure whose boxes lie over each other, by more than the room around letters.
OVERLAPS = """() => [...document.querySelectorAll("svg.plot")].flatMap((plot) => {
  if (!plot.checkVisibility()) return [];
  const texts = [...plot.querySelectorAll("text")].map(
    (one) => [one.textContent, one.getBoundingClientRect()]);
  const over = ([, a], [, b]) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;
  return texts.flatMap((one, i) => texts.slice(i + 1).filter((two) => over(one, two)).map(
    (two) => [one[0], two[0]]));
})"""
# Words of a figure too small to be read.
SMALL_WORDS = """() => [...document.querySelectorAll("svg.plot")].filter(
  (plot) => plot.checkVisibility()
).flatMap((plot) => {
  const scale = plot.getBoundingClientRect().width / plot.viewBox.baseVal.width;
  return [...plot.querySelectorAll("text")].filter(
    (one) => scale * parseFloat(getComputedStyle(one).fontSize) < 8).map((one) => one.textContent);
})"""
# Words of a figure that reach beyond the screen.
LOST_WORDS = """() => [...document.querySelectorAll("svg.plot")].flatMap((plot) => {
  if (!plot.checkVisibility()) return [];
  return [...plot.querySelectorAll("text")].filter((one) => {
    const { left, right } = one.getBoundingClientRect();
    return left < 0 || right > innerWidth;
  }).map((one) => one.textContent);
})"""
# The share of the first section's width that its figure takes.
WIDTH_TAKEN = """() => {
  const plots = [...document.querySelectorAll("section svg.plot")];
  const plot = plots.find((one) => one.checkVisibility()), section = plot.closest("section");
  return plot.getBoundingClientRect().width / section.getBoundingClientRect().width;
}"""
CUT_TABLES = """[...document.querySelectorAll('.scroll')].filter(
  (one) => one.scrollWidth > one.clientWidth + 1).length"""
OPEN_ALL = "document.querySelectorAll('details').forEach((one) => { one.open = true; })"
MOST_BYTES = 400_000
SIZES = (390, 844), (1000, 900), (1600, 1000)
GROUND, LIGHT = "getComputedStyle(document.body).backgroundColor", "rgb(244, 245, 247)"
FOCUSABLE = "a[href], button, summary, select, [tabindex='0']"
CHOSEN = ".chooser[data-name='{}'] > .block:not([hidden])"


def shown(page, name="policy"):
    """The choices that are shown of a chooser."""
    blocks = page.locator(CHOSEN.format(name))
    return [block.get_attribute("data-block") for block in blocks.all()]


def selected(page):
    return [
        one.input_value()
        for one in page.locator(".chooser > .choices").first.locator("select").all()
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_fits_every_screen_and_can_be_read(opened, kind):
    with opened(kind) as page:
        page.evaluate(OPEN_ALL)
        for (width, height), scheme in product(SIZES, ("light", "dark")):
            page.set_viewport_size({"width": width, "height": height})
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert page.evaluate(EMPTY_PLOTS) == [] and page.evaluate(OVERLAPS) == []
            assert page.evaluate(SMALL_WORDS) == [] and page.evaluate(LOST_WORDS) == []
            assert page.locator("svg.plot:visible").count() >= 3
            assert page.evaluate(FAINT_TEXT) == []
            assert page.evaluate(GROUND) == ("rgb(18, 20, 23)" if scheme == "dark" else LIGHT)


@pytest.mark.parametrize("kind", KINDS)
def test_the_headline_comes_first_and_its_figure_takes_the_width(opened, kind):
    with opened(kind) as page:
        for width, height in SIZES:
            page.set_viewport_size({"width": width, "height": height})
            headline = page.locator(".headline").bounding_box()
            assert headline["y"] < 150 and headline["width"] > 0.7 * min(width, 1250)
            assert page.locator(".sentence").bounding_box()["y"] < height / 2
            assert page.evaluate(WIDTH_TAKEN) > 0.9


@pytest.mark.parametrize("kind", KINDS)
def test_paper_has_everything_in_light_colours_and_no_controls(opened, kind):
    with opened(kind) as page:
        page.emulate_media(media="print", color_scheme="dark")
        page.set_viewport_size({"width": 700, "height": 1000})  # of A4
        assert page.evaluate(CUT_TABLES) == 0
        assert page.locator("details:not([open])").count() == 0
        assert not page.locator("#theme:visible, select:visible").count()
        assert page.evaluate("getComputedStyle(document.body).color") == "rgb(26, 28, 31)"
        assert (
            page.evaluate("getComputedStyle(document.querySelector('.headline')).backgroundColor")
            == "rgb(255, 255, 255)"
        )
        page.emulate_media(media="screen")
        page.locator("details[open]").first.wait_for(state="detached")


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_script_everything_is_there(opened, kind):
    with opened(kind, script=False) as page:
        page.evaluate(OPEN_ALL)
        blocks = page.locator(".block").all()
        assert blocks and all(block.is_visible() for block in blocks)
        assert not page.locator("select:visible, #theme:visible").count()
        assert page.evaluate(EMPTY_PLOTS) == [] and page.evaluate(BROKEN_LINKS) == []
        names = page.evaluate("[...document.querySelectorAll('[id]')].map((one) => one.id)")
        assert len(names) == len(set(names))


@pytest.mark.parametrize("kind", KINDS)
def test_the_keyboard_reaches_every_control_and_changes_it(opened, kind):
    with opened(kind) as page:
        controls = page.locator(FOCUSABLE)
        wanted = sum(
            one.is_visible() or one.get_attribute("class") == "skip" for one in controls.all()
        )
        page.evaluate("window.seen = new Set()")
        for _ in range(wanted):
            page.keyboard.press("Tab")
            page.evaluate("seen.add(document.activeElement)")
        assert page.evaluate("seen.size") == wanted
        for select in page.locator("select:visible").all():
            before = select.input_value()
            select.focus()
            page.keyboard.press(
                "ArrowDown" if select.evaluate("one => one.selectedIndex") == 0 else "ArrowUp"
            )
            assert select.input_value() != before


@pytest.mark.parametrize("kind", KINDS)
def test_every_block_can_be_chosen_and_is_drawn(opened, kind):
    with opened(kind) as page:
        for select in page.locator("select:visible").all():
            page.evaluate(OPEN_ALL)
            for option in select.locator("option").all():
                select.select_option(option.get_attribute("value"))
                assert page.evaluate(EMPTY_PLOTS) == [] and page.evaluate(OVERLAPS) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_is_small(opened, kind):
    with opened(kind) as page:
        assert len(page.content().encode()) < MOST_BYTES


def test_a_point_shows_its_row_to_the_pointer_and_to_the_arrow_keys(opened):
    with opened("model") as page:
        plot, tip = page.locator("svg.tips:visible"), page.locator("#tip")
        rows = [one.get_attribute("data-tip") for one in plot.locator("[data-tip]").all()]
        assert rows and all(row.startswith("heat: ") and "yield: " in row for row in rows)
        page.emulate_media(reduced_motion="reduce")  # A page that still scrolls hides them.
        plot.focus()
        page.wait_for_timeout(200)
        for row in (rows[0], rows[1]):
            page.keyboard.press("ArrowRight")
            assert tip.inner_text() == row
        page.keyboard.press("Escape")
        assert not tip.is_visible()
        plot.locator("[data-tip]").first.hover(force=True)
        assert tip.is_visible() and tip.inner_text() in rows


def test_points_of_the_map_and_of_the_frontier_have_tips(opened):
    with opened("campaign") as page:
        page.emulate_media(reduced_motion="reduce")
        page.locator("svg.tips:visible").first.focus()
        page.wait_for_timeout(200)
        page.keyboard.press("ArrowRight")
        lines = page.locator("#tip").inner_text().split("\n")
        assert lines[0] == "measurement 1" and lines[-1].startswith("yield: ")
    with opened("policy") as page:
        point(page, "2|1").hover()
        assert "expected cost" in page.locator("#tip").inner_text()


def test_colours_can_be_switched(opened):
    with opened("policy") as page:
        button = page.locator("#theme")
        assert page.evaluate(GROUND) == LIGHT and button.inner_text() == "Dark colours"
        button.click()
        assert page.evaluate(GROUND) != LIGHT and button.inner_text() == "Light colours"
        assert page.evaluate(FAINT_TEXT) == []
        button.click()
        assert page.evaluate(GROUND) == LIGHT


def point(page, choice):
    return page.locator(f"svg [data-chooser='policy'][data-choice='{choice}']:visible")


def test_a_click_on_the_frontier_shows_that_policy(opened):
    with opened("policy") as page:
        assert shown(page) == ["2|0"] and selected(page) == ["2", "0"]
        point(page, "2|1").click()
        assert shown(page) == ["2|1"] and selected(page) == ["2", "1"]
        assert point(page, "2|1").get_attribute("aria-pressed") == "true"
        assert point(page, "2|0").get_attribute("aria-pressed") == "false"
        page.evaluate(OPEN_ALL)
        assert page.locator("tr.chosen").inner_text().startswith("β = 2, γ = 1")
        assert "beta-2_gamma-1.policy" in page.locator(CHOSEN.format("policy")).inner_text()
        page.evaluate(OPEN_ALL)
        page.get_by_role("button", name="β = 4, γ = 0", exact=True).click()
        assert shown(page) == ["4|0"]


def test_a_point_can_be_chosen_with_the_keyboard_alone(opened):
    with opened("policy") as page:
        for _ in range(40):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.dataset.choice") == "4|0":
                break
        page.keyboard.press("Enter")
        assert shown(page) == ["4|0"]
        page.keyboard.press("Tab")
        page.keyboard.press("Space")
        assert shown(page) == [page.evaluate("document.activeElement.dataset.choice")] != ["4|0"]


def test_a_choice_without_a_policy_shows_the_nearest(opened):
    with opened("policy") as page:
        beta, gamma = page.locator(".choices select").all()[:2]
        beta.select_option("4")
        gamma.select_option("1")
        assert shown(page) == ["2|1"] and selected(page) == ["2", "1"]
        beta.select_option("0")
        assert shown(page) == ["0|0"] and selected(page) == ["0", "0"]


def test_a_choice_is_kept_in_the_address(opened, pages):
    with opened("policy") as page:
        point(page, "4|0").click()
        point(page, "0|0").click()
        address = page.url
        page.reload()
        assert shown(page) == ["0|0"] and selected(page) == ["0", "0"]
        page.go_back()
        assert shown(page) == ["4|0"]
        page.goto(page.url.split("#")[0] + "#all-policies")
        assert shown(page) == ["4|0"]
        page.goto("about:blank")
        page.goto(address)
        assert shown(page) == ["0|0"]
        page.goto(pages("policy") + "#policy=7|7")
        assert shown(page) == ["2|0"]


def test_columns_follow_from_policy_to_policy(opened):
    with opened("policy") as page:
        page.evaluate(OPEN_ALL)
        page.locator(".block:not([hidden]) select").select_option("column 9 to flow")
        point(page, "4|0").click()
        assert (
            page.locator(f"{CHOSEN.format('columns')}:visible").get_attribute("data-block")
            == "column 9 to flow"
        )
