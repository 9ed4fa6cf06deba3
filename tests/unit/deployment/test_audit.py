"""`make audit`: what parts there are, what is known of them, and what is passed over until its last day."""

import importlib.util
import json
import threading
import zipfile
from contextlib import contextmanager
from datetime import date
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def program(name):
    """A program of docker/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"docker/{name}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


audit = program("audit")
PART = audit.Part("Maven", "org.example:parser", "1.0", "pkg:maven/org.example/parser@1.0", "ab" * 32)
OTHER = audit.Part("Debian:12", "zlib", "1:1.2.13", "pkg:deb/debian/zlib@1:1.2.13?arch=source")
FINDING = audit.Finding("org.example:parser 1.0", "GHSA-1")
IGNORED = '[[ignored]]\nid = "GHSA-1"\nuntil = 2026-12-31\nreason = "It is never called."\n'


def jar_of(path, *properties):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for group, name, version in properties:
            text = f"groupId={group}\nartifactId={name}\nversion={version}\n"
            archive.writestr(f"META-INF/maven/{group}/{name}/pom.properties", text)
    return path


@contextmanager
def advisories(vulnerable):
    """A server that answers as OSV does."""

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
            found = [{"vulns": [{"id": "GHSA-1"}]} if each["package"]["name"] in vulnerable else {} for each in asked]
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"results": found}).encode())

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_a_jar_is_what_its_own_properties_say_though_it_holds_others(tmp_path):
    path = jar_of(tmp_path / "parser-1.0.jar", ("org.other", "shaded", "9"), ("org.example", "parser", "1.0"))
    found = audit.jar(path)
    assert found[:4] == PART[:4]
    assert len(found.sha256) == 64


def test_a_jar_without_properties_is_what_the_cache_beside_says(tmp_path):
    jar_of(tmp_path / "ivy/org.example/parser/jars/parser-1.0.jar")
    assert audit.jar(jar_of(tmp_path / "jars/kafka/parser-1.0.jar"))[:4] == PART[:4]


def test_a_jar_that_says_nothing_is_named_by_its_file_and_not_looked_up(tmp_path):
    found = audit.jar(jar_of(tmp_path / "jars/kafka/parser-1.0.jar"))
    assert (found.name, found.purl) == ("parser-1.0", "")
    with advisories({"parser-1.0"}) as address:
        assert audit.of_osv([found], address) == []


def test_debian_packages_are_counted_once_by_their_source():
    assert audit.packages("Debian:12\tzlib\t1:1.2.13\n" * 2) == [OTHER]


def test_what_is_vulnerable_is_found_among_more_than_one_request(monkeypatch):
    monkeypatch.setattr(audit, "BATCH", 2)
    with advisories({"org.example:parser"}) as address:
        assert audit.of_osv([OTHER, OTHER, PART, OTHER], address) == [FINDING]


def test_where_advisories_cannot_be_had_it_is_said():
    with pytest.raises(audit.NoAdvisories, match="gives no advisories"):
        audit.of_osv([PART], "http://127.0.0.1:1/")


def test_an_ignored_advisory_counts_again_after_its_last_day():
    assert audit.left([FINDING], IGNORED, date(2026, 12, 31)) == []
    assert audit.left([FINDING], IGNORED, date(2027, 1, 1)) == [FINDING]
    assert audit.left([FINDING], "", date(2026, 12, 31)) == [FINDING]


@pytest.mark.parametrize("broken", [IGNORED.replace("It is never called.", " "), IGNORED.replace("until", "from")])
def test_an_entry_needs_a_reason_and_a_last_day(broken):
    with pytest.raises(SystemExit, match="expected id, until and a reason"):
        audit.left([], broken, date(2026, 1, 1))


def test_the_projects_own_list_can_be_read():
    audit.left([], audit.IGNORED.read_text(), date(2026, 1, 1))


@pytest.mark.parametrize(("vulnerable", "status"), [({"org.example:parser"}, 1), (set(), 0), (None, 2)])
def test_it_fails_on_what_is_known_and_where_nothing_can_be_known(monkeypatch, capsys, vulnerable, status):
    def look(parts):
        if vulnerable is None:
            raise audit.NoAdvisories("nobody answers")
        return [FINDING for part in parts if part.name in vulnerable]

    monkeypatch.setattr(audit, "of_osv", look)
    assert audit._verdict([], [PART]) == status
    said = capsys.readouterr()
    assert ("org.example:parser 1.0: GHSA-1" in said.out) is (status == 1)
    assert ("nobody answers: these parts may be vulnerable" in said.err) is (status == 2)


def test_bills_are_the_same_for_the_same_parts(tmp_path):
    pytest.importorskip("cyclonedx", reason="`make audit` installs it for itself")
    for name in ("a", "b"):
        program("bill").write_bill([PART, OTHER], "spojoin", tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    found = json.loads((tmp_path / "a").read_text())["components"]
    assert {each["purl"] for each in found} == {PART.purl, OTHER.purl}
