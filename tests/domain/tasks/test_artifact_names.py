"""How a text that names an artifact is read: by what is there, and only then by its form."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_taskmem.domain.tasks.artifact_names import (
    list_all_spellings,
    list_spellings,
    parse_artifact,
    read_artifact,
)

THERE = ("g.txt", "h.txt", "/w/g.txt", "my file.txt", "out/r.md", "~/g.txt", "src/a.ts", "src/b.ts")
WRAPPINGS = (
    *("`{}`", "``{}``", '"{}"', "'{}'", "“{}”", "„{}“", "«{}»", "「{}」", "({})", "<{}>", "[{}]"),
    *("**{}**", "__{}__", "[the report]({})", '[x]({} "Title")', "![x](<{}>)", "- {}", "* {}"),
    *("2. {}", "[x] {}", "{}.", "{},", "{}:", "{}!", "  {} ", "`{}`.", "({}).", "**`{}`**", "`{}"),
    "{} .",
)
"""What agents write around any name."""
REMARKS = (
    *("{}:12", "{}:12:5", "{}:12-20", "{}:L12", "{}#L12", "{}#L12-L20", "{}#L3C1-L4C2", "{} (12)"),
    *(
        "{} line 12",
        "{}, lines 3-4",
        "{}#part",
        "{}?x=1",
        "{} (new)",
        "{} - the report",
        "{} → done",
    ),
    *("File: {}", "Test report: {}", "@{}", "a/{}", "b/{}", "./{}", "Wrote {} with 4 rows."),
)
"""And around the name of a file."""


def read_names(text: str) -> list[tuple[str, str]]:
    """Read a text where the files of `THERE` are."""
    there = {name.removeprefix("./") for name in THERE}
    artifacts = read_artifact(text, lambda name: name.removeprefix("./") in there)
    return [(each.kind, each.subject.removeprefix("./")) for each in artifacts]


@pytest.mark.parametrize("around", [*WRAPPINGS, *REMARKS])
def test_a_file_is_found_by_whatever_is_around_its_name(around: str) -> None:
    assert read_names(around.format("g.txt")) == [("file", "g.txt")]


@pytest.mark.parametrize("around", [*WRAPPINGS, *REMARKS])
def test_a_file_that_is_not_there_stays_one(around: str) -> None:
    [(kind, subject)] = read_names(around.format("no.txt"))
    assert (kind, "no.txt" in subject) == ("file", True)


@given(st.lists(st.sampled_from(WRAPPINGS), max_size=3), st.sampled_from(REMARKS[:12]))
def test_wrappings_may_stand_around_one_another(layers: list[str], remark: str) -> None:
    text = remark.format("g.txt")
    for layer in layers:
        text = layer.format(text)
    assert read_names(text) == [("file", "g.txt")]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("file:///w/g.txt", "/w/g.txt"),
        ("file://localhost/w/g.txt", "/w/g.txt"),
        ("FILE:g.txt", "g.txt"),
        ("file:my%20file.txt", "my file.txt"),
        ("my\\ file.txt", "my file.txt"),
        ("out\\r.md", "out/r.md"),
        ("$HOME/g.txt", "~/g.txt"),
        ("${HOME}/g.txt", "~/g.txt"),
        ("%USERPROFILE%\\g.txt", "~/g.txt"),
        ("$PWD/g.txt", "g.txt"),
        ("no.txt -> g.txt", "g.txt"),
        ("h.txt → g.txt", "g.txt"),
        ("g.txt::test_x", "g.txt"),
        ("g.txt:main", "g.txt"),
        ("<code>g.txt</code>", "g.txt"),
        ("M  src/a.ts", "src/a.ts"),
        ("new file:   src/a.ts", "src/a.ts"),
        (" src/a.ts | 12 ++--", "src/a.ts"),
    ],
)
def test_a_path_may_be_spelt_in_other_ways(text: str, path: str) -> None:
    assert read_names(text) == [("file", path)]


def test_an_absolute_path_means_no_file_of_the_work() -> None:
    assert "etc/app.conf" not in list_spellings("/etc/app.conf")
    assert "src/app.py" in list_spellings("@/src/app.py")


def test_a_name_may_be_composed_or_not() -> None:
    forms = [unicodedata.normalize(form, "résumé.txt") for form in ("NFC", "NFD")]
    for there, said in (forms, forms[::-1]):
        [thing] = read_artifact(said, there.__eq__)
        assert thing.subject == there


@pytest.mark.parametrize("name", ["`g`.txt", "g.txt:12", "a, b.txt", "file (1)", "repo/app:1.2"])
def test_a_file_of_that_very_name_comes_first(name: str) -> None:
    [thing] = read_artifact(name, {name, "g.txt"}.__contains__)
    assert (thing.kind, thing.subject) == ("file", name)


@pytest.mark.parametrize(
    "text",
    [
        *("g.txt, h.txt", "g.txt,h.txt", "g.txt; h.txt", "g.txt and h.txt", "g.txt & h.txt"),
        *("- g.txt\n- h.txt", "`g.txt`, and `h.txt`.", "g.txt h.txt", "Wrote g.txt from h.txt"),
    ],
)
def test_a_list_in_one_text_names_each(text: str) -> None:
    assert read_names(text) == [("file", "g.txt"), ("file", "h.txt")]


def test_braces_name_each() -> None:
    assert read_names("src/{a,b}.ts") == [("file", "src/a.ts"), ("file", "src/b.ts")]


@pytest.mark.parametrize(
    "text",
    [
        *("g.txt, no.txt", "g.txt and no.txt", "no.txt (see g.txt)", "g.txt\n- no.txt"),
        *("a314508 no.txt", "commit a314508, no.txt", "image acme/app:1.2, no.txt"),
        *("s3://bucket/a, no.txt", "a314508 and no.txt", "https://acme.example/a, no.txt"),
    ],
)
def test_all_that_a_list_names_must_be_there(text: str) -> None:
    assert any(kind == "file" and "no.txt" in subject for kind, subject in read_names(text))


@pytest.mark.parametrize("around", WRAPPINGS)
def test_a_url_and_a_command_are_known_without_looking(around: str) -> None:
    for name, kind, subject in (
        ("https://acme.example/a#b", "url", "https://acme.example/a#b"),
        ("command:build", "command", "build"),
    ):
        thing = parse_artifact(around.format(name))
        assert (thing.kind, thing.subject) == (kind, subject)


@pytest.mark.parametrize(
    ("text", "kind", "subject"),
    [
        ("URL: https://acme.example/a", "url", "https://acme.example/a"),
        ("localhost:3000/x", "url", "http://localhost:3000/x"),
        ("127.0.0.1:3000", "url", "http://127.0.0.1:3000"),
        ("www.acme.example", "url", "https://www.acme.example"),
        ("github.com/acme/app/pull/7", "url", "https://github.com/acme/app/pull/7"),
        ("Live at https://acme.example/ now", "url", "https://acme.example/"),
        ("https://acme.example/ (live)", "url", "https://acme.example/"),
        ("http://", "url", "http://"),
        ("a314508", "commit", "a314508"),
        ("commit a314508", "commit", "a314508"),
        ("git:a314508", "commit", "a314508"),
        ("Commit: `a314508`", "commit", "a314508"),
        ("acme/app@a314508", "commit", "a314508"),
        ("a314508 Fix the order", "commit", "a314508"),
        ("[main a314508] Fix the order", "commit", "a314508"),
        ("commit a314508: fix the order", "commit", "a314508"),
        ("Committed as `a314508`", "commit", "a314508"),
        ("b425619..a314508", "commit", "a314508"),
        ("branch: `feature/x`", "commit", "feature/x"),
        ("Release v1.2", "commit", "v1.2"),
        ("HEAD~1", "commit", "HEAD~1"),
        ("origin/main", "commit", "origin/main"),
        ("branch feature/x", "commit", "feature/x"),
        ("tag: v1.2", "commit", "v1.2"),
        ("v1.2.3-4-ga314508", "commit", "v1.2.3-4-ga314508"),
    ],
)
def test_what_no_file_is_called_is_read_by_its_form(text: str, kind: str, subject: str) -> None:
    assert read_names(text) == [(kind, subject)]


@pytest.mark.parametrize(
    "text",
    [
        *("repo/app:1.2", "nginx:1.27-alpine", "acme/app:latest", "localhost:5000/app:1.2"),
        *("ghcr.io/acme/app", "ghcr.io/acme/app:7", f"acme/app@sha256:{'a' * 64}"),
        *(f"sha256:{'a' * 64}", "left-pad@1.3.0", "@acme/pad@1.3.0", "requests==2.32.0"),
        *("image acme/app:1.2", "npm package left-pad@1.3.0", "acme/app:1.2 (pushed)"),
        *("npm:left-pad", "acme/app#12", "#12", "PR #12", "pull request 12", "ACME-12"),
        *("git@github.com:acme/app.git", "me@host:/srv/a", "s3://bucket/a.md", "sandbox:/mnt/a"),
        *("C:\\Users\\me\\a.docx", "\\\\server\\share\\a.docx", "mailto:me@acme.example"),
    ],
)
def test_what_lies_elsewhere_is_known_by_its_form(text: str) -> None:
    assert [kind for kind, _ in read_names(text)] == ["elsewhere"]


@pytest.mark.parametrize(
    "text",
    [
        *("no.txt@1.2", "no.txt@12", "no.txt==1", "no.txt::test_x", "no.txt -> gone.txt"),
        *("no.txt:12", "src/Makefile:12", "report.md:final", "tag no.txt", "branch no.md"),
        *("no", "no/such/", "1234567.md", "Nothing was made", "A: B"),
    ],
)
def test_what_may_be_a_file_is_nothing_else(text: str) -> None:
    assert {kind for kind, _ in read_names(text)} == {"file"}


@given(st.text(max_size=200))
def test_any_text_is_read_in_some_way(text: str) -> None:
    assert read_artifact(text, lambda name: False)
    assert text in [*list_all_spellings(text)]


@pytest.mark.timeout(60)  # what takes more than its length's time never ends
@pytest.mark.parametrize(
    "unit", ["`", "(", "a, ", "[x](", "a and ", ": a", "a:1", "{a,", " - ", "\\"]
)
def test_the_longest_text_is_read_in_time(unit: str) -> None:
    assert read_artifact(unit * (4_096 // len(unit)), lambda name: False)


@pytest.mark.parametrize("text", ["a" + " " * 65_000 + "b", "a" + ":1" * 32_000, "('" * 32_000])
def test_a_text_of_more_than_a_thousand_letters_is_one_name(text: str) -> None:
    assert read_names(text) == [("file", text)]
    assert list_spellings(text) == (text,)
