"""Pages: whole, small, without network or torch, and safe whatever the records say."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import time
from html.parser import HTMLParser

import pytest
from tests.report.made import HEALTHY, report
from tests.report.made_runs import audited, row, run

from creditscope.errors import BadFile
from creditscope.records.report import Report
from creditscope.registry import natural_key
from creditscope.report.formats import formats
from creditscope.report.headline import headline
from creditscope.report.html import page as html_page
from creditscope.report.html.audit import page
from creditscope.report.html.page import as_json, breakable, code, library
from creditscope.report.html.study import write_study
from creditscope.report.html.tables import Cell, PageTable
from creditscope.report.layers import arranged, columns, telling_columns
from creditscope.report.reading import telling
from creditscope.report.study_views import judged_views
from creditscope.report.views import AuditView, from_runs, gather
from creditscope.verdict import Missing, Reason

HOSTILE = "<script>alert(1)</script>"


class Elements(HTMLParser):
    """Every element with its attributes, and the text of the page outside scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attributes)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside not in ("script", "style"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def test_the_verdict_and_its_reason_stand_at_the_top_in_words():
    text = Elements(audited().to("html")).text
    top = text[: text.index("Findings The diagnostics that fire")]
    assert "FAIL(D1+D2+D3)" in top
    assert headline(audited()) in top
    assert "The stream exploded, and Γ as usually computed is invalid: one block multiplied it by" in top
    assert "claimed accuracy 27.0 %, Γ 0.170" in top


def test_every_finding_opens_to_what_it_means_does_not_mean_and_asks_for():
    made = audited()
    found = Elements(made.to("html"))
    opened = [a["id"] for tag, a in found.found if tag == "details" and "finding" in (a["class"] or "").split()]
    assert sorted(opened, key=natural_key) == list(made.findings)
    for finding in made.findings.values():
        assert finding.means in found.text
        assert finding.does_not_mean in found.text
        assert finding.remedy in found.text


@pytest.mark.parametrize("healthy", [True, False])
def test_the_page_shows_what_the_terminal_page_shows_and_keeps_the_rest_in_one_closed_part(healthy):
    made = audited(healthy=healthy)
    text = made.to("html")
    top, rest = text.split('<details class="everything" id="everything">')
    told = [finding.code for finding in telling(made)]
    assert re.findall(r'<details class="finding[^"]*" id="([^"]+)"', top) == told
    assert set(re.findall(r'<details class="finding[^"]*" id="([^"]+)"', rest)) == set(made.findings) - set(told)
    (layers,) = re.findall(r'<section[^>]* id="layers">.*?</section>', top, re.DOTALL)
    assert re.findall(r"<th scope=\"col\"[^>]*>([^<]*)</th>", layers)[1:] == [
        f"({column.heading})" if column.gated else column.heading for column in arranged(made, telling_columns(made))
    ]
    (every,) = re.findall(r'<section[^>]* id="all-layers">.*?</section>', rest, re.DOTALL)
    assert len(re.findall(r"<th scope=\"col\"", every)) == 1 + len(columns(made))
    assert top.index(headline(made).split(":")[0]) < top.index('id="findings"') < top.index('id="layers"')
    assert top.index('id="layers"') < top.index('id="charts"')


def test_an_inconclusive_audit_says_what_is_missing():
    missing = Missing(Reason.NO_CONTROL, "no frozen-blocks control was given")
    text = Elements(report(HEALTHY | {"D3": missing}).to("html")).text
    assert "INCONCLUSIVE(D3)" in text
    assert "no frozen-blocks control was given" in text


def test_a_pass_says_what_it_does_not_mean():
    assert "What PASS does not mean" in Elements(report().to("html")).text


def test_one_page_is_below_two_megabytes_and_names_no_other_place():
    text = audited().to("html")
    assert len(text.encode()) < 2_000_000
    for tag, attributes in Elements(text).found:
        for name in ("src", "href", "srcset", "action", "data"):
            place = attributes.get(name) or "#"
            assert place.startswith(("#", "data:")), (tag, place)
    policy = next(a["content"] for t, a in Elements(text).found if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "unsafe-eval" not in policy


def test_hostile_names_and_notes_come_out_as_text():
    found = Elements(page(from_runs([run(HOSTILE, key="abc", notes=f"{HOSTILE}<img src=x onerror=alert(1)>")])[0]))
    scripts = [attributes for tag, attributes in found.found if tag == "script"]
    kinds = ("application/json", "application/ld+json")  # data, which no browser runs
    assert all(attributes.get("type") in kinds for attributes in scripts[:-2])
    assert not any(tag == "img" for tag, _ in found.found)
    assert found.text.count(HOSTILE) >= 3


def test_no_text_can_end_its_script_element():
    spec = {"title": "</script><!--<script>&\u2028", "n": 1.5}
    written = as_json(spec)
    assert not set("<>&\u2028") & set(written)
    assert json.loads(written) == spec
    assert "</script" not in library()
    assert "<!--" not in library()


def test_code_is_set_as_code_and_the_rest_is_escaped():
    assert code("use `a < b` & <i>") == "use <code>a &lt; b</code> &amp; &lt;i&gt;"


def test_a_long_verdict_can_be_broken_at_its_codes_and_is_escaped():
    assert breakable("FAIL(D1:stream+D2) <b>") == "FAIL<wbr>(D1:stream+<wbr>D2) &lt;b&gt;"
    assert breakable("D1:stream", ":") == "D1:<wbr>stream"


def test_a_diagnostic_without_a_limit_is_not_said_to_fire():
    assert not re.search(r'class="limit">fires\s*<', audited().to("html"))


def test_the_json_behind_a_page_comes_back_out_of_it(tmp_path):
    made = audited()
    (link,) = [a["href"] for t, a in Elements(made.to("html")).found if t == "a" and "download" in a]
    assert link is not None
    stored = base64.b64decode(link.partition("base64,")[2]).decode()
    assert Report.parse(stored).to_json() == made.to_json()
    written = made.to_html(tmp_path / "deep" / "audit.html")
    assert written.read_text(encoding="utf-8") == made.to("html")


def test_a_run_that_was_never_audited_shows_its_curves_and_judges_nothing():
    (shown,) = from_runs([run().model_copy(update={"report": None})])
    text = Elements(page(shown)).text
    assert "not audited" in text
    assert "Accuracy during training" in text
    assert "Findings" not in text


def test_the_pages_of_a_study_share_one_chart_library_and_link_to_every_run(tmp_path):
    records = [run("dfa", 1, key="a1"), run("dfa", 2, key="a2"), run("bp", 1, healthy=True, key="b1")]
    rows = [row("dfa", records[:2]), row("bp", records[2:])]
    sheet = PageTable(
        "published", "Against the published figures", "", ("method", "ours"), ((Cell("dfa"), Cell("1", 1.0)),)
    )
    shown = judged_views({record.key: record for record in records}, rows, "three")
    index = write_study(tmp_path, shown, title="A study", rows=rows, tables=[sheet])
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["a1.html", "a2.html", "b1.html"]
    assert sorted(path.name for path in (tmp_path / "assets").iterdir()) == ["charts.js", "page.css", "page.js"]
    found = Elements(index.read_text(encoding="utf-8"))
    places = [a.get("href") or a.get("src") for t, a in found.found if t in ("a", "script", "link")]
    local = [place for place in places if place and not place.startswith(("#", "data:"))]
    assert {"runs/a1.html", "runs/a2.html", "runs/b1.html", "assets/charts.js"} <= set(local)
    assert all((tmp_path / place).is_file() for place in local)
    assert "Against the published figures" in found.text
    assert [a["data-series"] for t, a in found.found if "data-series" in a] == ["dfa", "bp"]
    one = (tmp_path / "runs" / "a1.html").read_text(encoding="utf-8")
    assert len(one) < 200_000
    assert "../assets/charts.js" in one


def test_a_run_in_a_study_is_judged_beside_its_twin():
    alone = run("dfa", 1, key="a1")
    open_report = report(HEALTHY | {"D3": Missing(Reason.NO_CONTROL, "no control")})
    beside = row("DFA, seed-matched", [alone])
    records = {"a1": alone.model_copy(update={"report": open_report})}
    (shown,) = judged_views(records, [beside], "strict")
    assert shown.report is not None
    assert shown.report.protocol == "strict"
    with pytest.raises(TypeError, match="protocol"):
        judged_views(records, [beside])  # type: ignore[call-arg]  # the page would name one that nobody chose
    assert shown.verdict == str(beside.seeds[0].verdict)
    assert shown.report.control_accuracy == (0.31,)
    assert shown.label == "DFA, seed-matched"


def test_a_key_that_is_no_plain_word_is_not_trusted_with_a_path(tmp_path):
    evil = AuditView("dfa", "dfa", key="../../outside", report=audited())
    write_study(tmp_path / "pages", [evil], title="A study")
    assert [path.name for path in (tmp_path / "pages" / "runs").iterdir()] == ["report-1.html"]
    assert not (tmp_path / "outside.html").exists()


def test_labels_say_the_method_and_whatever_else_differs():
    one, other = run("dfa", 1), run("dfa", 2)
    wide = other.model_copy(update={"spec": other.spec | {"network_options": {"depth": 2, "d": 512}, "penalty": 0.01}})
    frozen = other.model_copy(update={"spec": other.spec | {"control": "frozen"}})
    assert [shown.label for shown in from_runs([one, other])] == ["dfa", "dfa"]
    assert [shown.label for shown in from_runs([one, wide, frozen])] == [
        "dfa",
        "dfa + penalty 0.01, resmlp(d=512)",
        "dfa, frozen",
    ]


def test_titles_show_whatever_differs_between_runs_that_are_read_together():
    one, other = run("dfa", 1), run("dfa", 2)
    slow, fast = (r.model_copy(update={"spec": r.spec | {"learning_rate": x}}) for r, x in ((one, 1e-3), (other, 0.1)))
    views = from_runs([slow, fast])
    for view, rate, seed in zip(views, ("0.001", "0.1"), (1, 2), strict=True):
        assert view.title == view.report.subject.name
        assert f"learning_rate {rate}" in view.title
        assert f"seed {seed}" in view.title
    for name in ("csv", "markdown", "text", "latex"):
        text = formats[name].text(views).replace("\\", "")
        assert all(" ".join(view.title.split()) in " ".join(text.split()) for view in views)
    (alone,) = from_runs([slow])
    assert alone.title == slow.report.subject.name


@pytest.mark.parametrize("name", list(formats))
def test_a_control_has_no_verdict_of_its_own_in_any_format(name):
    frozen = run("dfa", 1).model_copy(update={"spec": run("dfa", 1).spec | {"control": "frozen"}})
    (view,) = from_runs([frozen])
    assert (view.verdict, view.report.verdict.exit_code) == ("control", 0)
    assert view.report.findings["D3"].reason is Reason.NOT_APPLICABLE
    assert view.report.findings["D3"].note == "this run is the frozen control"
    text = formats[name].render(view)
    assert "control" in text
    assert not re.search(r"FAIL\(|INCONCLUSIVE\(|train one", text)


def test_a_folder_of_a_run_a_store_and_a_file_are_all_read(tmp_path):
    run(key="abc").to_json(tmp_path / "store" / "abc" / "record.json")
    run("bp", key="def").to_json(tmp_path / "store" / "def" / "record.json")
    audited().to_json(tmp_path / "report.json")
    assert [view.verdict for view in gather(tmp_path / "store" / "abc")] == ["FAIL(D1+D2+D3)"]
    assert [view.label for view in gather(tmp_path / "store")] == ["dfa", "bp"]
    assert [view.key for view in gather(tmp_path / "report.json")] == [""]


@pytest.mark.parametrize("change", [{"schema_version": 0}, {"schema_version": 99}, {"schema_version": None}])
@pytest.mark.parametrize("kind", ["report", "run"])
def test_another_schema_version_is_refused_with_a_clear_word(change, kind, tmp_path):
    made = audited() if kind == "report" else run()
    path = tmp_path / "old.json"
    content = json.loads(made.to_json()) | change
    del content["checksum"]
    path.write_text(json.dumps(content))
    with pytest.raises(BadFile, match=r"old\.json has schema version .*, this creditscope reads 1 and 2"):
        gather(path)


@pytest.mark.parametrize(
    ("text", "found"), [("{", "is not JSON"), ("[]", "schema version None"), ('{"a": 1}', "schema version None")]
)
def test_a_file_that_is_neither_report_nor_run_is_refused(text, found, tmp_path):
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(BadFile, match=found):
        gather(path)


def test_an_empty_folder_and_a_missing_one_are_refused(tmp_path):
    with pytest.raises(BadFile, match="Nothing can be shown"):
        gather(tmp_path)
    with pytest.raises(BadFile, match="is neither a file nor a folder"):
        gather(tmp_path / "absent")


def test_a_report_renders_where_torch_cannot_be_imported(tmp_path):
    run().to_json(tmp_path / "run" / "record.json")
    script = """
import sys
sys.modules["torch"] = None
from creditscope.cli import run
code = run(["report", "run", "--out", "page.html", "--out", "page.tex", "--out", "page.md"])
assert "scipy" not in sys.modules
sys.exit(code)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {"page.html", "page.tex", "page.md"} <= {path.name for path in tmp_path.iterdir()}


def test_the_chart_library_is_bundled_once_and_again_where_the_kept_one_is_damaged(tmp_path, monkeypatch):
    bundled = []
    monkeypatch.setattr(html_page.platformdirs, "user_cache_dir", lambda *_, **__: str(tmp_path))
    monkeypatch.setattr(html_page, "_bundled", lambda: bundled.append(1) or "(function () {})();\n")
    made = library.__wrapped__
    assert made() == made() == "(function () {})();\n"
    assert len(bundled) == 1
    (kept,) = tmp_path.iterdir()
    kept.write_text(kept.read_text().replace("function", "fraction"))
    assert made() == made() == "(function () {})();\n"
    assert len(bundled) == 2


@pytest.mark.slow
def test_two_hundred_runs_are_pages_in_less_than_ten_seconds(tmp_path):
    methods = [f"method {index}" for index in range(8)]
    records = [
        run(method, seed, epochs=30, key=f"{index}x{seed}")
        for seed in range(25)
        for index, method in enumerate(methods)
    ]
    rows = [row(method, [record for record in records if record.spec["method"] == method]) for method in methods]
    started = time.process_time()
    views = judged_views({record.key: record for record in records}, rows, "three")
    index = write_study(tmp_path, views, title="Many", rows=rows)
    assert time.process_time() - started < 10
    assert len(list((tmp_path / "runs").iterdir())) == 200
    assert index.stat().st_size < 2_000_000
    assert len(re.findall(r"<tr><th scope=row", index.read_text(encoding="utf-8"))) == 208


def test_controls_are_counted_apart_and_switched_off_at_first(tmp_path):
    twin = run("dfa", 1, key="c1")
    twin = twin.model_copy(update={"spec": twin.spec | {"control": "frozen"}})
    index = write_study(tmp_path, from_runs([twin, run("dfa", 1, key="a1")]), title="A study")
    found = Elements(index.read_text(encoding="utf-8"))
    assert "✗ 1 fail" in found.text
    assert "· 1 control" in found.text
    boxes = [(a["data-series"], "checked" in a) for t, a in found.found if "data-series" in a]
    assert boxes == [("dfa", True), ("dfa, frozen", False)]
    assert "This run is a control" in Elements((tmp_path / "runs" / "c1.html").read_text(encoding="utf-8")).text
