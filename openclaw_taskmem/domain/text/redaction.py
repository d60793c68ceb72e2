"""Remove credentials from text before it is stored or sent.

Only shapes that are hardly ever anything else are removed: a secret left in costs more than a lost
word, but a thread full of gaps helps nobody. First come those that are recognised by their
beginning, shape, or a fixed text before them: each pattern is tried only if its hint is in the
text, so that most texts are searched quickly. Then come those that are known by the name, option or
program before them.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate, takewhile
from typing import Final, TypeVar
from unicodedata import normalize

from pydantic import JsonValue

from openclaw_taskmem.domain.text.named_secrets import (
    is_label,
    is_reference,
    is_secret_name,
    mask_named,
    mask_options,
)
from openclaw_taskmem.domain.text.odd_words import MASK, mask_odd_words
from taskmem_hookspecs import Change, Value, Wake, WakeCause

RowT = TypeVar("RowT", bound=Value)

_PREFIXED_SHAPES: Final = {
    "1//0": r"[\w-]{30,}",  # Google, to refresh
    "A3-": r"[A-Z0-9]{6}-[A-Z0-9-]{20,}",  # 1Password
    "AGE-SECRET-KEY-1": r"[A-Z0-9]{20,}",
    "EAA": r"[\w-]{60,}",  # Facebook, Square
    "NRAK-": r"[A-Z0-9]{20,}",  # New Relic
    "PMAK-": r"[a-f0-9]{20,}-[a-f0-9]{20,}",  # Postman
    "dapi": r"[a-f0-9]{32}(?:-\d)?",  # Databricks
    "dckr_": r"(?:pat|oat)_[\w-]{20,}",
    "dp.": r"(?:pt|st|sa|ct|scim|audit)\.[\w.-]{30,}",  # Doppler
    "fm2_": r"[\w+/=-]{30,}",  # Fly
    "glc_": r"[\w+/=]{30,}",  # Grafana
    "grub.pbkdf2.": r"sha512\.[\w.]{16,}",
    "key-": r"[a-f0-9]{32}",  # Mailgun
    "lin_": r"(?:api|oauth)_[A-Za-z0-9]{20,}",
    "mfa.": r"[\w-]{40,}",  # Discord
    "ops_": r"eyJ[\w+/=-]{40,}",  # 1Password
    "nsec1": r"[a-z0-9]{50,}",  # Nostr
    "oy2": r"[a-z0-9]{43}",  # NuGet
    "pscale_": r"(?:tkn|pw|oauth)_[\w.-]{20,}",
    "secret_": r"[A-Za-z0-9]{40,}",  # Notion
    "shp": r"(?:at|ca|pa|ss|ua)_[a-fA-F0-9]{24,}",  # Shopify
    "sntry": r"[su]_[\w+/=-]{30,}",  # Sentry
    "sq0": r"(?:csp|atp|idp)-[\w-]{20,}",
    "tskey-": r"[a-z]{2,20}-[\w-]{12,}",  # Tailscale
    "whsec_": r"[\w+/=-]{16,}",
    "xapp-": r"\d-[\w-]{20,}",  # Slack
    "xkeysib-": r"[a-f0-9]{40,}-\w{10,}",  # Brevo
    # Atlassian, Contentful, GitLab, Heroku, Figma, Vault, Nvidia, Pinecone, Google, Grafana
    **dict.fromkeys(("ATATT3", "ATCTT3", "CFPAT-", "GR1348941", "HRKU-", "figd_"), r"[\w=-]{20,}"),
    **dict.fromkeys(
        ("hvb.", "hvs.", "nvapi-", "pcsk_", "sb_secret_", "ya29.", "glsa_"), r"[\w-]{20,}"
    ),
    # Artifactory, Bitbucket, Clojars, Groq, Notion, PostHog, Perplexity, Vercel, CircleCI
    **dict.fromkeys(("AKCp", "ATBB", "CLOJARS_", "gsk_", "ntn_", "phx_"), r"[A-Za-z0-9]{20,}"),
    **dict.fromkeys(("pplx-", "r8_", "vcp_", "xai-", "CCIPAT_"), r"[A-Za-z0-9_]{20,}"),
    # Buildkite, DigitalOcean, Pulumi, RubyGems, Supabase, Sourcegraph, SonarQube
    **dict.fromkeys(("bkua_", "dop_v1_", "doo_v1_", "dor_v1_", "pul-"), r"[a-f0-9]{30,}"),
    **dict.fromkeys(("rubygems_", "sbp_", "sgp_", "sqa_", "sqp_", "squ_"), r"[a-f0-9_]{30,}"),
}
_SHAPES: Final = (
    *((begun, rf"(?<![\w-]){re.escape(begun)}{rest}") for begun, rest in _PREFIXED_SHAPES.items()),
    *(
        (f"gl{kind}-", rf"\bgl{kind}-[\w-]{{16,}}")
        for kind in ("pat", "dt", "ft", "rt", "cbt", "ptt", "agent", "oas", "soat", "imt")
    ),
    (":AA", r"(?<=bot)\d{6,12}:AA[\w-]{30,}"),  # Telegram, in a URL
    ("sk-", r"\bsk-[A-Za-z0-9_-]{16,}"),  # OpenAI, Anthropic and their like
    *((f"gh{kind}_", rf"\bgh{kind}_[A-Za-z0-9_]{{20,}}") for kind in "pousr"),
    ("github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{20,}"),
    ("xox", r"\bxox[a-eoprs]-[A-Za-z0-9%/+=-]{10,}"),  # Slack
    *((begun, rf"\b{begun}[A-Z0-9]{{16}}") for begun in ("AKIA", "ASIA")),  # AWS
    ("AIza", r"\bAIza[A-Za-z0-9_-]{30,}"),  # Google
    ("npm_", r"\bnpm_[A-Za-z0-9]{30,}"),
    ("pypi-", r"\bpypi-[A-Za-z0-9_-]{40,}"),
    ("hf_", r"\bhf_[A-Za-z0-9]{30,}"),
    *((f"k_{use}_", rf"\b[sr]k_{use}_[A-Za-z0-9]{{16,}}") for use in ("live", "test")),  # Stripe
    ("SG.", r"\bSG\.[\w-]{16,}\.[\w-]{16,}"),  # SendGrid
    (":AA", r"\b\d{8,12}:AA[\w-]{30,}"),  # Telegram
    ("hooks.slack.com", r"(?<=hooks\.slack\.com/services/)[\w/]{16,}"),
    ("eyJ", r"(?<![\w-])eyJ[\w-]{8,4000}+\.eyJ[\w-]{8,8000}+\.[\w-]{8,}"),  # JWT
    ("eyJ", r"(?<![\w,-])eyJ[\w+/-]{40,8000}={0,2}"),  # JSON in base64, but in no data URL
    ("pat", r"\bpat[A-Za-z0-9]{14}\.[a-f0-9]{64}"),  # Airtable
    ("md5", r"(?<=[\"'])md5[a-f0-9]{32}(?=[\"'])"),  # PostgreSQL
    ("SSWS", r"(?<=SSWS )[\w-]{30,}"),  # Okta
    ("SK", r"\bSK[a-f0-9]{32}\b"),  # Twilio
    ("-us", r"\b[0-9a-f]{32}-us\d{1,2}\b"),  # Mailchimp
    (".atlasv1.", r"(?<![\w.])\w{14}\.atlasv1\.[\w-]{40,}"),  # Terraform
    ("Q~", r"(?<![\w.~-])[\w.~-]{3}\dQ~[\w.~-]{31,}"),  # Azure
    (".", r"[MNO](?<![\w.-].)[\w-]{23,27}\.[\w-]{6}\.[\w-]{27,40}"),  # Discord
    ("/webhooks/", r"(?<=/webhooks/)\d{15,}/[\w-]{30,}"),  # Discord
    ("$", r"\${1,2}(?:[1-9y]|2[abxy]|apr1|argon2id?|scrypt)\${1,2}[\w./$=,+-]{16,}"),  # hashes
)
_SHORT_SHAPES: Final = (
    ("ookie", r"(?i)(?<=cookie:)[ \t]*(?=[^\s=;]{1,99}=)(?!\[secret)[^\n\"']+"),
    (
        "}",
        r"\{(?:PLAIN|CLEARTEXT|CRYPT|S?SHA\d{0,3}|S?MD5|[A-Z\d]{2,9}-CRYPT|ARGON2\w{0,2})\}[^\s:\"']{4,}",
    ),
    ("client-key-data", r"(?<=client-key-data:)[ \t]*[\w+/=]{16,}"),  # kubectl
    ("-token:", r"(?<=(?:id-tok|sh-tok)en:)[ \t]+[\w.+/=-]{16,}"),
    ('"auth"', r'(?<="auth": ")[\w+/=]{8,}|(?<="auth":")[\w+/=]{8,}'),  # Docker
)
_HINTED_PATTERNS: Final = tuple((hint, re.compile(shape)) for hint, shape in _SHAPES)
_SHORT_PATTERNS: Final = tuple((hint, re.compile(shape)) for hint, shape in _SHORT_SHAPES)
"""Patterns of texts that may be short, or have gaps."""
_PIPED_SECRET: Final = re.compile(
    r"((?:echo|printf)\s{1,3}(?:-\w{1,3}\s{1,3})?)(?:\"(?!\$)[^\"\n]{1,200}\"|'[^'\n]{1,200}'|[^\s\"'$|-][^\s|]{0,200})"
    r"(?=\s{0,3}\|\s{0,3}(?:sudo\s[^|\n]{0,40}-\w{0,5}S|(?:sudo\s)?(?:chpasswd|kinit|cryptsetup)\b"
    r"|[^|\n]{0,80}\bsecrets?\s(?:put|create|set|add)\b|[^|\n]{1,200}-(?:stdin|with-token)\b))"
)
"""A text that is piped into a command which reads a password from its standard input."""
_NETRC: Final = re.compile(
    r"(?m)((?:^[ \t]{0,9}|\b(?:machine\s{1,9}\S{1,200}|default)\s{1,9})"
    r"login\s{1,9}\S{1,200}\s{1,9}password\s{1,9})(?!\[secret)\S{1,2000}"
)
_PGPASS: Final = re.compile(
    r"(?m)(^[\w.*-]{1,99}:(?:\d{2,5}|\*):[\w*-]{1,99}:[\w*-]{1,99}:)(?!\[secret)\S+$"
)
_PROSE_PASSWORD: Final = re.compile(
    r"([Pp](?i:assw(?:or)?[dt]|assphrase|asscode|wd)(?:\s[\w'-]{1,20}){0,8}?\s{1,3}"
    r"(?i:is|was|ist|lautet|to)(?:\s?:)?\s{1,3}"
    r"(?:now\s)?[\"'`]?)(?=[^\s\"'`]{0,80}\d)(?=[^\s\"'`]{0,80}[A-Za-z])[^\s\"'`]{5,}"
)
"""In prose only values with letters and digits; `is required` is no credential."""
_END: Final = re.compile(r"-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_BREAK: Final = re.compile(r"(\n|\\n)")
_REVERSED_KEY_LINE: Final = re.compile(r"[^\w+/=]{0,4}+([\w+/=]{1,100}+)(?![\w+/=])")
"""A line of a key, read backwards; quotes, a comma or a return may follow it."""
_LINE_END_CHARS: Final = 300
"""Characters to read at the end of a line: part of a key, and what is before it."""
_LEAST_LINE_WIDTH: Final = 40
"""Fewest characters of a line of a key, except its last."""
_WIDTHS: Final = frozenset({64, 70, 76})
"""Widths at which keys are wrapped (PEM, OpenSSH, MIME)."""
_LEAST_KEY_LINES: Final = 5
"""Whole lines that count as a key without its beginning and end."""
_BASE64_LINE: Final = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_KEY_CLASSES: Final = tuple(map(re.compile, ("[a-z]", "[A-Z]", "[0-9]")))
"""Character classes that the lines of a key all have, unlike lists of checksums."""


def _mask_key_tails(text: str, mask: str) -> str:
    """Replace a private key without its first line with `mask`.

    Its lines may be indented or quoted, and have a time before them.
    """
    if "PRIVATE KEY" not in text or "-----END" not in text:
        return text
    pieces: list[str] = []
    done = 0
    for end in _END.finditer(text):
        before = text[done : end.start()]
        kept = _drop_key_tail(before, cut=done == 0)
        pieces.append(f"{before}{end[0]}" if kept == before else f"{kept}{mask}")
        done = end.end()
    return "".join((*pieces, text[done:]))


def _mask_cut_keys(text: str, mask: str) -> str:
    """Replace the middle of a key at the beginning of a text with `mask`.

    Neither its first nor its last line need be there: at least five whole lines that look like a
    key's, with the same prefix each, are enough. Other text wrapped like this (an image in a mail)
    is masked, too, if the text begins within it.
    """
    lines = text.split("\n")
    after = _find_key_end(lines, 0) or _find_key_end(lines, 1)
    return "\n".join((mask, *lines[after:])) if after else text


def _find_key_end(lines: list[str], first: int) -> int:
    """Return the index after the lines of a key that begins at `first`; 0: there is no key.

    The lines before `first` must be the rest of one of its lines.
    """
    start, whole = _split_key_part(lines[first]) if first < len(lines) else ("", "")
    added = whole.startswith("+") and len(whole) - 1 in _WIDTHS  # by a diff
    if len(whole) - added not in _WIDTHS or re.search(r"\w-\Z", start):
        return 0
    at, like, letters = first, _to_shape(start), ""
    while at < len(lines):
        start, part = _split_key_part(lines[at])
        if not _BASE64_LINE.fullmatch(part) or _to_shape(start) != like:
            break
        if len(part) != len(whole) or "=" in part:
            at += 0 < len(part) <= len(whole)  # its last line
            break
        letters += part
        at += 1
    if len(letters) < _LEAST_KEY_LINES * len(whole):
        return 0
    rest, part = _split_key_part(lines[0])
    fits = like.endswith(_to_shape(rest)) and _BASE64_LINE.fullmatch(part)
    return at if fits and all(each.search(letters) for each in _KEY_CLASSES) else 0


def _split_key_part(line: str) -> tuple[str, str]:
    """Split off a line's last word, which may be a key's; return the prefix and the word."""
    found = _REVERSED_KEY_LINE.match(line[: -_LINE_END_CHARS - 1 : -1])
    if found is None:
        return line, ""
    return line[: len(line) - found.end()], found[1][::-1]


def _to_shape(start: str) -> str:
    """Reduce a line's prefix, such as a time or a number, to a form equal for all lines."""
    return re.sub(r"\d+", "0", " ".join(start[-_LINE_END_CHARS:].split())).strip("+ ")


def _drop_key_tail(text: str, *, cut: bool) -> str:
    """Remove the lines of a key at the end of a text.

    `cut`: the text is the beginning of the whole, so that its first line may be cut.
    """
    lines = _BREAK.split(text)
    first = last = len(lines) - 1
    like, below, kept = _to_shape(lines[last]), "", ""
    while first >= 2:  # noqa: PLR2004
        start, part = _split_key_part(lines[first - 2])
        shape, half = _to_shape(start), cut and first == 2  # noqa: PLR2004
        sums = re.fullmatch("=[^=]{4}", below)
        if not part or (len(part) < _LEAST_LINE_WIDTH and not half and first < last and not sums):
            break
        if shape != like and not (half and like.endswith(shape)):
            if len(part) >= _LEAST_LINE_WIDTH and start and not start[-1].isspace():
                first, kept = first - 2, start
            break
        first, below, kept = first - 2, part, start
    return text if first == last else "".join((*lines[:first], kept))


# --- in whole texts ---------------------------------------------------------------------------

_BLOCK: Final = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r".*?(?:-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)
_PUTTY_KEY: Final = re.compile(
    r"(?P<before>Private-Lines: \d{1,3}\s{1,2})(?:[\w+/]{1,200}={0,2}(?:\s{1,2}|\Z)){1,200}"
)
_NOT_A_PLACEHOLDER: Final = r"(?!\$|[<{%]|\[secret)"
_ADDRESS: Final = (
    rf"((?<![\w/])[\w$.-]{{1,80}}:){_NOT_A_PLACEHOLDER}[^\s:\"'()<>`]{{1,200}}(?=@\w+\()"
)
_ORACLE: Final = (
    rf"((?:thin:|sqlplus (?:-\w )?)[\w$]{{1,80}}/){_NOT_A_PLACEHOLDER}[^\s/\"'<>`@]+(?=@)"
)
_USERINFO: Final = tuple(
    (hint, re.compile(shape))
    for hint, shape in (
        ("://", rf"(://[^\s/:@\"'<>()]{{0,80}}:){_NOT_A_PLACEHOLDER}[^\s/\"'<>`]{{1,200}}(?=@)"),
        *(("@tcp(", _ADDRESS), ("@unix(", _ADDRESS), (":thin:", _ORACLE), ("sqlplus", _ORACLE)),
    )
)
"""Passwords in URLs, and in the addresses of databases that have no scheme."""
_USER: Final = re.compile(r"(?<=://)(?=[A-Za-z_-]{0,99}\d)[\w-]{20,200}(?=@|:\[secret)")
"""A long user name with digits in a URL, which may be a token."""
_BEARER: Final = re.compile(r"(?i)\b(bearer|basic)\s+([A-Za-z0-9._~+/=-]{16,})")
_AUTHORIZATION: Final = re.compile(
    r"""(\b(?i:authorization)["']?\s?[:=]\s?["']?[\w-]{1,40}(?:\s+|=))(?!["']?[\[<{]|"?\$|-)(?:"""
    r"""(?=[^\s"'&;\\(]{0,400}(?:\d|\w=|[a-z][A-Z]))(?!\d[\d.,]{0,4}\s|[\w.]{1,200}\()"""
    r"""[^\s"'&;\\]{1,2000}"""
    r"""|(?![A-Za-z]+[.,]?[ \t]*(?:[\r\n]|\Z))[^\s"'&;\\]{1,2000}+"""
    r"""(?=["'&;\\]|[ \t]*(?:[\r\n]|\Z|-|["'\\])))"""
)
"""A scheme and a value. One without digits, `=` and mixed case may be a word of a sentence: it must
be followed by a quote, an option or the end of the line."""
_SECRET_DATA: Final = re.compile(
    r"(?m)^([ \t]*)(?:stringData|data):[ \t]*(?:\n(?:\1[ \t]+[^\n]*)?)+"
)
_DATA_LINE: Final = re.compile(r"(\n[ \t]+(?:[\w.-]+:[ \t]+)?)([^\s|>:][^\n]*)(?<!:)")
_FULL_WIDTH: Final = re.compile(r"[\uff01-\uff5e]+(?=\s?[!-~\uff01-\uff5e])")
"""Full-width forms of ASCII, as in Chinese and Japanese, but not at the end of a sentence."""
_SHORT_WORD: Final = re.compile(r"[a-z_]{0,15}")
"""A text that is one, such as most keys of JSON, holds no credential of any shape."""
_LONG_RUN: Final = re.compile(r"[\w+/.$%~-]{12}")
"""Characters that most credentials of a known shape have without a gap."""
_PROGRAM: Final = re.compile(r"[\w./][\w./-]{0,80}")
"""A possible program name in a list of arguments."""
_LONE_OPTION: Final = re.compile(r"--?\w[\w-]{0,80}")
"""An option alone; the next argument may be its value."""


def scrub(text: str) -> str:
    """Replace each credential in a text with `[secret removed]`.

    JSON is also searched by its keys. Full-width characters become ASCII if they spell a
    credential.
    """
    if _SHORT_WORD.fullmatch(text):
        return text
    clean = _scrub_plain(text)
    if clean.isascii():
        return clean
    narrow = _FULL_WIDTH.sub(lambda wide: normalize("NFKC", wide[0]), clean)
    again = clean if narrow == clean else _scrub_plain(narrow)
    return clean if again == narrow else again


def _scrub_plain(text: str) -> str:
    patterns = (*_SHORT_PATTERNS, *(_HINTED_PATTERNS if _LONG_RUN.search(text) else ()))
    for hint, shape in patterns:
        if hint in text:
            text = shape.sub(MASK, text)
    return mask_odd_words(mask_named(mask_options(_scrub_by_place(text))))


def _scrub_by_place(text: str) -> str:
    """Mask keys between their lines, and what is known by its place in a line or URL."""
    text = "\n---".join(map(_mask_manifest, text.split("\n---")))
    if "Private-Lines" in text:
        text = _PUTTY_KEY.sub(rf"\g<before>{MASK}\n", text)
    low = text.casefold()
    if "pass" in low or "pwd" in low:
        if "login" in text and "password" in text:
            text = _NETRC.sub(rf"\1{MASK}", text)
        text = _PROSE_PASSWORD.sub(rf"\1{MASK}", text)
    if "|" in text and ("echo" in text or "printf" in text):
        text = _PIPED_SECRET.sub(rf"\1{MASK}", text)
    if text.count(":") > 3:  # noqa: PLR2004 - those of one line
        text = _PGPASS.sub(rf"\1{MASK}", text)
    text = _mask_key_tails(_BLOCK.sub(MASK, _scrub_json_text(text)), MASK)
    if "@" in text:
        text = _mask_userinfo(text)
    if "authorization" in low:
        text = _AUTHORIZATION.sub(rf"\1{MASK}", text)
    if "bearer" in low or "basic" in low:
        text = _BEARER.sub(rf"\1 {MASK}", text)
    return text


def _mask_manifest(text: str) -> str:
    """Mask each value of a Secret of Kubernetes."""
    if "kind: Secret\n" not in text:
        return text
    return _SECRET_DATA.sub(lambda data: _DATA_LINE.sub(_mask_data, data[0]), text)


def _mask_data(line: re.Match[str]) -> str:
    return line[0] if is_reference(line[2]) else f"{line[1]}{MASK}"


def _mask_userinfo(text: str) -> str:
    for hint, place in _USERINFO:
        if hint in text:
            text = place.sub(rf"\1{MASK}", text)
    return _USER.sub(MASK, text)


def scrub_cut(text: str) -> str:
    """Scrub a part of a longer text, which may begin within a private key."""
    return _mask_cut_keys(scrub(text), MASK)


def _scrub_json_text(text: str) -> str:
    """Scrub a text by its keys if it is JSON; else return it unchanged."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        value = json.loads(text)
        clean = scrub_json(value)
    except (ValueError, RecursionError):
        return text
    # Keep escapes: a lone surrogate, for example, cannot be stored.
    return text if clean == value else json.dumps(clean)


def scrub_json(value: JsonValue, *, is_secret: bool = False) -> JsonValue:
    """Replace every credential in the texts and keys of a JSON value.

    Each text under a key that is named like a credential is replaced as a whole, as all are if the
    value `is_secret`. Keys that become equal are numbered, so that none is lost.
    """
    if isinstance(value, str):
        is_masked = is_secret and value and not (is_reference(value) or is_label(value))
        return MASK if is_masked else scrub(value)
    if isinstance(value, Mapping):
        clean: dict[str, JsonValue] = {}
        is_named = any(_names_secret(*pair) for pair in value.items())
        for key, item in value.items():
            name = scrub(key)
            name = _make_free_key(name, clean) if name in clean else name
            is_value = is_secret_name(key) or (is_named and key.casefold().endswith("value"))
            clean[name] = scrub_json(item, is_secret=is_secret or is_value)
        return clean
    if isinstance(value, Sequence):
        items = [scrub_json(item, is_secret=is_secret) for item in _mask_key_lines(value)]
        return _mask_arguments(items) if items else items
    return value


def _names_secret(key: str, item: JsonValue) -> bool:
    """Return whether an object gives a credential's name, as in `{"name": "PASSWORD"}`."""
    return (
        key.casefold() in {"name", "key", "parameterkey"}
        and isinstance(item, str)
        and is_secret_name(item)
    )


def _mask_key_lines(items: Sequence[JsonValue]) -> Sequence[JsonValue]:
    """Mask the lines of a private key that are items of a list."""
    lines = [item if isinstance(item, str) else "" for item in items]
    text = "\n".join(lines)
    if "PRIVATE KEY" not in text and "Private-Lines" not in text:
        return items
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    clean = [*items]
    for shape in (_BLOCK, _PUTTY_KEY):
        for match in shape.finditer(text):
            first = bisect_right(starts, match.start()) - 1
            last = bisect_right(starts, match.end() - 1) - 1
            if first < last:
                clean[first : last + 1] = [MASK] * (last + 1 - first)
    return clean


def _mask_arguments(items: list[JsonValue]) -> list[JsonValue]:
    """Mask the credentials in a list that may be a program's arguments."""
    words = [item if isinstance(item, str) else "" for item in items]
    program = " ".join(takewhile(_PROGRAM.fullmatch, words[:2]))
    clean, flag = [*items], ""
    for place, word in enumerate(words):
        shown = ""
        if word.startswith("-"):
            shown = f"{program} {word}"
        elif flag:
            shown = f"{program} {flag} {json.dumps(word)}"
        if shown and word and scrub(shown) != shown:
            clean[place] = MASK
        flag = word if _LONE_OPTION.fullmatch(word) and clean[place] == word else ""
    return clean


def _make_free_key(key: str, taken: Mapping[str, JsonValue]) -> str:
    number, name = 1, key
    while name in taken:
        number += 1
        name = f"{key} {number}"
    return name


def scrub_change(change: Change) -> Change:
    """Remove credentials from the texts that a change would store.

    Texts in its tasks, plan revisions, runs and checkpoints are left as they are: they were
    scrubbed when they were taken from a call's arguments or built.
    """
    clean: dict[str, tuple[Value, ...]] = {
        "messages": tuple(_replace(row, content=scrub(row.content)) for row in change.messages),
        "wakes": tuple(_scrub_wake(wake) for wake in change.wakes),
        "waits": tuple(
            _replace(
                wait,
                last_observation=_scrub_optional(wait.last_observation),
                parts=tuple(_replace(each, met=_scrub_optional(each.met)) for each in wait.parts),
            )
            for wait in change.waits
        ),
        "artifacts": tuple(_replace(made, detail=scrub(made.detail)) for made in change.artifacts),
        "ledger": tuple(
            _replace(entry, path=scrub(entry.path), why=_scrub_optional(entry.why))
            for entry in change.ledger
        ),
        "folders": tuple(_replace(row, path=scrub(row.path)) for row in change.folders),
        "events": tuple(_replace(row, data=scrub_json(dict(row.data))) for row in change.events),
    }
    return _replace(change, **clean)


def _scrub_wake(wake: Wake) -> Wake:
    # The text of a stuck wake is JSON; it was scrubbed before it was serialised.
    text = wake.text if wake.cause is WakeCause.STUCK else scrub(wake.text)
    error, note = _scrub_optional(wake.last_error), _scrub_optional(wake.note)
    return _replace(wake, text=text, last_error=error, note=note)


def _scrub_optional(text: str | None) -> str | None:
    return scrub(text) if text else text


def _replace(row: RowT, **clean: object) -> RowT:
    """Return a row with other values of some fields; the row itself if it has them already."""
    changed = {name: value for name, value in clean.items() if getattr(row, name) != value}
    return row.model_copy(update=changed) if changed else row
