"""The report: its numbers are the library's, texts are escaped and never cut in silence, and a browser can use it."""

from __future__ import annotations

import base64
import gzip
import json
import re
import shutil
import warnings

import pytest

from rcp_irx import GainTable
from rcp_irx import demo as collection
from rcp_irx.demo import results
from rcp_irx.evaluation import ndcg
from rcp_irx.report import gather, render

HOSTILE = '<script>document.title="broken"</script><img src="http://example.org/x.png" onerror="alert(1)"> </script> ü'


@pytest.fixture(scope="module")
def content():
    texts = dict(collection.documents())
    texts["d025"] = HOSTILE + texts["d025"]
    gains = results.gains()
    queries = gains.queries
    queries.loc[0, "query"] = HOSTILE
    held = GainTable(gains.documents.assign(gain_se=0.0123), queries, gains.criteria, gains.metadata)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return gather(held, results.runs(), results.qrels(), title="A <b>bold</b> title").with_texts(texts)


def documents(page):
    held = json.loads(re.search(r'id="documents">(.*?)</script>', page, re.DOTALL)[1])
    return [json.loads(gzip.decompress(base64.b64decode(held[str(i)]))) for i in range(len(held))]


def test_every_document_is_there_with_its_numbers_and_text(content):
    page, length = render(content)
    assert length is None
    gains = results.gains().documents
    runs = results.runs()
    first = {
        name: run.sort_values(["qid", "score", "docno"], ascending=[True, False, False]) for name, run in runs.items()
    }
    for query, rows in zip(content.queries.itertuples(), documents(page), strict=True):
        own = gains[gains["qid"] == query.qid].set_index("docno")
        assert set(own.index) <= set(rows["docno"])
        for i, docno in enumerate(rows["docno"]):
            text = dict(collection.documents())[docno]
            assert rows["text"][i] == (HOSTILE + text if docno == "d025" else text)
            if docno in own.index:
                assert rows["gain"][i] == pytest.approx(own.loc[docno, "gain"], abs=5e-5)
                assert rows["pass:C1"][i] == own.loc[docno, "C1"]
            else:
                assert rows["gain"][i] is None
            for name, run in first.items():
                ranking = run.loc[run["qid"] == query.qid, "docno"].tolist()
                assert rows[f"rank:{name}"][i] == (ranking.index(docno) + 1 if docno in ranking else None)


def test_the_queries_and_the_leaderboard_hold_the_librarys_scores(content):
    gains = results.gains()
    for name, run in results.runs().items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = ndcg(run, gains, 10)
        got = content.queries.set_index("qid")[f"score:{name}"]
        assert got.to_dict() == pytest.approx(expected.to_dict(), abs=1e-12)
        row = next(row for row in content.leaderboards[0]["systems"] if row["system"] == name)
        assert row["measures"][0][0] == pytest.approx(expected.mean(), abs=1e-12)


def test_queries_with_numbers_as_ids_stand_by_their_size(content):
    assert content.queries["qid"].tolist() == [str(number) for number in range(1, 11)]


def test_texts_are_escaped_and_nothing_is_loaded(content):
    page, _ = render(content)
    assert "<b>bold</b>" not in page
    assert HOSTILE not in page
    assert not re.search(r'(?:src|href)="(?!#|data:)', page)
    assert page.count("</script>") == 5  # its own: nothing ends one early


def test_a_page_that_would_be_too_large_has_shorter_texts_and_says_so(content):
    whole = len(render(content)[0].encode())
    page, length = render(content, largest=whole - 5_000)
    assert length is not None
    assert len(page.encode()) <= whole - 5_000
    assert f"Texts are cut to {length} characters" in page
    text = next(text for text in documents(page)[3]["text"] if "more character" in text)
    assert re.fullmatch(rf".{{{length}}} \[\d+ more characters?\]", text, re.DOTALL)


def test_what_is_missing_is_said():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bare = gather(results.gains())
    page, _ = render(bare)
    for option in ("name TREC runs", "--qrels", "--log", "--docs"):
        assert option in page


@pytest.fixture(scope="module")
def driver(content, tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver")
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and chromedriver):
        pytest.skip("needs Debian's chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    page = tmp_path_factory.mktemp("page") / "report.html"
    page.write_text(render(content)[0], encoding="utf-8")
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(chromedriver))
    driver.get(page.as_uri())
    yield driver
    driver.quit()


class TestBrowser:
    """In headless Chromium."""

    def rows(self, driver):
        found = driver.find_elements("css selector", "#table > tbody > tr")
        return [row for row in found if row.is_displayed()]

    def test_searching_hides_other_queries(self, driver):
        box = driver.find_element("id", "search")
        box.send_keys("HEAT pump")
        assert [row.find_elements("tag name", "td")[0].text for row in self.rows(driver)] == ["2"]
        assert driver.find_element("id", "count").text == "1 of 10 queries"
        box.clear()
        box.send_keys("zebra")
        assert not self.rows(driver)
        box.clear()
        box.send_keys(" \b")
        assert len(self.rows(driver)) == 10

    def test_sorting_turns_and_counts_numbers_as_numbers(self, driver, content):
        heads = driver.find_elements("css selector", "#table thead button")
        heads[0].click()
        assert [row.find_elements("tag name", "td")[0].text for row in self.rows(driver)] == [
            str(i) for i in range(1, 11)
        ]
        best = next(head for head in heads if head.text.startswith("Best gain"))
        best.click()
        shown = [float(row.find_elements("tag name", "td")[3].text) for row in self.rows(driver)]
        assert shown == sorted(shown, reverse=True)
        best.click()
        assert [float(row.find_elements("tag name", "td")[3].text) for row in self.rows(driver)] == shown[::-1]
        assert best.find_element("xpath", "..").get_attribute("aria-sort") == "ascending"

    def test_a_query_opens_with_the_keyboard_and_shows_texts_as_texts(self, driver):
        from selenium.webdriver.common.keys import Keys
        from selenium.webdriver.support.ui import WebDriverWait

        button = next(b for b in driver.find_elements("css selector", ".open") if b.text.startswith("<script>"))
        button.send_keys(Keys.ENTER)
        inner = WebDriverWait(driver, 20).until(lambda d: d.find_elements("css selector", ".detail table"))[0]
        assert button.get_attribute("aria-expanded") == "true"
        assert HOSTILE in inner.text
        assert "± 0.012" in inner.text
        assert driver.title == "A <b>bold</b> title"
        button.send_keys(Keys.ENTER)
        assert not driver.find_elements("css selector", ".detail")

    def test_no_error_and_no_request(self, driver):
        assert [entry for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
        events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
        asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
        assert {url.split(":")[0] for url in asked} <= {"file", "data"}
        assert sum(url.startswith("file:") for url in asked) == 1

    def test_a_phone_needs_no_sideways_scrolling_of_the_page(self, driver):
        driver.set_window_size(390, 844)
        wide = driver.execute_script(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert wide <= 0

    def test_every_chart_has_a_text(self, driver):
        charts = driver.find_elements("tag name", "svg")
        assert len(charts) == 3
        for chart in charts:
            assert len(chart.get_attribute("aria-label")) > 40
