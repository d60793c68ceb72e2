"""Commits are looked for in the repositories of the task, and nothing of a repository is run."""

import shutil
import subprocess
from datetime import UTC, datetime, timedelta

import pytest

from taskmem_evidence import commits
from taskmem_evidence.commits import CommitVerifier, is_on_remote
from taskmem_hookspecs import Verdict
from taskmem_hookspecs.testing import VerifierSuite
from tests.plugins.evidence.claims import a_claim
from tests.support.required import do_without

INVENTED = "a314508"
EARLIER = datetime.now(UTC) - timedelta(minutes=1)
LATER = datetime.now(UTC) + timedelta(hours=1)


def git(folder, *words):
    identity = ("-c", "user.name=a", "-c", "user.email=a@x.example")
    allowed = ("-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main")
    answer = subprocess.run(
        ["git", *identity, *allowed, *words],  # noqa: S607
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    return answer.stdout.strip()


def commit(folder, text="1"):
    (folder / "a.txt").write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", text)
    return git(folder, "rev-parse", "HEAD")


def start_repository(folder):
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q")
    return folder


@pytest.fixture
def repository(tmp_path):
    if shutil.which("git") is None:
        do_without("git is not here")
    return start_repository(tmp_path / "app")


def claim_of(subject, place, **more):
    given = {"kind": "commit", "since": EARLIER, "folder": str(place), "roots": (str(place),)}
    return a_claim(subject, **{**given, **more})


async def look(subject, place, **more):
    return await CommitVerifier().verify(claim_of(subject, place, **more))


async def verdict(subject, place, **more):
    return (await look(subject, place, **more)).verdict


class TestCommits(VerifierSuite):
    @pytest.fixture(autouse=True)
    def _repository(self, repository):
        self.folder = repository
        self.hash = commit(repository)

    def make_verifier(self, tmp_path):
        return CommitVerifier()

    def make_true(self, tmp_path):
        return claim_of(self.hash, self.folder)

    def make_false(self, tmp_path):
        return claim_of(INVENTED, self.folder)


async def test_a_commit_is_proven_by_its_hash_and_other_names(repository):
    name = commit(repository)
    git(repository, "tag", "v1.0")
    for subject in (name, name[:7], name.upper()[:9], "HEAD", "main", "v1.0", "refs/heads/main"):
        finding = await look(subject, repository)
        assert finding.verdict is Verdict.VERIFIED
        assert f"{subject} is commit {name[:12]} in {repository}, committed at 2" in finding.detail
        assert finding.checksum is None


@pytest.mark.parametrize("invent", [lambda name: INVENTED, lambda name: name[:7] + "0" * 33])
async def test_a_commit_that_is_not_there_is_refuted(repository, invent):
    finding = await look(invent(commit(repository)), repository)
    assert finding.verdict is Verdict.REFUTED
    assert f"in {repository}." in finding.detail


async def test_a_commit_that_was_amended_is_still_there(repository):
    name = commit(repository)
    git(repository, "commit", "-q", "--amend", "-m", "again")
    assert await verdict(name[:7], repository) is Verdict.VERIFIED


async def test_a_commit_that_is_older_than_the_work_is_unproven(repository):
    finding = await look(commit(repository), repository, since=LATER)
    assert finding.verdict is Verdict.UNPROVEN
    assert finding.detail.endswith(", committed before the work began.")
    assert finding.size > 0


async def test_an_unknown_branch_is_refuted_unless_a_remote_has_it(repository):
    commit(repository)
    assert await verdict("nosuch", repository) is Verdict.REFUTED
    git(repository, "remote", "add", "origin", "https://git.example/acme/app.git")
    assert await verdict("nosuch", repository) is Verdict.UNPROVEN
    assert await verdict(INVENTED, repository) is Verdict.REFUTED


async def test_what_a_shallow_clone_may_lack_is_unproven(repository, tmp_path):
    commit(repository, "1")
    commit(repository, "2")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repository}", "shallow")
    assert await verdict(INVENTED, tmp_path / "shallow") is Verdict.UNPROVEN
    # One below the repository of the work counts as well.
    (tmp_path / "shallow").rename(repository / "vendor")
    assert await verdict(INVENTED, repository) is Verdict.UNPROVEN


async def test_git_that_is_too_slow_refutes_nothing(repository, monkeypatch):
    commit(repository)
    real = commits._ask_git

    def ask(folder, until, *words, **given):
        return None if "rev-parse" in words else real(folder, until, *words, **given)

    monkeypatch.setattr(commits, "_ask_git", ask)
    assert await verdict(INVENTED, repository) is Verdict.UNPROVEN


async def test_repositories_around_and_below_the_folder_are_searched(repository, tmp_path):
    name = commit(repository)
    below = repository / "src" / "deep"
    below.mkdir(parents=True)
    assert await verdict(name, below, roots=(str(tmp_path),)) is Verdict.VERIFIED
    assert await verdict(name, tmp_path) is Verdict.VERIFIED


async def test_commits_of_submodules_worktrees_and_bare_ones_are_found(repository, tmp_path):
    commit(repository)
    part = start_repository(tmp_path / "part")
    git(repository, "submodule", "--quiet", "add", f"file://{commit(part) and part}", "lib")
    inner = commit(repository / "lib", "2")
    assert await verdict(inner[:8], repository) is Verdict.VERIFIED
    git(repository, "worktree", "add", "-q", str(tmp_path / "tree"))
    assert await verdict(commit(tmp_path / "tree", "3"), tmp_path / "tree") is Verdict.VERIFIED
    outer = commit(part, "4")
    git(tmp_path, "clone", "-q", "--bare", f"file://{part}", "store/part.git")
    assert await verdict(outer, tmp_path / "store") is Verdict.VERIFIED


async def test_where_no_repository_is_nothing_is_refuted(tmp_path):
    (tmp_path / "plain").mkdir()
    for folder in (tmp_path / "plain", tmp_path / "none"):
        assert await verdict(INVENTED, folder) is Verdict.UNPROVEN
    assert await verdict(INVENTED, "", folder=None) is Verdict.UNPROVEN


async def test_what_lies_outside_of_the_roots_is_not_searched(repository, tmp_path, monkeypatch):
    monkeypatch.setattr(commits, "_ask_git", lambda *given, **named: pytest.fail("asked"))
    found = await verdict(INVENTED, repository, roots=(str(tmp_path / "other"),))
    assert found is Verdict.UNPROVEN


async def test_a_repository_above_the_roots_is_not_asked(repository, tmp_path):
    name = commit(repository)
    own, bogus = repository / "own", repository / "own" / "bogus"
    (bogus / ".git").mkdir(parents=True)
    for subject in (name, "main", INVENTED):
        assert await verdict(subject, own) is Verdict.UNPROVEN
        assert await verdict(subject, bogus) is Verdict.UNPROVEN
    start_repository(own)
    commit(own, "2")
    (own / "sub").mkdir()
    finding = await look(name, own / "sub", roots=(str(own),))
    assert finding.verdict is Verdict.REFUTED
    assert str(repository) in finding.detail


async def test_listing_repositories_takes_its_part_of_the_time(repository, monkeypatch):
    commit(repository)
    (repository / "deep").mkdir()
    monkeypatch.setattr(commits, "_TOTAL_SECONDS", -1.0)
    monkeypatch.setattr(commits, "_is_repository", lambda folder: folder == str(repository))
    looked = commits._list_repositories(claim_of(INVENTED, repository), 0.0)
    assert looked == ((str(repository),), False)


@pytest.mark.parametrize("name", ["", "--all", ":/fix", "HEAD:a.txt", "a b", "a\nb", "x" * 251])
async def test_what_no_commit_can_be_called_is_not_asked(repository, monkeypatch, name):
    monkeypatch.setattr(commits, "_ask_git", lambda *given, **named: pytest.fail("asked"))
    claim = claim_of("x", repository).model_copy(update={"subject": name})
    assert (await CommitVerifier().verify(claim)).verdict is not Verdict.VERIFIED


async def test_git_that_fails_or_is_absent_leaves_it_open(repository, monkeypatch):
    name = commit(repository)
    monkeypatch.setattr(commits, "_GIT", ("git-that-is-not-installed",))
    assert await verdict(name, repository) is Verdict.UNPROVEN
    monkeypatch.setattr(commits, "_TOTAL_SECONDS", -1.0)
    assert await verdict(name, repository) is Verdict.UNPROVEN


async def test_nothing_that_a_repository_configures_is_run(repository, tmp_path):
    made, name = tmp_path / "made", commit(repository)
    for key in ("core.fsmonitor", "core.pager", "gpg.program", "core.sshCommand", "log.mailmap"):
        git(repository, "config", key, f"touch {made}")
    assert await verdict(name, repository) is Verdict.VERIFIED
    assert await verdict(INVENTED, repository) is Verdict.REFUTED
    assert [*tmp_path.glob("made*")] == []


@pytest.mark.parametrize(
    "url",
    [
        "https://git.example/acme/app.git",
        "https://me@git.example/acme/app",
        "git@git.example:acme/app.git",
        "ssh://git@git.example:22/acme/app.git",
    ],
)
def test_pages_below_a_remote_belong_to_it(repository, url):
    git(repository, "remote", "add", "origin", url)
    assert is_on_remote(str(repository), "git.example", "/acme/app/pull/7")
    assert is_on_remote(str(repository), "GIT.example", "/Acme/App")
    below = repository / "packages" / "app"
    below.mkdir(parents=True)
    assert is_on_remote(str(below), "git.example", "/acme/app/pull/7")
    assert not is_on_remote(str(repository), "git.example", "/acme/application")
    assert not is_on_remote(str(repository), "other.example", "/acme/app/pull/7")


def test_a_folder_without_a_remote_has_no_pages(tmp_path):
    assert not is_on_remote(str(tmp_path), "git.example", "/acme/app")
    assert not is_on_remote("", "git.example", "/acme/app")
