from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_taskmem.domain.scrub import MASK, scrub, scrub_json

A = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0"

SECRETS = [
    f"sk-{A}",
    f"sk-ant-api03-{A}",
    f"ghp_{A[:36]}",
    f"github_pat_{A}",
    f"glpat-{A[:20]}",
    "xoxb-1234567890-abcdefghij",
    "AKIAABCDEFGHIJKLMNOP",
    f"AIza{A[:35]}",
    f"npm_{A[:36]}",
    f"hf_{A[:34]}",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefgh1234",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNz cut off",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_a_credential_is_replaced_wherever_it_stands(secret: str) -> None:
    scrubbed = scrub(f"before ({secret}) after")

    assert MASK in scrubbed
    assert secret[8:20] not in scrubbed
    assert scrubbed.startswith("before (")


@pytest.mark.parametrize(
    ("text", "kept", "gone"),
    [
        ("postgres://me:hunter22@db/x", "postgres://me:", "hunter22"),
        ("password=hunter22hunter", "password=", "hunter22"),
        ('{"api_key": "abcdef123456"}', '"api_key": "', "abcdef123456"),
        ("export DB_PASSWORD='s3cr3ts3cr3t'", "DB_PASSWORD=", "s3cr3ts3cr3t"),
        ("Authorization: Bearer abcdefghijklmnop123", "Bearer ", "abcdefghij"),
    ],
)
def test_what_says_that_it_was_a_credential_stays(
    text: str, kept: str, gone: str
) -> None:
    scrubbed = scrub(text)

    assert kept in scrubbed
    assert gone not in scrubbed


@pytest.mark.parametrize(
    "text",
    [
        "Step 2 done, the password form renders",
        "Reset your password: see the mail",
        "secret: no",
        "sk-learn installed",
        "the key is under the mat",
        "https://github.com/alex/coursefolio@v1.2.3",
        "Basic auth works; bearer tokens expire",
        "task-skeleton-for-the-deployment",
        "ssh -i ~/.ssh/id_ed25519 root@host",
    ],
)
def test_ordinary_words_are_left_alone(text: str) -> None:
    assert scrub(text) == text


@given(st.text(max_size=2000))
def test_scrubbing_twice_changes_nothing_more(text: str) -> None:
    assert scrub(scrub(text)) == scrub(text)


def test_a_text_under_a_key_named_like_a_credential_is_replaced_whole() -> None:
    document = {
        "db": {"password": "pw", "host": "h"},
        "tokens": ["ghp_" + A[:36]],
        "n": 3,
        "api_key": "",
    }

    assert scrub_json(document) == {
        "db": {"password": MASK, "host": "h"},
        "tokens": [MASK],
        "n": 3,
        "api_key": "",
    }


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "piece",
    [
        "password",
        "://a:",
        "bearer ",
        "-----BEGIN ",
        "a_",
        "eyJa.",
        "eyJaaaaaaaa-",
        "a.",
    ],
)
def test_a_hostile_text_takes_no_more_than_linear_time(piece: str) -> None:
    # What grows with the square takes minutes here, and runs into the time limit.
    scrub("key " + piece * (2_097_152 // len(piece)))
