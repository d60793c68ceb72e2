"""Of credentials and of harmless texts, in the forms of the documentation of many programs.

On `held_out.txt` no rule was written, so that it shows how much of what is new is stored, and how
much that is harmless is altered; a rule for one of it belongs to `secrets.txt` or `harmless.txt`,
and another takes its place. It has no program that the texts added to the others with it have.

Each text of the lists follows a line `%% what it is of`. A credential is between « and »; all
of them are made up. The sign ¦ is no part of a text: it parts what looks like a known token.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from pydantic import JsonValue

from openclaw_taskmem.domain.text.odd_words import MASK
from openclaw_taskmem.domain.text.redaction import scrub, scrub_json

FOLDER: Final = Path(__file__).parent


class Example(NamedTuple):
    source: str
    text: str
    secrets: tuple[str, ...]


def read_examples(name: str) -> list[Example]:
    blocks = re.split(r"(?m)^%% ", (FOLDER / name).read_text().replace("¦", ""))[1:]
    parts = [block.rstrip("\n").split("\n", 1) for block in blocks]
    return [
        Example(source, re.sub("[«»]", "", text), tuple(re.findall("«(.*?)»", text, re.DOTALL)))
        for source, text in parts
    ]


SECRETS = read_examples("secrets.txt")
HELD_OUT = read_examples("held_out.txt")
HARMLESS = read_examples("harmless.txt")
STORED: Final = {
    *("net use", "expect", "couchdb", "db2", "zookeeper", "drupal", "freeipa", "rclone obscure"),
    *("redis: acl", "gpg: parameter file", "openvpn: auth file", "cisco: isakmp"),
    *("homeassistant: secrets", "radius: radtest", "nagios: resource", "csv: export"),
    "ethereum: hardhat",
}
"""Of what no rule of shape knows: a word or a code alone between others."""


def shows_any(text: str, secrets: tuple[str, ...]) -> bool:
    """Return whether a text has a secret, or a long word of one."""
    rest = text.replace(MASK, "")
    words = (word for secret in secrets for word in re.split(r"[\s\"';&]+", secret))
    return any(map(rest.__contains__, (*secrets, *(word for word in words if len(word) > 5))))


def test_secrets_of_many_tools_are_removed() -> None:
    assert len(SECRETS) == 714

    stored = {each.source for each in SECRETS if shows_any(scrub(each.text), each.secrets)}

    assert stored == STORED


def test_most_secrets_without_a_rule_are_removed() -> None:
    examples = [each for each in HELD_OUT if each.secrets]
    assert len(examples) == 60

    assert sum(shows_any(scrub(each.text), each.secrets) for each in examples) <= 12


def test_most_harmless_texts_without_a_rule_stay() -> None:
    examples = [each for each in HELD_OUT if not each.secrets]
    assert len(examples) == 40

    assert sum(scrub(each.text) != each.text for each in examples) <= 3


def test_no_harmless_text_is_altered() -> None:
    assert len(HARMLESS) == 252

    assert [each.source for each in HARMLESS if scrub(each.text) != each.text] == []


def in_a_note(text: str) -> JsonValue:
    return {"note": [text]}


def in_lines(text: str) -> JsonValue:
    return [*text.split("\n")]


@pytest.mark.parametrize("wrap", [in_a_note, in_lines])
def test_secrets_are_removed_from_json_as_from_text(wrap: Callable[[str], JsonValue]) -> None:
    stored = {
        each.source
        for each in SECRETS
        if shows_any(json.dumps(scrub_json(wrap(each.text)), ensure_ascii=False), each.secrets)
    }

    # What stands in lines of its own is known in a list only if it is a private key.
    assert stored <= {
        *STORED,
        "elastic reset output",
        "ftp: netrc",
        "kubectl: opaque string data",
        "line after that of a user",
        "kubernetes env",
        "netrc",
        "openvpn inline",
        "terraform default",
    }


def test_examples_masked_twice_are_the_same() -> None:
    for each in (*SECRETS, *HELD_OUT, *HARMLESS):
        clean = scrub(each.text)
        assert scrub(clean) == clean


@pytest.mark.parametrize("key", ["password", "api_key", "client_secret", "pwd", "db_pass"])
@pytest.mark.parametrize("value", ["required", "string", "${PASSWORD}", "{{ vault.password }}"])
def test_json_that_names_a_type_or_variable_stays(key: str, value: str) -> None:
    assert scrub_json({key: value}) == {key: value}


@pytest.mark.parametrize(
    "value",
    ["Hunter two three.", "The blue key", "<abc12345", "is it?", "my_secret", "a.b.c", "f(x)"],
)
def test_json_under_a_secret_key_is_masked_though_it_is_words(value: str) -> None:
    assert scrub_json({"password": value}) == {"password": MASK}


@pytest.mark.parametrize("name", ["DB_PASSWORD=", "export JWT_SECRET=", "spring.mail.password="])
@pytest.mark.parametrize(
    "value",
    [
        *(
            "Summer.Winter",
            "my_secret",
            "MY_SECRET_2024",
            "AdminPassword",
            "abc(def)ghi1",
            "f(x9)yz",
        ),
        *("/abc/def9K", "[x9!kd82", "<abc123def", "{abc12345", "$ecret", "%(abc99x", "#{abc99"),
        *("a::b9c", "s.Ga5jyNq6kNf", "your_dog_77", "file:hunter2", "!Ref99ab", "env:hunter2"),
    ],
)
def test_what_is_set_without_blanks_is_no_code(name: str, value: str) -> None:
    assert scrub(f"{name}{value}") == f"{name}{MASK}"


def test_value_beside_the_name_of_a_credential_is_masked() -> None:
    variables: list[JsonValue] = [
        {"name": "DB_PASSWORD", "value": "hunter22"},
        {"name": "HOST", "value": "db"},
    ]

    assert scrub_json(variables) == [{"name": "DB_PASSWORD", "value": MASK}, variables[1]]


def test_private_key_in_a_list_of_lines_is_masked() -> None:
    begin, end = (f"-----{word} RSA PRI" + "VATE KEY-----" for word in ("BEGIN", "END"))
    putty = ["PuTTY-User-Key-File-3: ssh-rsa", "Private-Lines: 2", "AAAAQmFz", "ZTY0YQ=="]

    assert scrub_json(["a", begin, "MIIEow", "", end, "b"]) == ["a", *[MASK] * 4, "b"]
    assert scrub_json([*putty, "Private-MAC: 1"]) == [putty[0], *[MASK] * 3, "Private-MAC: 1"]


@pytest.mark.long
@pytest.mark.timeout(60)
@pytest.mark.parametrize("example", [*SECRETS, *HARMLESS], ids=lambda each: each.source)
@pytest.mark.parametrize("part", [1, 2 / 3])
def test_a_mebibyte_of_each_shape_takes_linear_time(example: Example, part: float) -> None:
    # What grows with the square takes many minutes here.
    text = example.text[: int(len(example.text) * part)]
    scrub((text * (1_048_576 // len(text) + 1))[:1_048_576])


@pytest.mark.timeout(30)
def test_a_mebibyte_of_all_shapes_takes_linear_time() -> None:
    text = "\n".join(f"{each.text} {each.text[: len(each.text) // 2]}" for each in SECRETS)
    scrub((text * (1_048_576 // len(text) + 1))[:1_048_576])
