"""Well-known shapes of credentials; each value here is made up, and built of parts."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_taskmem.domain.text.odd_words import MASK
from openclaw_taskmem.domain.text.redaction import scrub, scrub_cut

HEX = "0a1b2c3d4e5f6a7b" * 4
UP = "A1B2C3D4E5F6G7H8" * 4
MIX = "a1B2c3D4e5F6g7H8" * 8
BODY = "\n".join([MIX[:64]] * 3)

PARTS = {
    "google access": ("ya", "29.", MIX[:60]),
    "google refresh": ("1/", "/0", MIX[:40]),
    "google api": ("AI", "za", MIX[:35]),
    "slack bot": ("xo", "xb-123456789012-", MIX[:24]),
    "slack app": ("xa", "pp-1-A012B3C4D5E-123456789-", HEX),
    "slack hook": ("https://hooks.slack.com/ser", "vices/T0/B0/", MIX[:24]),
    "stripe": ("sk_", "live_", MIX[:24]),
    "stripe hook": ("wh", "sec_", MIX[:32]),
    "docker": ("dck", "r_pat_", MIX[:27]),
    "vault": ("hv", "s.", MIX[:40]),
    "vault batch": ("hv", "b.", MIX[:40]),
    "groq": ("gs", "k_", MIX[:52]),
    "xai": ("xa", "i-", MIX[:80]),
    "nvidia": ("nv", "api-", MIX[:64]),
    "tailscale": ("ts", "key-auth-", MIX[:32]),
    "age": ("AGE-SEC", "RET-KEY-1", UP[:58]),
    "shopify": ("shp", "at_", HEX[:32]),
    "atlassian": ("AT", "ATT3", MIX[:60]),
    "bitbucket": ("AT", "BB", MIX[:32]),
    "grafana": ("gl", "sa_", MIX[:32] + "_" + HEX[:8]),
    "grafana cloud": ("gl", "c_", MIX[:40]),
    "discord": ("M", MIX[:23] + ".", "abC-d1." + MIX[:27]),
    "discord hook": ("https://discord.com/api/web", "hooks/1234567890123456/", MIX),
    "openai": ("s", "k-proj-", MIX[:40]),
    "anthropic": ("s", "k-ant-api03-", MIX[:40]),
    "github": ("gh", "p_", MIX[:36]),
    "github fine": ("github", "_pat_", MIX[:60]),
    "gitlab": ("gl", "pat-", MIX[:20]),
    "gitlab runner": ("gl", "rt-", MIX[:20]),
    "aws": ("AK", "IA", UP[:16]),
    "npm": ("np", "m_", MIX[:36]),
    "npmrc": ("//registry.example/:_auth", "Token=", HEX[:36]),
    "pypi": ("py", "pi-", MIX[:80]),
    "hugging face": ("h", "f_", MIX[:34]),
    "sendgrid": ("S", "G.", MIX[:22] + "." + MIX[:43]),
    "digitalocean": ("dop", "_v1_", HEX),
    "telegram": ("123456789", ":AA", MIX[:33]),
    "jwt": ("ey", "JhbGciOiJIUzI1NiJ9.", "eyJzdWIiOiIxMjM0In0." + MIX[:43]),
    "twilio": ("S", "K", HEX[:32]),
    "mailgun": ("ke", "y-", HEX[:32]),
    "mailchimp": (HEX[:32], "-u", "s12"),
    "square": ("sq0", "csp-", MIX[:43]),
    "linear": ("lin_", "api_", MIX[:40]),
    "notion": ("nt", "n_", MIX[:46]),
    "figma": ("fi", "gd_", MIX[:40]),
    "postman": ("PM", "AK-", HEX[:24] + "-" + HEX[:34]),
    "rubygems": ("ruby", "gems_", HEX[:48]),
    "sentry": ("snt", "rys_", MIX[:60]),
    "new relic": ("NR", "AK-", UP[:27]),
    "databricks": ("da", "pi", HEX[:32]),
    "supabase": ("sb", "p_", HEX[:40]),
    "replicate": ("r", "8_", MIX[:37]),
    "perplexity": ("pp", "lx-", MIX[:48]),
    "pulumi": ("pu", "l-", HEX[:40]),
    "terraform": (MIX[:14], ".atlas", "v1." + MIX[:64]),
    "doppler": ("d", "p.pt.", MIX[:43]),
    "azure": ("abc8", "Q~", MIX[:34]),
    "azure storage": ("Account", "Key=", MIX[:86] + "=="),
    "cookie": ("Cook", "ie: session=", MIX[:32]),
    "kubectl": ("client-key", "-data: ", MIX[:80]),
    "netrc": ("machine h login me pass", "word ", "hunter2"),
    "pgpass": ("localhost:5432:db:", "me:", "hunter2"),
    "prose": ("The pass", "word is ", "hunter2"),
    "prose, short": ("The pass", "wd is ", "hunter2"),
    "german": ("Pass", "wort: ", "geheim22"),
    "full width": ("\uff50\uff41\uff53\uff53\uff57\uff4f\uff52\uff44", "=", "hunter22"),
    "full width sign": ("\u8a2d\u5b9a\uff1apass", "word\uff1a", "hunter22\u3002"),
    "escaped": ("next=%2Fx&q=pass", "word%3D", "hunter22"),
    "escaped json": ("q=%7B%22pass", "word%22%3A%22", "hunter22%22"),
    "telegram url": ("https://api.telegram.org/b", "ot123456:AA", MIX[:33]),
    "sonarqube": ("sq", "p_", HEX[:40]),
    "sonarqube user": ("sq", "u_", HEX[:40]),
    "pinecone": ("pc", "sk_", f"{MIX[:6]}_{MIX[:63]}"),
    "slack cookie": ("xo", "xd-", f"{MIX[:20]}%2F{MIX[:20]}"),
    "slack client": ("xo", "xc-123456789012-", MIX[:24]),
    "1password": ("op", "s_eyJ", MIX),
    "clojars": ("CLO", "JARS_", MIX[:60]),
    "gitlab trigger": ("gl", "ptt-", HEX[:40]),
    "airtable": ("p", "at", f"{MIX[:14]}.{HEX}"),
    "okta": ("Authorization: SS", "WS ", f"00{MIX[:40]}"),
    "key tail": ("", BODY + "\n", "-----END RSA PRI" + "VATE KEY-----"),
    "pgp": ("-----BEGIN PGP PRI", "VATE KEY BLOCK-----\n", BODY),
    "docker config": ('{"au', 'th": "', MIX[:24] + '"}'),
}


@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS.keys())
def test_a_well_known_credential_is_recognised(parts: tuple[str, ...]) -> None:
    clean = scrub("".join(parts))

    assert MASK in clean
    assert parts[2][:20] not in clean
    assert parts[1] + parts[2] not in clean
    assert scrub(clean) == clean


@pytest.mark.parametrize(
    "text",
    [
        "The password is required, and was changed to the new one.",
        "Cookies: see the docs; Cookie: a header",
        "key-value store, dapper, 1//0 is an error, the SKU is SK1234",
        "The tail of a key has -----END RSA PRI" + "VATE KEY----- as its last line.",
        "patterns.md, ops_team, sqp_rows, robot12:AA, SSWS is Okta's, path%3Dmain",
        "Das Passwort ist falsch. \uff11\uff12\uff1a\uff13\uff10\uff0c\u3010ok\u3011",
        "password\uff1a\u8bf7\u8f93\u5165\u60a8\u7684\u5bc6\u7801",
        "main.abcdef.py at 12:30:45:ok costs $5$ or $1",
    ],
)
def test_what_only_sounds_like_a_credential_stays(text: str) -> None:
    assert scrub(text) == text


def test_what_stands_before_the_tail_of_a_key_stays() -> None:
    end = "-----END RSA PRI" + "VATE KEY-----"

    assert scrub(f"See this\n{BODY}\n{end}\ndone") == f"See this\n{MASK}\ndone"


def test_a_tail_that_begins_within_a_line_is_masked_whole() -> None:
    end = "-----END RSA PRI" + "VATE KEY-----"

    assert scrub(f"{MIX[:9]}\n{BODY}\n{end}\ndone") == f"{MASK}\ndone"


STARTS = ["    ", "> ", "12:00:{n:02} ", "+", "-", "{n:6}\t", "a1  | ", "k.pem:{n}:"]
"""What may stand before each line of a key: YAML, a mail, a log, a diff, a number."""


def with_starts(start: str, text: str) -> str:
    return "".join(f"{start.format(n=n)}{line}\n" for n, line in enumerate(text.splitlines()))


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("lost", [0, 1, 8, 30])
def test_tail_of_a_key_is_masked_whatever_precedes_its_lines(start: str, lost: int) -> None:
    end = "-----END RSA PRI" + "VATE KEY-----"
    key = with_starts(start, f"{BODY}\nAbC=\n{end}")

    cleaned = scrub(f"{key[lost:]}it goes on")

    assert cleaned.endswith(f"{MASK}\nit goes on")
    assert not re.search(r"\w{20}|AbC", cleaned)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("lost", [0, 1, 8, 30])
@pytest.mark.parametrize("width", [64, 70])
def test_middle_of_a_key_is_masked_whatever_precedes_its_lines(
    start: str, lost: int, width: int
) -> None:
    key = with_starts(start, f"{lines_of(width, 40)}AbC")

    assert scrub_cut(f"{key[lost:]}it goes on") == f"{MASK}\nit goes on"


def test_the_tail_of_an_armored_key_is_masked_with_its_checksum() -> None:
    end = "-----END PGP PRI" + "VATE KEY BLOCK-----"

    assert scrub(f"{BODY}\n{BODY[:9]}\n=aB1c\n{end}\n") == f"{MASK}\n"


def lines_of(width: int, count: int) -> str:
    """What `base64` prints."""
    letters = b64encode(b"".join(sha256(bytes([n])).digest() for n in range(40)))
    text = letters.decode()
    return "".join(f"{text[n * 5 : n * 5 + width]}\n" for n in range(count))


KEY_LINES = lines_of(64, 30).splitlines(keepends=True)


@pytest.mark.parametrize("width", [64, 70, 76])
@pytest.mark.parametrize(("first", "last"), [("", ""), ("AbC\n", "dEf0==\n")])
def test_the_middle_of_a_key_is_masked_where_a_text_begins(
    width: int, first: str, last: str
) -> None:
    key = f"{first}{lines_of(width, 60)}{last}"

    assert scrub_cut(f"{key}all done\nagain") == f"{MASK}\nall done\nagain"
    assert scrub_cut(key) == f"{MASK}\n"


@pytest.mark.parametrize(
    "text",
    [
        f"{sha256(b'').hexdigest()}\n" * 30,
        f"image: {lines_of(76, 30)}",
        f"the image follows\nas it is\n{lines_of(76, 30)}",
        lines_of(64, 4),
        lines_of(60, 30),
        "".join(lines_of(64, 30).split()),
        "a line of words\n" * 30,
        with_starts("12:00:{n:02} ", f"{sha256(b'').hexdigest()}\n" * 30),
        with_starts("12:00:{n:02} ", lines_of(64, 4)),
        with_starts("sha384-", lines_of(64, 30)),
        "".join(f"{n * 'x'} {line}" for n, line in enumerate(KEY_LINES)),
        "".join(f"{line[:-1]} is here\n" for line in KEY_LINES),
    ],
)
def test_what_only_looks_like_the_middle_of_a_key_stays(text: str) -> None:
    assert scrub_cut(text) == text


def test_mail_image_counts_as_a_key_where_the_text_begins() -> None:
    """Nothing tells them apart; anywhere else in a text it stays."""
    assert scrub_cut(lines_of(76, 30)) == f"{MASK}\n"


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "piece", ["aB1", f"{'aB1' * 22}\n", "\n", f"{'aB1x' * 16}\n", f"> {'aB1x' * 16}\n", "1 "]
)
def test_a_cut_text_takes_linear_time(piece: str) -> None:
    scrub_cut(piece * (524_288 // len(piece)))


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "piece",
    [
        *("Ma1b2", "a.", "1//0", "key-", "$1$", "login a ", "password is ", "a:1:a:b:"),
        *("Cookie:", "a\n", "AAAA\\n", "-us1", ".atlasv1.", "8Q~", "a\n-----END "),
        *("> a\n-----END PRI" + "VATE KEY-----", " aB1=", f"> {MIX}\n"),
    ],
)
def test_no_shape_takes_more_than_linear_time(piece: str) -> None:
    # What grows with the square takes a minute and more here.
    many = piece * (524_288 // len(piece))
    scrub(f"PRIVATE KEY -----END . Q~ -us password {many}")


@given(st.text(alphabet="password is:=1a \n$-._[]", max_size=200))
def test_shapes_masked_twice_are_the_same(text: str) -> None:
    assert scrub(scrub(text)) == scrub(text)
