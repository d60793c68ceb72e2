import hashlib
import itertools
import socket
import threading
from collections.abc import Iterator

import pytest

from taskmem_evidence import urls
from taskmem_evidence.urls import UrlVerifier
from taskmem_hookspecs import Verdict
from taskmem_hookspecs.testing import VerifierSuite
from taskmem_program import web_access
from taskmem_program.web_access import is_public
from tests.plugins.evidence.claims import a_claim
from tests.support.pages import make_certificate, serve_pages
from tests.support.waiting import PATIENCE

BODY = b"hello from what was made"
SECRET = "hunter2"  # noqa: S105


@pytest.fixture(autouse=True)
def _patience(monkeypatch):
    """Only a test that is about time runs out of it."""
    monkeypatch.setattr(urls, "TOTAL_SECONDS", PATIENCE)
    monkeypatch.setattr(urls, "CONNECT_SECONDS", PATIENCE)


@pytest.fixture
def server():
    pages = {
        "/": (200, {}, BODY),
        "/created": (201, {}, BODY),
        "/empty": (200, {}, b""),
        "/none": (204, {}, b""),
        "/gone": (410, {}, BODY),
        "/lost": (404, {}, BODY),
        "/broken": (500, {}, BODY),
        "/locked": (401, {}, BODY),
        "/mine": (403, {}, BODY),
        "/busy": (429, {}, BODY),
        "/post": (405, {}, BODY),
        "/challenge": (503, {"cf-mitigated": "challenge"}, BODY),
        "/teapot": (999, {}, BODY),
        "/largest": (200, {}, b"x" * urls.LARGEST_BODY_BYTES),
        "/larger": (200, {}, b"x" * (urls.LARGEST_BODY_BYTES + 1)),
        "/short": (200, {"Content-Length": "1000"}, BODY),
        "/packed": (200, {"Content-Encoding": "gzip"}, BODY),
        "/same": (302, {"Location": "/"}, b""),
        "/loop": (302, {"Location": "/loop"}, b""),
        "/private": (302, {"Location": f"/users/sign_in?key={SECRET}"}, b""),
        "/bare": (302, {}, BODY),
        "/elsewhere": (302, {"Location": f"http://example.org/?key={SECRET}"}, b""),
        "/named": (302, {"Location": f"http://u:{SECRET}@127.0.0.1/"}, b""),
        "/file": (302, {"Location": "file:///etc/passwd"}, b""),
        "/port": (302, {"Location": "http://127.0.0.1:99999999/"}, b""),
        "/nonsense": (302, {"Location": "http://[::1"}, b""),
        **{f"/{n}": (302, {"Location": f"/{n - 1}"}, b"") for n in range(1, 12)},
        "/0": (200, {}, BODY),
    }
    with serve_pages(pages) as one:
        yield one


class TestUrls(VerifierSuite):
    @pytest.fixture(autouse=True)
    def _server(self, server):
        self.top = f"http://127.0.0.1:{server.port}"

    def make_verifier(self, tmp_path):
        return UrlVerifier()

    def make_true(self, tmp_path):
        return a_claim(f"{self.top}/", kind="url")

    def make_false(self, tmp_path):
        return a_claim(f"{self.top}/lost", kind="url")


async def look(subject, **more):
    return await UrlVerifier().verify(a_claim(subject, kind="url", **more))


async def verify_path(server, path, **more):
    return await look(f"http://127.0.0.1:{server.port}{path}", **more)


@pytest.mark.parametrize(("path", "status"), [("/", 200), ("/created", 201)])
async def test_what_answers_with_something_is_proven_by_its_sum(server, path, status):
    finding = await verify_path(server, path)
    assert finding.verdict is Verdict.VERIFIED
    assert finding.size == len(BODY)
    assert finding.checksum == hashlib.sha256(BODY).hexdigest()
    assert f"{path} answers with status {status}; 24 bytes were read" in finding.detail
    assert len(server.asked) == 1


async def test_a_checksum_that_was_claimed_must_be_that_of_the_body(server):
    right = hashlib.sha256(BODY).hexdigest()
    assert (await verify_path(server, "/", checksum=right)).verdict is Verdict.VERIFIED
    assert (await verify_path(server, "/", checksum="0" * 64)).verdict is Verdict.REFUTED


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("/lost", "status 404"),
        ("/gone", "status 410"),
        ("/broken", "status 500"),
        ("/empty", "status 200 and nothing"),
    ],
)
async def test_another_answer_or_none_of_substance_is_refuted(server, path, part):
    finding = await verify_path(server, path)
    assert finding.verdict is Verdict.REFUTED
    assert part in finding.detail


async def test_an_answer_that_never_has_a_body_is_proven(server):
    finding = await verify_path(server, "/none")
    assert finding.verdict is Verdict.VERIFIED
    assert "status 204" in finding.detail


@pytest.mark.parametrize(
    "path",
    ["/locked", "/mine", "/busy", "/post", "/bare", "/challenge", "/teapot", "/private"],
)
async def test_what_may_not_be_seen_is_unproven(server, path):
    finding = await verify_path(server, path)
    assert finding.verdict is Verdict.UNPROVEN
    assert "may not be seen" in finding.detail
    assert SECRET not in finding.detail


@pytest.mark.parametrize(("path", "private"), [("/acme/app/pull/7", True), ("/acme/other", False)])
async def test_a_page_of_the_own_remote_may_be_private(server, monkeypatch, path, private):
    monkeypatch.setattr(urls, "is_on_remote", lambda folder, host, path: "acme/app" in path)
    server.pages[path] = (404, {}, BODY)
    finding = await verify_path(server, path)
    assert finding.verdict is (Verdict.UNPROVEN if private else Verdict.REFUTED)


async def test_a_server_is_told_who_asks_and_that_a_page_will_do(server):
    await verify_path(server, "/")
    assert "taskmem" in server.asked[0][1]["User-Agent"]
    assert server.asked[0][1]["Accept"] == "*/*, text/html"


async def test_nothing_of_a_body_or_behind_a_path_is_ever_said(server):
    for path in ("/", "/lost", "/broken", "/empty", "/same"):
        finding = await verify_path(server, f"{path}?token={SECRET}#{SECRET}")
        assert "hello" not in finding.detail
        assert SECRET not in finding.detail


async def test_the_query_is_asked_for_and_the_fragment_is_not(server):
    await verify_path(server, "/?a=1#part")
    assert server.asked[0][0] == "/?a=1"


# --- size ---------------------------------------------------------------------


async def test_a_body_of_a_mebibyte_is_summed_whole(server):
    whole = hashlib.sha256(b"x" * urls.LARGEST_BODY_BYTES).hexdigest()
    finding = await verify_path(server, "/largest", checksum=whole)
    assert (finding.verdict, finding.size) == (Verdict.VERIFIED, urls.LARGEST_BODY_BYTES)


async def test_of_a_larger_one_only_the_beginning_is_read(server):
    finding = await verify_path(server, "/larger")
    assert (finding.verdict, finding.size) == (Verdict.VERIFIED, urls.LARGEST_BODY_BYTES)
    assert "the first 1,048,576 bytes" in finding.detail


async def test_the_beginning_is_never_taken_for_the_sum_of_all(server):
    part = hashlib.sha256(b"x" * urls.LARGEST_BODY_BYTES).hexdigest()
    finding = await verify_path(server, "/larger", checksum=part)
    assert finding.verdict is Verdict.UNPROVEN


async def test_a_body_that_breaks_off_is_unproven(server):
    finding = await verify_path(server, "/short")
    assert finding.verdict is Verdict.UNPROVEN
    assert "broke off" in finding.detail


async def test_a_body_is_neither_asked_for_packed_nor_unpacked(server):
    finding = await verify_path(server, "/packed")
    assert finding.checksum == hashlib.sha256(BODY).hexdigest()
    assert server.asked[0][1]["Accept-Encoding"] == "identity"


# --- redirects ----------------------------------------------------------------


async def test_redirects_on_the_same_host_are_followed(server):
    assert (await verify_path(server, "/same")).verdict is Verdict.VERIFIED
    assert (await verify_path(server, "/10")).verdict is Verdict.VERIFIED


@pytest.mark.parametrize("path", ["/11", "/loop"])
async def test_no_more_than_ten_redirects_are_followed(server, path):
    finding = await verify_path(server, path)
    assert finding.verdict is Verdict.REFUTED
    assert len(server.asked) == 11


async def test_a_redirect_to_another_host_is_followed(server, names):
    names["files.example"] = ["127.0.0.1"]
    target = f"http://files.example:{server.port}/?key={SECRET}"
    server.pages["/release"] = (302, {"Location": target}, b"")
    finding = await verify_path(server, "/release")
    assert finding.verdict is Verdict.VERIFIED
    assert f"http://files.example:{server.port}/ answers with status 200" in finding.detail
    assert SECRET not in finding.detail


async def test_what_is_never_asked_is_not_asked_behind_a_redirect(server, names):
    names["meta.example"] = ["169.254.169.254"]
    server.pages["/release"] = (302, {"Location": "http://meta.example/"}, b"")
    finding = await verify_path(server, "/release")
    assert finding.verdict is Verdict.UNPROVEN
    assert "never asked" in finding.detail


@pytest.mark.parametrize("path", ["/named", "/file", "/nonsense", "/port"])
async def test_a_redirect_to_what_is_not_asked_is_unproven(server, path):
    finding = await verify_path(server, path)
    assert finding.verdict is Verdict.UNPROVEN
    assert SECRET not in finding.detail
    assert len(server.asked) == 1


# --- what is asked ------------------------------------------------------------


@pytest.mark.parametrize(
    "subject", ["", "out.txt", "/etc/passwd", "file:///etc/passwd", "ftp://127.0.0.1/"]
)
async def test_what_is_no_url_of_the_web_is_unproven(subject):
    assert (await look_at_odd_url(subject)).verdict is Verdict.UNPROVEN


@pytest.mark.parametrize(
    "subject",
    [
        "http://",
        "http:///path",
        "http://[::1",
        "http://127.0.0.1:99999999/",
        "http://127.0.0.1:0/",
        "http://127.0.0.1:9/\n",  # the new line is cut off; nobody listens there
        "http://a\0b/",
        "http://" + "a" * 70_000,
        "http://\ud800/",
    ],
)
async def test_what_no_server_can_have_as_its_url_is_refuted(subject):
    assert (await look_at_odd_url(subject)).verdict is Verdict.REFUTED


async def look_at_odd_url(subject):
    claim = a_claim("x", kind="url").model_copy(update={"subject": subject})
    finding = await UrlVerifier().verify(claim)
    assert finding.detail.isprintable()
    return finding


async def test_credentials_are_neither_sent_nor_said(server):
    finding = await look(f"http://me:{SECRET}@127.0.0.1:{server.port}/")
    assert finding.verdict is Verdict.UNPROVEN
    assert "holds credentials" in finding.detail
    assert SECRET not in finding.detail
    assert server.asked == []


async def test_no_password_of_a_netrc_is_sent(server, tmp_path, monkeypatch):
    netrc = tmp_path / ".netrc"
    netrc.write_text(f"machine 127.0.0.1 login me password {SECRET}\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    await verify_path(server, "/")
    assert "Authorization" not in server.asked[0][1]


async def test_no_proxy_of_the_environment_is_used(server, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert (await verify_path(server, "/")).verdict is Verdict.VERIFIED


@pytest.fixture
def names(monkeypatch):
    """Which addresses a name has; what is looked up is counted."""
    known, asked = {}, []
    real = socket.getaddrinfo

    def getaddrinfo(host, port, *more, **named):
        host = host.decode() if isinstance(host, bytes) else host
        asked.append(host)
        rows = []
        found = known.get(host, [host])
        # What only goes forward gives the answers of a name one after the other.
        for address in next(found) if isinstance(found, Iterator) else found:
            rows += real(address, port, *more, **named)
        return rows

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    known["asked"] = asked
    return known


async def test_a_name_is_looked_up_once_and_asked_where_it_was_then(server, names):
    names["shop.example"] = ["127.0.0.1"]
    finding = await look(f"http://shop.example:{server.port}/same")
    assert finding.verdict is Verdict.VERIFIED
    assert names["asked"].count("shop.example") == 1
    assert {headers["Host"] for _, headers in server.asked} == {f"shop.example:{server.port}"}


@pytest.mark.parametrize("allowed", ["all", "public"])
@pytest.mark.parametrize("later", ["127.0.0.1", "169.254.169.254"])
async def test_where_a_name_leads_once_it_was_looked_up_is_not_asked(
    server, names, monkeypatch, allowed, later
):
    first = "127.0.0.2"  # nobody listens there
    monkeypatch.setenv("TASKMEM_EVIDENCE_URLS", allowed)
    monkeypatch.setattr(web_access, "is_public", first.__eq__)
    names["shop.example"] = itertools.chain([[first]], itertools.repeat([later]))
    finding = await look(f"http://shop.example:{server.port}/")
    assert finding.verdict is Verdict.REFUTED
    assert "could not be asked: nobody answers" in finding.detail
    assert names["asked"].count("shop.example") == 1
    assert server.asked == []


async def test_an_address_where_nobody_answers_is_not_the_last(server, names):
    names["shop.example"] = ["127.0.0.2", "127.0.0.1"]
    finding = await look(f"http://shop.example:{server.port}/")
    assert finding.verdict is Verdict.VERIFIED


@pytest.mark.parametrize(
    "addresses", [["169.254.169.254"], ["127.0.0.1", "169.254.169.254"], ["fe80::1"]]
)
async def test_host_name_of_a_forbidden_address_is_not_asked(server, names, addresses):
    names["shop.example"] = addresses
    finding = await look(f"http://shop.example:{server.port}/")
    assert finding.verdict is Verdict.UNPROVEN
    assert "never asked" in finding.detail
    assert server.asked == []


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "2852039166", "0xa9fea9fe", "[::ffff:a9fe:a9fe]"]
)
async def test_however_such_an_address_is_written_it_is_not_asked(host):
    finding = await look(f"http://{host}/latest/meta-data/")
    assert finding.verdict is Verdict.UNPROVEN
    assert "could not be asked" not in finding.detail


@pytest.mark.parametrize(
    ("allowed", "host"),
    [
        *(("none", "127.0.0.1"), ("none", "93.184.216.34"), ("public", "127.0.0.1")),
        *(("public", "localhost"), ("public", "10.0.0.1"), ("public", "192.168.1.1")),
        *(("public", "[::1]"), ("public", "[fd00::1]"), ("public", "2130706433")),
        *(("public", "[::ffff:10.0.0.1]"), ("public", "[64:ff9b::a00:1]")),
        *(("public", "100.64.0.1"), ("public", "0.0.0.0")),  # noqa: S104
    ],
)
async def test_only_what_the_operator_allows_is_asked(monkeypatch, host, allowed):
    monkeypatch.setenv("TASKMEM_EVIDENCE_URLS", allowed)
    finding = await look(f"http://{host}:9/")
    assert finding.verdict is Verdict.UNPROVEN
    assert f"TASKMEM_EVIDENCE_URLS is {allowed}" in finding.detail


def test_public_addresses_are_known():
    for address in ("93.184.216.34", "2606:2800:220:1::1", "::ffff:93.184.216.34"):
        assert is_public(address)


@pytest.mark.parametrize(
    ("code", "known", "verdict"),
    [
        (socket.EAI_NONAME, "example.com", Verdict.REFUTED),
        # A sandbox, or a network that leads outside by a proxy only, knows no public name.
        (socket.EAI_NONAME, "pypi.example", Verdict.UNPROVEN),
        (socket.EAI_AGAIN, "example.com", Verdict.UNPROVEN),
    ],
)
async def test_an_unknown_name_is_refuted_where_others_are_known(monkeypatch, code, known, verdict):
    def getaddrinfo(host, port, *more, **named):
        if host == known:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]
        raise socket.gaierror(code, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    finding = await look("http://shop.example/")
    assert finding.verdict is verdict
    assert "Nobody knows the host shop.example (Name or" in finding.detail


async def test_where_nobody_listens_is_refuted():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        finding = await look(f"http://127.0.0.1:{port}/")
    assert finding.verdict is Verdict.REFUTED
    assert "could not be asked: nobody answers" in finding.detail


async def test_who_refuses_us_behind_a_proxy_is_unproven(names, monkeypatch):
    names["shop.example"] = ["127.0.0.1"]
    monkeypatch.setattr(web_access, "is_public", lambda address: True)
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    finding = await look("http://shop.example:9/")
    assert finding.verdict is Verdict.UNPROVEN


async def test_who_listens_and_says_nothing_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(urls, "TOTAL_SECONDS", 0.05)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        finding = await look(f"http://127.0.0.1:{silent.getsockname()[1]}/")
    assert finding.verdict is Verdict.UNPROVEN
    assert "did not answer within 0.05 s" in finding.detail


async def test_a_body_that_never_ends_is_not_waited_for(monkeypatch, server):
    monkeypatch.setattr(urls, "TOTAL_SECONDS", 0.2)
    done = threading.Event()

    def trickle():
        while not done.wait(0.01):
            yield b"x"

    server.pages["/slow"] = (200, {}, trickle)
    finding = await verify_path(server, "/slow")
    done.set()
    assert finding.verdict is Verdict.UNPROVEN
    assert "did not answer within" in finding.detail


async def test_what_speaks_no_http_is_unproven():
    with socket.create_server(("127.0.0.1", 0)) as other:

        def speak():
            connection, _ = other.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"SSH-2.0-made\r\n")

        thread = threading.Thread(target=speak)
        thread.start()
        finding = await look(f"http://127.0.0.1:{other.getsockname()[1]}/")
        thread.join()
    assert finding.verdict is Verdict.UNPROVEN
    assert "what is no HTTP" in finding.detail


# --- TLS ----------------------------------------------------------------------


@pytest.fixture
def tls(tmp_path):
    return make_certificate(tmp_path, "shop.example")


async def test_certificate_must_match_the_host_name_not_the_address(tls, names):
    names["shop.example"] = names["other.example"] = ["127.0.0.1"]
    ours, theirs = tls
    verifier = UrlVerifier()
    verifier._web._tls = theirs
    with serve_pages({"/": (200, {}, BODY)}, tls=ours) as server:

        async def verify_host(host):
            url = f"https://{host}:{server.port}/"
            return await verifier.verify(a_claim(url, kind="url"))

        assert (await verify_host("shop.example")).verdict is Verdict.VERIFIED
        finding = await verify_host("other.example")
    assert finding.verdict is Verdict.UNPROVEN
    assert "its certificate is not trusted" in finding.detail


async def test_a_certificate_that_nobody_vouches_for_proves_nothing(tls, names):
    names["shop.example"] = ["127.0.0.1"]
    with serve_pages({"/": (200, {}, BODY)}, tls=tls[0]) as server:
        finding = await look(f"https://shop.example:{server.port}/")
    assert finding.verdict is Verdict.UNPROVEN
    assert "its certificate is not trusted" in finding.detail


async def test_a_server_without_tls_is_not_asked_without(server):
    finding = await look(f"https://127.0.0.1:{server.port}/")
    assert finding.verdict is Verdict.UNPROVEN
    assert "it speaks no TLS that we know" in finding.detail
