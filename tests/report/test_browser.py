"""The page in a real browser: no error, no sideways scrolling, and sorting and filtering that work."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from gpubench.report.html import write_html
from gpubench.report.sentences import MARKS
from tests.builders import make_case, make_launches, make_run
from tests.report.test_html import HOSTILE, SavedRun
from tests.report.test_trace import launch_with_every_mark

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")

pytestmark = pytest.mark.skipif(not (BROWSER and DRIVER), reason="needs Chromium and chromedriver")

FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)


def browser(profile: Path, javascript: bool = True) -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER or ""
    for flag in [*FLAGS.split(), f"--user-data-dir={profile}"]:
        options.add_argument(flag)
    if not javascript:
        options.add_experimental_option("prefs", {"profile.managed_default_content_settings.javascript": 2})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("pages")
    hostile = make_case(HOSTILE, 2, framework=HOSTILE, workload=HOSTILE)
    runs = {
        "good": [SavedRun("0001_cpu", make_run("cpu")), SavedRun("0002_gpu", make_run("gpu"))],
        "hostile": [SavedRun(HOSTILE, make_launches(hostile, [100.0]))],
        "marks": [SavedRun("marks", [launch_with_every_mark()])],
        "empty": [],
    }
    for name, saved in runs.items():
        write_html(saved, folder / f"{name}.html")
    return {name: (folder / f"{name}.html").as_uri() for name in runs}


@pytest.fixture(scope="module")
def chromium(tmp_path_factory) -> Iterator[webdriver.Chrome]:
    driver = browser(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


def resize(chromium: webdriver.Chrome, width: int) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def cpu_table(chromium: webdriver.Chrome) -> WebElement:
    return chromium.find_element(By.CSS_SELECTOR, "section:has(.banner) [data-table]")


def column(chromium: webdriver.Chrome, index: int) -> list[str]:
    rows = cpu_table(chromium).find_elements(By.CSS_SELECTOR, "tbody tr")
    return [row.find_elements(By.TAG_NAME, "td")[index].text for row in rows if row.is_displayed()]


@pytest.mark.parametrize("page", ["good", "hostile", "marks", "empty"])
@pytest.mark.parametrize("width", [400, 1400])
def test_no_page_scrolls_sideways_or_logs_anything(chromium, pages, page, width):
    resize(chromium, width)
    chromium.get(pages[page])
    assert chromium.execute_script("return document.documentElement.scrollWidth") <= width
    assert chromium.get_log("browser") == []


def test_images_are_drawn(chromium, pages):
    chromium.get(pages["good"])
    widths = chromium.execute_script("return [...document.images].map((image) => image.naturalWidth)")
    assert len(widths) == 2
    assert all(width > 100 for width in widths)


@pytest.mark.parametrize("page", ["good", "marks"])
@pytest.mark.parametrize("width", [400, 1400])
def test_traces_are_drawn_within_the_page_and_their_labels_stay_readable(chromium, pages, page, width):
    resize(chromium, width)
    chromium.get(pages[page])
    edges = chromium.execute_script(
        "return [...document.querySelectorAll('svg.plot, svg.plot text, svg.plot polyline')]"
        ".map((each) => each.getBoundingClientRect()).map((box) => [box.left, box.right])"
    )
    assert len(edges) > 50
    assert all(left >= 0 and right <= width for left, right in edges)
    heights = chromium.execute_script(
        "return [...document.querySelectorAll('svg.plot text')].map((each) => each.getBoundingClientRect().height)"
    )
    assert min(heights) > 10


def test_every_kind_of_mark_looks_different(chromium, pages):
    chromium.get(pages["marks"])
    looks = chromium.execute_script(
        "return [...document.querySelectorAll('svg.key rect')].map((each) => [each, getComputedStyle(each)])"
        ".map(([each, style]) => [style.fill, style.stroke, style.opacity, each.getAttribute('height')].join())"
    )
    assert len(set(looks)) == len(looks) == len(MARKS)
    classes = chromium.execute_script(
        "return [...document.querySelectorAll('svg.plot rect')].map((each) => each.getAttribute('class'))"
    )
    assert set(classes) == set(MARKS)


def test_a_click_sorts_by_number_and_another_turns_it_round(chromium, pages):
    resize(chromium, 1400)
    chromium.get(pages["good"])
    heads = cpu_table(chromium).find_elements(By.CSS_SELECTOR, "thead th")
    rate = next(index for index, head in enumerate(heads) if head.text == "samples/s")
    button = heads[rate].find_element(By.TAG_NAME, "button")

    button.click()
    *numbers, last = column(chromium, rate)
    assert last == "skipped"
    assert [float(number) for number in numbers] == sorted(float(number) for number in numbers)
    assert heads[rate].get_attribute("aria-sort") == "ascending"

    button.click()
    *numbers, last = column(chromium, rate)
    assert last == "skipped"
    assert [float(number) for number in numbers] == sorted((float(number) for number in numbers), reverse=True)


def test_the_filter_keeps_rows_with_all_its_words(chromium, pages):
    chromium.get(pages["good"])
    chromium.find_element(By.CSS_SELECTOR, "section:has(.banner) .filter input").send_keys("TORCH ddp")
    assert column(chromium, 0) == ["torch", "torch"]
    assert column(chromium, 1) == ["ddp", "ddp"]
    assert "2 of 14 cases" in chromium.find_element(By.CSS_SELECTOR, "section:has(.banner) .filter").text


def test_hostile_names_run_nothing(chromium, pages):
    chromium.get(pages["hostile"])
    assert "<script>alert(1)</script>" in chromium.find_element(By.TAG_NAME, "table").text
    assert chromium.execute_script("return document.scripts.length") == 1
    assert chromium.execute_script("return document.querySelectorAll('img[onerror]').length") == 0


def test_the_policy_stops_scripts_and_requests_that_are_not_the_pages_own(chromium, pages):
    chromium.get(pages["empty"])
    ran = chromium.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.ran = true';"
        "document.body.append(s); return window.ran === true"
    )
    assert not ran
    assert any("Content Security Policy" in entry["message"] for entry in chromium.get_log("browser"))


def test_the_page_reads_without_javascript(tmp_path, pages):
    driver = browser(tmp_path, javascript=False)
    try:
        driver.get(pages["good"])
        assert not driver.find_elements(By.CSS_SELECTOR, "th button")
        assert not driver.find_element(By.CSS_SELECTOR, ".filter").is_displayed()
        text = driver.find_element(By.TAG_NAME, "body").text
    finally:
        driver.quit()
    for told in ("Does it scale?", "2 CPU shares train", "rank died", "How the numbers are made", "resnet50"):
        assert told in text


def test_on_paper_nothing_is_cut_off(chromium, pages):
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    resize(chromium, 1017)  # A4 across, less its margins, at 96 dots an inch
    try:
        chromium.get(pages["good"])
        assert chromium.execute_script("return document.documentElement.scrollWidth") <= 1017
        assert not chromium.find_element(By.CSS_SELECTOR, ".filter").is_displayed()
    finally:
        chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
