"""The pages of the book say what is true: examples are run, links lead somewhere, figures are those on record."""

import re
import sys

import pytest

from pages.examples import examples, pattern, run_page
from support.servers import ROOT, subject_is_oracle

sys.path.append(str(ROOT / "bench"))
import chart  # noqa: E402

DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.glob("*.md") if path.name != "SUMMARY.md")
PROJECT_PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md")]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#([^)\s]+))?\)")

pytestmark = pytest.mark.skipif(subject_is_oracle(), reason="the pages are about this server")


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: page.name)
def test_the_examples_of_a_page(page, tmp_path):
    text = page.read_text()
    if not examples(text):
        pytest.skip("it has no examples")
    faults, _ = run_page(text, tmp_path)
    assert not faults, f"{page.name}\n\n" + "\n".join(faults)


def test_a_wrong_example_is_found(tmp_path):
    lines = ["$ mantissa cli PING", "PONG", "$ mantissa cli ECHO ab", '"ac"', "$ mantissa cli NONE", "..."]
    text = "\n".join(["```console", *lines, "```", ""])
    faults, count = run_page(text, tmp_path)
    assert count == 3 and len(faults) == 2 and "ECHO ab" in faults[0]
    assert re.fullmatch(pattern(["a...c", "...", "z"]), "abc\nq\nr\nz\n")
    assert not re.fullmatch(pattern(["a...c", "z"]), "abc\nq\nz\n")


def test_every_page_is_in_the_summary():
    listed = re.findall(r"\(([\w-]+\.md)\)", (DOCS / "SUMMARY.md").read_text())
    assert sorted(listed) == [page.name for page in PAGES]


def anchors(text):
    """The names of a page's headings, as GitHub and mdBook make them."""
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, DOCS / "SUMMARY.md", *PROJECT_PAGES], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for match in LINK.finditer(page.read_text()):
        target, anchor = match.groups()
        if target.startswith("http"):
            continue
        inside = target.removeprefix("images/")
        assert page.parent != DOCS or "/" not in inside, f"{page.name}: {target} is not in the built book"
        path = page.parent / target
        assert path.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(path.read_text()), f"{page.name}: {target}#{anchor}"


def test_the_figures_of_sizing_are_those_on_record():
    text = (DOCS / "sizing.md").read_text()
    for line in (ROOT / "bench" / "bytes_per_key.tsv").read_text().splitlines():
        name, figure = line.split("\t")
        assert f"| {name} | {figure} |" in text, line


def test_the_chart_and_the_table_are_of_the_results():
    readme = (ROOT / "README.md").read_text()
    assert chart.readme(readme) == readme and chart.CHART.read_text() == chart.chart(), "bench/chart.py --write"


def test_the_program_of_the_embedded_page_is_the_example():
    squeeze = lambda text: " ".join(text.split())
    example = squeeze((ROOT / "crates" / "engine" / "examples" / "embedded.rs").read_text())
    blocks = re.findall(r"^```rust,ignore\n(.*?)^```$", (DOCS / "embedded.md").read_text(), re.M | re.S)
    assert blocks
    for part in "".join(blocks).split("\n\n"):
        assert squeeze(part) in example, part
