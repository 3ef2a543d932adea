"""The page in a real browser: offline, at the width of a phone and of a desktop, light and dark."""

import shutil

import pytest

from covec.report import study_fragment, write_study
from report.fabricated import hostile_study, studies, study

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser is installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("reports")
    write_study(study(warnings=("the classes differ in length",)), made / "one.html")
    write_study(studies(("sentiment", "truth")), made / "several.html")
    write_study(hostile_study(), made / "hostile.html")
    (made / "fragment.html").write_text(f"<!doctype html><body>{study_fragment(study())}", encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield running
        running.close()


@pytest.fixture
def visit(browser, folder):
    """Open a page and hand it over; whatever it fetched or complained of fails the test."""
    contexts, complaints = [], []

    def opened(name, width=1280, scheme="light"):
        context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme, offline=True)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        address = (folder / f"{name}.html").as_uri()
        page.on("request", lambda request: request.url.startswith(address) or complaints.append(request.url))
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def background(page):
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["one", "several", "hostile", "fragment"])
def test_nothing_is_wider_than_the_screen(visit, name, width):
    page = visit(name, width)
    page.evaluate("document.querySelectorAll('details').forEach((closed) => { closed.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_colours_follow_the_system_and_the_button(visit):
    light, dark = visit("one"), visit("one", scheme="dark")
    bright, deep = background(light), background(dark)
    assert bright != deep
    fill = "getComputedStyle(document.querySelector('svg text')).fill"
    assert light.evaluate(fill) != dark.evaluate(fill)
    for shown, colour in (("Light", bright), ("Dark", deep), ("Auto", bright)):
        light.click("button.theme")
        assert light.inner_text("button.theme") == shown
        assert background(light) == colour


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(visit, scheme):
    page = visit("one", scheme=scheme)
    ratios = page.evaluate(
        """() => {
          const style = getComputedStyle(document.body);
          const part = (name) => {
            const hex = style.getPropertyValue(`--cv-${name}`).trim().slice(1);
            const [r, g, b] = [0, 2, 4].map((at) => {
              const value = parseInt(hex.slice(at, at + 2), 16) / 255;
              return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
            });
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
          const inks = ["ink", "muted", "accent", "good", "plain", "none", "unsure"];
          const grounds = ["page", "surface", "sunken"];
          return inks.flatMap((ink) => grounds.map((ground) => [ink, ground, ratio(part(ink), part(ground))]));
        }"""
    )
    assert [pair for pair in ratios if pair[2] < 4.5] == []


def test_hostile_strings_stay_text(visit):
    page = visit("hostile")
    assert page.evaluate("window.pwned") is None
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 1


def test_the_table_unfolds_and_sorts(visit):
    page = visit("one", 390)
    rows = page.locator("table.cells tbody tr:visible")
    assert rows.count() == 20
    page.click("button.more")
    assert rows.count() == 420
    finder = page.locator("table.cells th", has_text="Finder")
    finder.locator("button").press("Enter")
    assert finder.get_attribute("aria-sort") == "descending"
    named = page.locator("table.cells tbody td:nth-child(4)").all_inner_texts()
    assert named == sorted(named, reverse=True)


def test_a_link_opens_its_concept(visit):
    page = visit("several")
    assert page.locator("details.concept[open]").count() == 0
    page.click("nav >> text=truth")
    assert page.locator("details.concept[open] h2").inner_text() == "truth"


def test_without_scripts_everything_is_there(browser, folder):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((folder / "one.html").as_uri())
    assert page.locator("table.cells tbody tr:visible").count() == 420
    assert page.locator("button:visible").count() == len(page.locator("table.cells th").all())
    context.close()
