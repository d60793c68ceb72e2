"""Which words are looked up as paths."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_taskmem.domain.tasks.path_mentions import find_hashes, find_names, list_readings


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("`report.md`, (src/app.py:12) and 'a b.txt'.", "report.md src/app.py b.txt"),
        ("See ~/x.csv, /tmp/out, ./run, ../b.md", "~/x.csv /tmp/out ./run ../b.md"),
        ("file:///work/a.md --out=res.json", "/work/a.md res.json"),
        ("「report.md」を書き、report.mdに保存。", "report.md"),
        ("src/app.xyz and .github/ci.yml", "src/app.xyz .github/ci.yml"),
    ],
)
def test_a_path_is_found_in_whatever_stands_round_it(text: str, names: str) -> None:
    assert " ".join(find_names(text).here) == names


@pytest.mark.parametrize(
    "text",
    [
        "Node.js and Vue.js, e.g. and/or, 24/7, v1.2, CI/CD, TCP/IP, i.e. p.m.",
        "os.path.join() and user.name; 12/12 tests, 3.5 s, example.com",
        "https://x.test/a.html, github.com/a/b.git, www.x.org/y.md",
        "*.md, <name>.md, {a,b}.md, .md, /, ./, ../",
    ],
)
def test_what_is_no_path_of_this_machine_is_left_out(text: str) -> None:
    assert find_names(text).here == ()


@pytest.mark.parametrize(
    "name", ["s3://bucket/a.csv", "user@host:/srv/a.md", "web:~/a.md", "gs://b/c.txt"]
)
def test_what_has_a_host_or_a_scheme_is_elsewhere(name: str) -> None:
    found = find_names(f"It is at {name}.")
    assert (found.here, found.elsewhere) == ((), (name,))


def test_where_no_space_parts_words_the_end_counts_as_well() -> None:
    [name] = find_names("报告已保存到report.md。").here
    assert list_readings(name) == ("报告已保存到report.md", "report.md")


@given(st.text(), st.text())
def test_any_text_can_be_read(one: str, other: str) -> None:
    names = find_names(one, other)
    assert all(list_readings(name) for name in names.here)
    assert not {*names.here} & {*names.elsewhere}


def test_hashes_of_commits_are_found_as_agents_cite_them() -> None:
    whole = "8f93e44" + "0a" * 16 + "b"
    text = f"Fixed in `a314508` (acme/app@{whole}), see a314508..5c10b59 and a314508."
    assert find_hashes(text) == ("a314508", whole, "5c10b59")
    for text in (
        "Commits a314508, 5c10b59.",
        "Committed as a314508 and 5c10b59",
        "commit: a314508",
    ):
        assert find_hashes(text)[0] == "a314508"
        assert ("5c10b59" in text) is (len(find_hashes(text)) > 1)


@pytest.mark.parametrize(
    "text",
    [
        "Build 1234567 is green, and the buffer is filled with deadbeef.",
        f"Its sha256 is {'a1' * 32}, its md5 {'a1' * 16}; closes #4739.",
        "See https://git.example/acme/app/commit/a314508 and the job 550e8400-e29b-41d4-a716.",
        "A314508 is in stock, a3145 is not.",
        "Built image 3f2a91bc4d5e and saved the report of 20261129a.",
        "Nothing to commit yet; the container 3f2a91bc4d5e is up.",
    ],
)
def test_other_numbers_and_words_are_no_commits(text: str) -> None:
    assert find_hashes(text) == ()
