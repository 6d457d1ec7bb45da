"""A matplotlib figure as an inline SVG element that follows the colours of its page."""

import io
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from twofold.report.figures import EPISTEMIC, POINTS, TOTAL

SPACE, LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
# Colours that are invisible on a dark page, and their replacements.
THEMED = {
    TOTAL: "currentColor", "#ffffff": "var(--surface)", POINTS: "var(--points)",
    EPISTEMIC.lower(): "var(--blue)",
}  # fmt: skip
# Radius of the invisible disc around a clickable point, in points: large enough for a finger.
TARGET_RADIUS = 11
LARGEST_SCALE = 1.8  # pixels per point (1/72 inch)


def make_clickable(artist: Artist, chooser: str, choice: Sequence[str], label: str) -> None:
    """Let a click on a point select a block of the page's ``chooser`` of that name; ``label``
    describes it. The artist must be drawn as one marker: a ``Line2D`` of one point."""
    artist.set_gid(json.dumps(["choose", chooser, join_options(choice), label]))


def join_options(choice: Sequence[str]) -> str:
    """A combination of options as one string for the page's script."""
    return "|".join(option.replace("|", "¦") for option in choice)


def to_svg(figure: Figure, prefix: str, description: str, look: str = "") -> str:
    """The figure as an SVG element whose ids begin with ``prefix``, with a text description;
    ``look`` is ``wide`` or ``narrow`` for one of a pair for different screens.

    Text stays text, in the font and colour of the page. The figure is not cropped: give it a
    layout, such as ``layout="constrained"``, or margins. Every point is an element of the page:
    thin out scatter plots of more than about 2,000 points, or draw them with ``rasterized=True``.
    """
    text = re.sub(r"(?s)<metadata>.*?</metadata>|<style.*?</style>", "", _draw(figure))
    used = re.findall(r'(?:xlink:href="|url\()#([^")]+)', text)
    names = {one: f"{prefix}{number}" for number, one in enumerate(dict.fromkeys(used))}
    root = ET.fromstring(text)
    box = root.attrib["viewBox"]
    widest = f"max-width: {LARGEST_SCALE * float(box.split()[2]):.0f}px"
    root.attrib = {
        "role": "img", "aria-label": description, "viewBox": box, "class": f"plot {look}".strip(),
        "style": widest,
    }  # fmt: skip
    for element in list(root.iter()):
        own = element.attrib.pop("id", "")
        if own in names:
            element.attrib["id"] = names[own]
        elif own.startswith('["choose'):
            _add_button(element, own)
            root.attrib["role"] = "group"
        elif own.startswith('["tips'):
            _add_tips(element, json.loads(own)[1:])
            root.attrib |= {"class": root.attrib["class"] + " tips", "tabindex": "0"}
        _adapt(element, names)
    _share_styles(root)
    _remove_groups(root)
    return ET.tostring(root, encoding="unicode", short_empty_elements=True)


def _draw(figure: Figure) -> str:
    """The SVG text of a figure without its backgrounds; ``savefig`` would draw everything twice."""
    buffer = io.StringIO()
    patches = [figure.patch, *(axes.patch for axes in figure.axes)]
    patches = [patch for patch in patches if patch.get_visible()]
    settings = {"svg.fonttype": "none", "svg.hashsalt": "twofold"}
    with mpl.rc_context(settings):  # type: ignore[arg-type]
        for patch in patches:
            patch.set_visible(False)
        FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None})
        for patch in patches:
            patch.set_visible(True)
    return buffer.getvalue()


def _adapt(element: ET.Element, names: dict[str, str]) -> None:
    """Adapt references, colours, fonts and numbers of an element; drop namespaces, indentation."""
    element.tag = element.tag.removeprefix(SPACE)
    if element.tag not in ("text", "tspan") and not (element.text or "").strip():
        element.text = None
    if not (element.tail or "").strip():
        element.tail = None
    attributes = element.attrib
    if target := attributes.pop(LINK, ""):
        attributes["href"] = f"#{names[target[1:]]}" if target[0] == "#" else target
    if "clip-path" in attributes:
        attributes["clip-path"] = f"url(#{names[attributes['clip-path'][5:-1]]})"
    if element.tag == "image":
        attributes.pop("style", None)  # lets the browser interpolate
    if "style" in attributes:
        attributes["style"] = _follow_theme(attributes["style"])
    if attributes.get("transform", "").startswith("rotate(-0 "):
        del attributes["transform"]
    for name in ("d", "x", "y"):
        if name in attributes:
            short = re.sub(r"-?\d+\.\d+", _round, attributes[name])
            attributes[name] = " ".join(short.split())


def _share_styles(root: ET.Element) -> None:
    """Remove redundant styles of markers, move styles common to all markers of a group to the
    group, and merge strokes of the same style into one path."""
    styles = {f"#{one.get('id')}": one.get("style") for one in root.iter("path") if one.get("id")}
    for marker in root.iter("use"):
        if marker.get("style") == styles.get(marker.attrib["href"]):
            marker.attrib.pop("style", None)
    for group in root.iter("g"):
        looks = {marker.get("style") for marker in group.iterfind("use")}
        if len(looks) == 1 and None not in looks and "style" not in group.attrib:
            group.attrib["style"] = looks.pop() or ""
            for marker in group.iterfind("use"):
                del marker.attrib["style"]
        first, shared = None, {}
        for path in list(group.iterfind("path")):
            if not path.get("d"):  # non-finite values
                group.remove(path)
                continue
            look = {name: value for name, value in path.items() if name != "d"}
            if first is not None and look == shared and "fill: none" in look.get("style", ""):
                first.attrib["d"] += f" {path.attrib['d']}"
                group.remove(path)
            else:
                first, shared = path, look


def _remove_groups(element: ET.Element) -> None:
    """Replace groups without attributes by their content."""
    for child in element:
        _remove_groups(child)
    element[:] = [
        one
        for child in element
        for one in (child if child.tag == "g" and not child.attrib else [child])
    ]


def _add_button(element: ET.Element, gid: str) -> None:
    """Add the role of a button, and a larger disc around each marker, which also shows focus."""
    _, chooser, choice, label = json.loads(gid)
    element.attrib |= {
        "data-chooser": chooser, "data-choice": choice, "aria-label": label, "tabindex": "0",
        "role": "button", "data-tip": label,
    }  # fmt: skip
    for marker in list(element.iter(f"{SPACE}use")):
        at = {"cx": marker.attrib["x"], "cy": marker.attrib["y"], "r": str(TARGET_RADIUS)}
        ET.SubElement(element, "circle", {"class": "target", **at})


def _add_tips(element: ET.Element, tips: list[str]) -> None:
    markers = list(element.iter(f"{SPACE}use"))
    if len(markers) == len(tips):  # otherwise some lie outside the axes
        for marker, tip in zip(markers, tips, strict=True):
            marker.attrib["data-tip"] = tip


def _follow_theme(text: str) -> str:
    """Use the colours and font family of the page; keep font size, weight and slant."""
    text = re.sub(r"#[0-9a-f]{6}\b", lambda match: THEMED.get(match[0], match[0]), text)
    text = re.sub(r"font-family: [^;]*(?:; )?", "", text)
    return re.sub(r"font: ([^;']*?)([\d.]+px)[^;]*", _font, text)


def _font(match: re.Match) -> str:
    parts = [f"font-size: {match[2]}"]
    for word in match[1].split():
        parts.append(f"font-{'style' if word in ('italic', 'oblique') else 'weight'}: {word}")
    return "; ".join(parts)


def _round(match: re.Match) -> str:
    return f"{float(match[0]):.2f}".rstrip("0").rstrip(".")
