"""Ways to the page from outside: off by default, at the page's Service, and at the path that the page is told."""

import pytest

from tests.support.chart import OPERATED, manifests, named, notes, of_kind, pods, template

INGRESS, GATEWAY = "page.ingress.enabled=true", "page.gateways[0].name=public"
WAYS = [("Ingress", INGRESS), ("HTTPRoute", GATEWAY)]


def way_of(documents):
    """Host, path and backend, which both kinds say in their own words; the backend is a Service and its port."""
    (found,) = of_kind("Ingress", documents) + of_kind("HTTPRoute", documents)
    (rule,) = found["spec"]["rules"]
    if found["kind"] == "Ingress":
        (path,) = rule["http"]["paths"]
        assert path["pathType"] == "Prefix"
        service = path["backend"]["service"]
        return rule.get("host"), path["path"], (service["name"], service["port"]["name"])
    (match,), (backend,) = rule["matches"], rule["backendRefs"]
    assert match["path"]["type"] == "PathPrefix"
    assert rule.keys() == {"matches", "backendRefs"}, "nothing strips the path"
    return *found["spec"].get("hostnames", [None]), match["path"]["value"], (backend["name"], backend["port"])


def test_by_default_nothing_leads_to_the_page():
    documents = manifests("demo")
    assert of_kind("Ingress", documents) + of_kind("HTTPRoute", documents) == []
    assert "SPOJOIN_PAGE_PATH" not in pods(documents)["page"].variables


@pytest.mark.parametrize(("kind", "way"), WAYS)
@pytest.mark.parametrize(("path", "told"), [("/", None), ("/joins", "/joins"), ("/joins/", "/joins"), ("/a/b", "/a/b")])
def test_both_lead_to_the_pages_service_at_the_path_that_the_page_is_told(kind, way, path, told):
    documents = manifests("demo", way, "page.host=streams.example", f"page.path={path}")
    (port,) = named(documents, "Service", "page")["spec"]["ports"]
    backend = ("demo-spojoin-page", port["name"] if kind == "Ingress" else port["port"])
    assert way_of(documents) == ("streams.example", told or "/", backend)
    assert pods(documents)["page"].variables.get("SPOJOIN_PAGE_PATH") == told


@pytest.mark.parametrize(("kind", "way"), WAYS)
def test_without_a_host_they_take_any(kind, way):
    host, path, _ = way_of(manifests("demo", way))
    assert (host, path) == (None, "/")


def test_an_ingress_has_its_class_its_certificate_and_its_annotations():
    ingress = named(manifests("production"), "Ingress", "page")
    assert ingress["spec"]["ingressClassName"] == "nginx"
    assert ingress["spec"]["tls"] == [{"hosts": ["streams.example"], "secretName": "streams-certificate"}]
    assert len(ingress["metadata"]["annotations"]) == 2
    plain = named(manifests("demo", INGRESS), "Ingress", "page")
    assert plain["spec"].keys() == {"rules"}
    assert "annotations" not in plain["metadata"]


def test_a_route_belongs_to_its_gateways():
    route = named(manifests("operators"), "HTTPRoute", "page")
    assert route["spec"]["parentRefs"] == [{"name": "public", "namespace": "gateways", "sectionName": "https"}]


def test_where_gateways_are_unknown_the_notes_say_what_is_left_out(tmp_path):
    versions = [version for version in OPERATED if not version.startswith("gateway")]
    said, documents = notes(tmp_path, "--set", f"demo.enabled=true,{GATEWAY}", versions=versions)
    assert of_kind("HTTPRoute", documents) == []
    assert "no objects of gateway.networking.k8s.io/v1" in said


def test_the_notes_say_that_the_page_has_no_login(tmp_path):
    said, _ = notes(tmp_path, "--set", f"demo.enabled=true,{INGRESS},page.host=streams.example,page.path=/joins/")
    assert "The page is at streams.example/joins. It has no login of its own." in said


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (f"{INGRESS},page.enabled=false", "needs the page, which page.enabled=false removes: set page.enabled=true"),
        (f"{GATEWAY},page.enabled=false", "needs the page, which page.enabled=false removes: set page.enabled=true"),
        (f"{INGRESS},page.ingress.tlsSecret=s", "page.ingress.tlsSecret is set without page.host: name the"),
        ("page.path=joins", "page.path: Does not match pattern"),
        ("page.path=/joins//x", "page.path: Does not match pattern"),
        ("page.host=https://streams", "page.host: Does not match pattern"),
        ("page.gateways[0].namespace=gateways", "page.gateways.0: name is required"),
    ],
)
def test_contradictory_ways_are_refused(settings, sentence):
    done = template("--set", f"demo.enabled=true,{settings}")
    assert done.returncode != 0
    assert sentence in done.stderr
