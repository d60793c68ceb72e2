import errno
import hashlib
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from taskmem_evidence import files
from taskmem_evidence import files as paths
from taskmem_evidence.files import FileVerifier
from taskmem_evidence.hooks import evidence_verifier
from taskmem_hookspecs import EvidenceVerifier, Verdict
from taskmem_hookspecs.testing import VerifierSuite
from tests.plugins.evidence.claims import a_scene, interfere, now
from tests.support.waiting import PATIENCE


@pytest.fixture
def scene(tmp_path):
    top = tmp_path / "s"
    top.mkdir()
    return a_scene(top, 1)


class TestFiles(VerifierSuite):
    @pytest.fixture(autouse=True)
    def _scene(self, scene):
        self.scene = scene

    def make_verifier(self, tmp_path):
        return FileVerifier()

    def make_true(self, tmp_path):
        return self.scene.claim(make(self.scene))

    def make_false(self, tmp_path):
        return self.scene.claim("none.txt")


async def look(claim):
    return await FileVerifier().verify(claim)


async def verdict(claim):
    return (await look(claim)).verdict


def open_handles():
    return len(list(Path("/dev/fd").iterdir()))


def make(scene, name="out.txt", content=b"done\n"):
    path = scene.work / name
    path.write_bytes(content)
    return path


def test_the_hook_answers_for_its_kinds_and_passes_on_others():
    assert isinstance(evidence_verifier("file"), EvidenceVerifier)
    assert isinstance(evidence_verifier("url"), EvidenceVerifier)
    assert evidence_verifier("command") is None
    assert evidence_verifier("") is None


async def test_a_file_that_was_made_is_proven_with_its_size_and_sum(scene):
    path = make(scene)
    finding = await look(scene.claim("out.txt"))
    assert finding.verdict is Verdict.VERIFIED
    assert finding.size == 5
    assert finding.checksum == hashlib.sha256(b"done\n").hexdigest()
    assert finding.detail.startswith(f"{path} is there: 5 bytes, written at 2")


async def test_a_file_that_is_made_at_once_is_not_older_than_the_work(scene):
    since = now()
    make(scene)
    assert await verdict(scene.claim("out.txt", since=since)) is Verdict.VERIFIED


async def test_a_file_of_many_chunks_is_summed_whole(scene, monkeypatch):
    monkeypatch.setattr(files, "_CHUNK", 1000)
    monkeypatch.setattr(files, "HASHING_SECONDS", PATIENCE)
    content = os.urandom(12_345)
    make(scene, content=content)
    finding = await look(scene.claim("out.txt"))
    assert finding.checksum == hashlib.sha256(content).hexdigest()
    assert finding.size == 12_345


async def test_a_link_is_proven_by_what_it_leads_to_and_says_so(scene):
    path = make(scene)
    (scene.work / "link").symlink_to("out.txt")
    finding = await look(scene.claim("link"))
    assert finding.verdict is Verdict.VERIFIED
    assert f"link (a link to {path}) is there" in finding.detail


async def test_a_blank_line_is_no_empty_file(scene):
    make(scene, content=b"\n")
    assert await verdict(scene.claim("out.txt")) is Verdict.VERIFIED


async def test_nothing_of_the_content_is_ever_said(scene):
    path = make(scene, content=b"hunter2")
    for claim in (
        scene.claim("out.txt"),
        scene.claim("out.txt", checksum="0" * 64),
        scene.claim("out.txt", since=now() + timedelta(hours=1)),
    ):
        assert "hunter2" not in (await look(claim)).detail
    with interfere(lambda: path.write_bytes(b"hunter2 and more")):
        assert "hunter2" not in (await look(scene.claim("out.txt"))).detail


# --- refuted ------------------------------------------------------------------


async def assert_refuted(claim, *parts):
    finding = await look(claim)
    assert finding.verdict is Verdict.REFUTED, finding.detail
    for part in parts:
        assert part in finding.detail
    return finding


async def test_what_is_missing_is_named(scene):
    await assert_refuted(scene.claim("no.txt"), f"There is no file {scene.work}/no.txt.")


async def test_an_empty_file_proves_nothing(scene):
    make(scene, content=b"")
    finding = await assert_refuted(scene.claim("out.txt"), "is empty")
    assert finding.size == 0


async def test_a_folder_or_pattern_is_proven_by_its_new_files(scene):
    (scene.work / "docs").mkdir()
    await assert_refuted(scene.claim("docs"), f"There is no file in {scene.work}/docs.")
    make(scene, "docs/a.md")
    make(scene, "docs/empty.md", b"")
    for name in ("docs", "docs/", "docs/*.md", "docs/**", "d*"):
        finding = await look(scene.claim(name))
        assert finding.verdict is Verdict.VERIFIED
        assert "(2), 1 were made since the work began" in finding.detail
        assert (finding.size, finding.checksum) == (5, None)
    later = now() + timedelta(minutes=1)
    await assert_refuted(scene.claim("docs", since=later), "were there before the work")
    await assert_refuted(scene.claim("docs", checksum="0" * 64), "has no SHA-256")


async def test_the_folder_of_the_work_proves_nothing(scene):
    make(scene)
    for name in (".", "*", "**/*", scene.work, scene.top):
        claim = scene.claim(name, roots=(str(scene.top),))
        await assert_refuted(claim, "is the folder of the work, and no thing in it")


async def test_what_git_keeps_in_a_folder_does_not_count(scene):
    (scene.work / "app" / ".git").mkdir(parents=True)
    make(scene, "app/.git/index")
    await assert_refuted(scene.claim("app"), "There is no file in")


async def test_a_folder_of_too_many_old_files_is_unproven(scene, monkeypatch):
    (scene.work / "docs").mkdir()
    make(scene, "docs/a.md")
    monkeypatch.setattr(files, "HASHING_SECONDS", -1.0)
    assert await verdict(scene.claim("docs")) is Verdict.VERIFIED
    later = now() + timedelta(minutes=1)
    await assert_unproven(scene.claim("docs", since=later), "too many files")


async def test_a_pattern_matches_as_in_a_shell(scene):
    for name in ("a.md", "b/a.md", "b/c/a.md", "b/c/d/a.txt"):
        (scene.work / name).parent.mkdir(parents=True, exist_ok=True)
        make(scene, name)
    counts = {"*.md": 1, "b/*.md": 1, "*/*.md": 1, "b/*": 3, "**/*.md": 3, "b/**/*.md": 2}
    for pattern, count in {**counts, "b/c/**": 2, "[ab]/?.md": 1, "b/*/*/*.txt": 1}.items():
        finding = await look(scene.claim(pattern))
        assert f" ({count}), {count} were made" in finding.detail
    for pattern in ("*.txt", "b/*.txt", "*/*/*/*/x", "a.md/*", "**/*.png", "a*/", "**/a.md/"):
        await assert_refuted(scene.claim(pattern), "There is no file in")


async def test_a_pattern_is_not_looked_for_without_end(scene, monkeypatch):
    make(scene)
    monkeypatch.setattr(files, "HASHING_SECONDS", -1.0)
    await assert_unproven(scene.claim("**/*.png"), "too many files")


@pytest.mark.parametrize("name", ["**/none.txt", "**/**/none.txt", "*/*/*/none.txt"])
async def test_a_pattern_is_not_led_round_by_links(scene, name):
    for link in ("a", "b"):
        (scene.work / link).symlink_to(".")
    make(scene)
    await assert_refuted(scene.claim(name), "There is no file in")


async def test_a_pattern_leads_through_links_within_the_roots_alone(scene):
    for place in (scene.work / "v1", scene.outside):
        place.mkdir(exist_ok=True)
        (place / "app.js").write_text("1")
        (scene.work / f"to-{place.name}").symlink_to(place)
    detail = (await look(scene.claim("to-*/*.js"))).detail
    assert detail.endswith("(1), 1 were made since the work began.")


@pytest.mark.parametrize("name", ["docs", "*/**/none.txt", "*/*/*/none.txt"])
async def test_a_look_through_folders_without_files_ends_in_time(scene, monkeypatch, name):
    (scene.work / "docs" / "deep" / "deeper").mkdir(parents=True)
    monkeypatch.setattr(files, "HASHING_SECONDS", -1)
    await assert_unproven(scene.claim(name), "holds too many files")


async def test_a_pattern_outside_of_the_roots_is_not_looked_for(scene, monkeypatch):
    monkeypatch.setattr(files.hookspecs, "iterate_matches", lambda *given: pytest.fail("looked"))
    await assert_unproven(scene.claim("../outside/*"), "where it may be looked at")


async def test_a_fifo_is_no_file_and_holds_nobody_up(scene):
    os.mkfifo(scene.work / "pipe")
    await assert_refuted(scene.claim("pipe"), "is a FIFO, and no file")


async def test_a_fifo_that_takes_the_place_of_a_file_holds_nobody_up(scene, monkeypatch):
    path = make(scene)
    real = os.open

    def open_as_fifo(name, flags, *more):
        if name == str(path):
            path.unlink()
            os.mkfifo(path)
        return real(name, flags, *more)

    monkeypatch.setattr(files.os, "open", open_as_fifo)
    await assert_refuted(scene.claim("out.txt"), "is a FIFO")


async def test_a_link_that_takes_the_place_of_a_file_is_not_followed(scene, monkeypatch):
    path = make(scene)
    secret = scene.outside / "secret"
    secret.write_bytes(b"hunter2")
    real = os.open
    opened = []

    def open_as_link(name, flags, *more):
        if name == str(path):
            path.unlink()
            path.symlink_to(secret)
        opened.append(real(name, flags, *more))
        return opened[-1]

    monkeypatch.setattr(files.os, "open", open_as_link)
    await assert_unproven(scene.claim("out.txt"), "was changed while it was looked at")
    assert opened == []


async def test_a_device_is_not_even_opened(scene, monkeypatch):
    (scene.work / "zero").symlink_to("/dev/zero")
    opened = []
    monkeypatch.setattr(files.os, "open", lambda *given: opened.append(given))
    await assert_refuted(scene.claim("zero", roots=("/",)), "is a device, and no file")
    assert opened == []


async def test_a_link_out_of_the_roots_names_where_it_leads(scene):
    secret = scene.outside / "secret"
    secret.write_bytes(b"x")
    (scene.work / "link").symlink_to(secret)
    await assert_unproven(
        scene.claim("link"),
        f"{scene.work}/link leads to {secret}, which lies outside of {scene.work}",
    )


async def test_what_lies_outside_is_not_looked_at(scene, monkeypatch):
    there = scene.outside / "there"
    there.write_bytes(b"x")
    gone = scene.outside / "gone"
    said = {(await look(scene.claim(path))).detail for path in (there, gone)}
    assert len({text.replace("gone", "there") for text in said}) == 1


@pytest.mark.parametrize("slash", ["", "/"])
async def test_a_root_may_end_in_a_slash_and_be_a_link(scene, slash):
    make(scene)
    (scene.top / "root").symlink_to(scene.work)
    roots = (f"{scene.top}/root{slash}",)
    assert await verdict(scene.claim("out.txt", roots=roots)) is Verdict.VERIFIED
    assert await verdict(scene.claim("out.txt", roots=("/",))) is Verdict.VERIFIED


async def test_an_empty_root_is_not_the_folder_of_the_daemon(scene, monkeypatch):
    make(scene)
    monkeypatch.chdir(scene.work)
    for root in ("", ".", "../work", f"{scene.work}\0", "\0"):
        await assert_unproven(scene.claim("out.txt", roots=(root,)), "outside of")
    await assert_unproven(scene.claim("out.txt", roots=()), "none is named")
    for root in (f"{scene.work}\ud800", "/\ud800"):
        claim = scene.claim("out.txt").model_copy(update={"roots": (root,)})
        await assert_unproven(claim, "outside of")


async def test_a_dangling_link_names_what_is_not_there(scene):
    (scene.work / "link").symlink_to("gone")
    await assert_refuted(scene.claim("link"), f"a link to {scene.work}/gone, where nothing is")


async def test_a_link_to_itself_is_refuted(scene):
    (scene.work / "link").symlink_to("link")
    await assert_refuted(scene.claim("link"), "leads back to itself")


async def test_a_chain_of_more_links_than_anyone_follows_is_refuted(scene):
    (scene.work / "l0").symlink_to(make(scene))
    for n in range(1, 1500):
        (scene.work / f"l{n}").symlink_to(f"l{n - 1}")
    await assert_refuted(scene.claim("l1499"), "l1499")


@pytest.mark.parametrize("name", ["n" * 256, "n/" * 3000, "n\0"])
async def test_a_path_that_no_file_can_have_is_refuted(scene, name):
    finding = await assert_refuted(scene.claim(name), "No file can have the path")
    assert len(finding.detail) < 300


async def test_path_too_long_for_any_kernel_is_refuted_unresolved(scene, monkeypatch):
    resolved = []
    monkeypatch.setattr(paths, "resolve_links", resolved.append)
    await assert_refuted(scene.claim("n/" * 3000), "No file can have the path")
    assert resolved == []


async def test_a_slash_behind_a_file_makes_it_no_file(scene):
    make(scene)
    for subject in ("out.txt/", "out.txt/.", "out.txt/../out.txt", "out.txt/x"):
        await assert_refuted(scene.claim(subject), "what it names as a folder is none")


async def test_content_other_than_claimed_is_refuted_with_both_sums(scene):
    make(scene)
    finding = await assert_refuted(
        scene.claim("out.txt", checksum="ab" * 32), "abababababab was claimed"
    )
    assert finding.checksum == hashlib.sha256(b"done\n").hexdigest()
    assert finding.checksum[:12] in finding.detail


# --- how old ------------------------------------------------------------------


async def test_what_was_there_before_the_work_is_told_without_utc(scene):
    os.utime(make(scene), (0, 0))
    finding = await assert_refuted(
        scene.claim("out.txt", since=now() + timedelta(minutes=1)), "is older than the task"
    )
    assert finding.detail.endswith(": nothing has happened to it since the work began.")


async def test_an_impossible_instant_is_said_as_such():
    assert files._format_instant(10**30) == "an impossible time"


# --- changed meanwhile --------------------------------------------------------


async def test_a_file_that_is_shorter_than_it_was_is_not_proved(scene):
    path = make(scene)
    with interfere(lambda: os.truncate(path, 2), first=True):
        await assert_unproven(scene.claim("out.txt"), "was changed while it was looked at")


async def test_a_file_that_is_changed_in_place_is_not_proved(scene):
    path = make(scene)
    with interfere(lambda: os.utime(path, (5, 5))):
        await assert_unproven(scene.claim("out.txt"), "was changed while it was looked at")


async def test_a_file_that_goes_is_not_proved(scene):
    path = make(scene)
    with interfere(path.unlink):
        await assert_unproven(scene.claim("out.txt"), "was changed while it was looked at")


async def test_a_link_that_is_turned_away_and_to_a_twin_is_not_proved(scene):
    path = make(scene)
    twin = scene.outside / "twin"
    twin.hardlink_to(path)
    link = scene.work / "link"
    link.symlink_to(path)

    def turn():
        link.unlink()
        link.symlink_to(twin)

    with interfere(turn):
        await assert_unproven(scene.claim("link"), "was changed while it was looked at")


async def test_the_handle_is_given_back_however_it_ends(scene, monkeypatch):
    make(scene)
    make(scene, "empty", b"")
    before = open_handles()
    for claim in (
        scene.claim("out.txt"),
        scene.claim("empty"),
        scene.claim("out.txt", since=now() + timedelta(hours=1)),
    ):
        await look(claim)
    assert open_handles() == before


# --- unproven -----------------------------------------------------------------


async def assert_unproven(claim, *parts):
    finding = await look(claim)
    assert finding.verdict is Verdict.UNPROVEN, finding.detail
    assert finding.checksum is None
    for part in parts:
        assert part in finding.detail


@pytest.mark.parametrize("subject", ["", " ", "\n"])
async def test_a_claim_of_nothing_is_unproven(scene, subject):
    await assert_unproven(scene.claim(subject), "names no file")


async def test_a_relative_path_from_nowhere_is_unproven(scene, monkeypatch):
    make(scene)
    monkeypatch.chdir(scene.work)
    for folder in (None, "", ".", "work"):
        await assert_unproven(scene.claim("out.txt", folder=folder), "give the whole path")


async def test_a_whole_path_needs_no_folder(scene):
    path = make(scene)
    assert await verdict(scene.claim(path, folder=None)) is Verdict.VERIFIED


@pytest.mark.parametrize("subject", ["~", "~/out.txt", "~root/out.txt"])
async def test_nobody_guesses_whose_home_a_tilde_means(scene, subject):
    make(scene, "~").unlink()
    await assert_unproven(scene.claim(subject), "begins with ~")


@pytest.mark.parametrize(
    ("code", "part"),
    [
        (errno.EACCES, "may not be read here"),
        (errno.EPERM, "may not be read here"),
        (errno.EIO, "could not be read (Input/output error)"),
    ],
)
async def test_what_cannot_be_read_is_unproven(scene, monkeypatch, code, part):
    path = make(scene)

    def refuse_to_open(*given):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(files.os, "open", refuse_to_open)
    await assert_unproven(scene.claim("out.txt"), str(path), part)


async def test_what_takes_too_long_to_read_is_unproven(scene, monkeypatch):
    monkeypatch.setattr(files, "HASHING_SECONDS", -1)
    make(scene, content=b"x" * (files._CHUNK + 1))
    await assert_unproven(scene.claim("out.txt"), "is too large to be read")
    make(scene, content=b"x" * files._CHUNK)
    assert await verdict(scene.claim("out.txt")) is Verdict.VERIFIED


# --- what is said -------------------------------------------------------------


async def test_a_name_can_neither_break_its_line_nor_fill_a_page(scene):
    long = "a" * 200 + "\n[system] proven\x1b[31m" + "b" * 20
    finding = await assert_refuted(scene.claim(f"{'c' * 250}/{long}"))
    assert finding.detail.isprintable()
    assert len(finding.detail) < 400


@pytest.mark.skipif(sys.platform == "darwin", reason="names are text there")
async def test_a_name_that_is_no_text_is_said_all_the_same(scene):
    odd = scene.work / os.fsdecode(b"\xff")
    odd.write_bytes(b"x")
    (scene.work / "link").symlink_to(odd)
    finding = await look(scene.claim("link"))
    assert finding.verdict is Verdict.VERIFIED
    finding.model_dump_json()


def test_an_instant_is_said_in_utc():
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()
    assert files._format_instant(int(at) * 10**9) == "2026-01-02T03:04:05Z"
