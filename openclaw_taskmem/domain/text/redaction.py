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
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import Final, TypeVar
from unicodedata import normalize

from pydantic import JsonValue

from taskmem_hookspecs import Change, Value, Wake, WakeCause

RowT = TypeVar("RowT", bound=Value)

_PREFIXED_SHAPES: Final = {
    "1//0": r"[\w-]{30,}",  # Google, to refresh
    "A3-": r"[A-Z0-9]{6}-[A-Z0-9-]{20,}",  # 1Password
    "AGE-SECRET-KEY-1": r"[A-Z0-9]{20,}",
    "AKCp": r"[A-Za-z0-9]{30,}",  # Artifactory
    "ATATT3": r"[\w=-]{20,}",  # Atlassian
    "ATBB": r"[A-Za-z0-9]{20,}",
    "ATCTT3": r"[\w=-]{20,}",
    "CCIPAT_": r"\w{20,}",  # CircleCI
    "CFPAT-": r"[\w-]{30,}",  # Contentful
    "CLOJARS_": r"[A-Za-z0-9]{40,}",
    "EAA": r"[\w-]{60,}",  # Facebook, Square
    "GR1348941": r"[\w-]{20,}",  # GitLab, for runners
    "HRKU-": r"[\w-]{20,}",  # Heroku
    "NRAK-": r"[A-Z0-9]{20,}",  # New Relic
    "PMAK-": r"[a-f0-9]{20,}-[a-f0-9]{20,}",  # Postman
    "bkua_": r"[a-f0-9]{30,}",  # Buildkite
    "dapi": r"[a-f0-9]{32}(?:-\d)?",  # Databricks
    "dckr_": r"(?:pat|oat)_[\w-]{20,}",
    "doo_v1_": r"[a-f0-9]{40,}",
    "dor_v1_": r"[a-f0-9]{40,}",
    "dp.": r"(?:pt|st|sa|ct|scim|audit)\.[\w.-]{30,}",  # Doppler
    "figd_": r"[\w-]{20,}",
    "fm2_": r"[\w+/=-]{30,}",  # Fly
    "glc_": r"[\w+/=]{30,}",  # Grafana
    "glsa_": r"\w{20,}",
    "gsk_": r"[A-Za-z0-9]{20,}",  # Groq
    "hvb.": r"[\w-]{20,}",
    "hvs.": r"[\w-]{20,}",  # Vault
    "key-": r"[a-f0-9]{32}",  # Mailgun
    "lin_": r"(?:api|oauth)_[A-Za-z0-9]{20,}",
    "mfa.": r"[\w-]{40,}",  # Discord
    "ntn_": r"[A-Za-z0-9]{30,}",  # Notion
    "nvapi-": r"[\w-]{20,}",
    "ops_": r"eyJ[\w+/=-]{40,}",  # 1Password
    "oy2": r"[a-z0-9]{43}",  # NuGet
    "pcsk_": r"[\w-]{30,}",  # Pinecone
    "phx_": r"[A-Za-z0-9]{30,}",  # PostHog
    "pplx-": r"[A-Za-z0-9]{30,}",
    "pscale_": r"(?:tkn|pw|oauth)_[\w.-]{20,}",
    "pul-": r"[a-f0-9]{40}",  # Pulumi
    "r8_": r"[A-Za-z0-9]{30,}",  # Replicate
    "rubygems_": r"[a-f0-9]{30,}",
    "sb_secret_": r"[\w-]{20,}",  # Supabase
    "sbp_": r"[a-f0-9]{30,}",
    "secret_": r"[A-Za-z0-9]{40,}",  # Notion
    "sgp_": r"[a-f0-9_]{40,}",  # Sourcegraph
    "shp": r"(?:at|ca|pa|ss|ua)_[a-fA-F0-9]{24,}",  # Shopify
    "sntry": r"[su]_[\w+/=-]{30,}",  # Sentry
    "sq0": r"(?:csp|atp|idp)-[\w-]{20,}",
    **dict.fromkeys(("sqa_", "sqp_", "squ_"), r"[a-f0-9]{40,}"),  # SonarQube
    "tskey-": r"[a-z]{2,20}-[\w-]{12,}",  # Tailscale
    "vcp_": r"[A-Za-z0-9]{20,}",  # Vercel
    "whsec_": r"[\w+/=-]{16,}",
    "xai-": r"[A-Za-z0-9]{20,}",
    "xapp-": r"\d-[\w-]{20,}",  # Slack
    "xkeysib-": r"[a-f0-9]{40,}-\w{10,}",  # Brevo
    "ya29.": r"[\w-]{20,}",  # Google
}
_SHAPES: Final = (
    *((begun, rf"(?<![\w-]){re.escape(begun)}{rest}") for begun, rest in _PREFIXED_SHAPES.items()),
    *(
        (f"gl{kind}-", rf"\bgl{kind}-[\w-]{{16,}}")
        for kind in ("dt", "ft", "rt", "cbt", "ptt", "agent", "oas", "soat", "imt")
    ),
    (":AA", r"(?<=bot)\d{6,12}:AA[\w-]{30,}"),  # Telegram, in a URL
    ("pat", r"\bpat[A-Za-z0-9]{14}\.[a-f0-9]{64}"),  # Airtable
    ("SSWS", r"(?<=SSWS )[\w-]{30,}"),  # Okta
    ("SK", r"\bSK[a-f0-9]{32}\b"),  # Twilio
    ("-us", r"\b[0-9a-f]{32}-us\d{1,2}\b"),  # Mailchimp
    (".atlasv1.", r"(?<![\w.])\w{14}\.atlasv1\.[\w-]{40,}"),  # Terraform
    ("Q~", r"(?<![\w.~-])[\w.~-]{3}\dQ~[\w.~-]{31,}"),  # Azure
    (".", r"[MNO](?<![\w.-].)[\w-]{23,27}\.[\w-]{6}\.[\w-]{27,40}"),  # Discord
    ("/webhooks/", r"(?<=/webhooks/)\d{15,}/[\w-]{30,}"),
    ("$", r"\$(?:[156y]|2[aby]|apr1|argon2id?)\$[\w./$=,+-]{16,}"),  # hashes
    ("ookie", r"(?i)(?<=cookie:)[ \t]*(?=[^\s=;]{1,99}=)(?!\[secret)[^\n\"']+"),
    ("client-key-data", r"(?<=client-key-data:)[ \t]*[\w+/=]{16,}"),  # kubectl
    ("-token:", r"(?<=(?:id-tok|sh-tok)en:)[ \t]+[\w.+/=-]{16,}"),
    ("_auth", r"(?<=_auth=)[\w+/=-]{8,}|(?<=_authToken=)[\w+/=-]{8,}"),  # npm
    ('"auth"', r'(?<="auth": ")[\w+/=]{8,}|(?<="auth":")[\w+/=]{8,}'),  # Docker
)
_HINTED_PATTERNS: Final = tuple((hint, re.compile(shape)) for hint, shape in _SHAPES)
_NETRC: Final = re.compile(
    r"(login\s{1,9}[^\s]{1,200}\s{1,9}password\s{1,9})(?!\[secret)\S{1,2000}"
)
_PGPASS: Final = re.compile(
    r"(?m)(^[\w.*-]{1,99}:(?:\d{2,5}|\*):[\w*-]{1,99}:[\w*-]{1,99}:)(?!\[secret)\S+$"
)
_PROSE_PASSWORD: Final = re.compile(
    r"([Pp](?i:assw(?:or)?[dt]|assphrase|asscode|wd)\s{1,3}(?i:is|was|ist|to)\s{1,3}"
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


# --- by name, option or program, and in whole values ---------------------------------------


MASK: Final = "[secret removed]"

_BLOCK: Final = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r".*?(?:-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)
_TOKEN: Final = re.compile(
    r"""\b(?:
      sk-[A-Za-z0-9_-]{16,}                    # OpenAI, Anthropic and their like
    | (?:gh[pousr]_|github_pat_)[A-Za-z0-9_]{20,}
    | glpat-[A-Za-z0-9_-]{16,}
    | xox[a-eoprs]-[A-Za-z0-9%/+=-]{10,}          # Slack
    | (?:AKIA|ASIA)[A-Z0-9]{16}                # AWS
    | AIza[A-Za-z0-9_-]{30,}                   # Google
    | npm_[A-Za-z0-9]{30,}
    | pypi-[A-Za-z0-9_-]{40,}
    | hf_[A-Za-z0-9]{30,}
    | [sr]k_(?:live|test)_[A-Za-z0-9]{16,}     # Stripe
    | SG\.[\w-]{16,}\.[\w-]{16,}              # SendGrid
    | dop_v1_[a-f0-9]{40,}                     # DigitalOcean
    | \d{8,12}:AA[\w-]{30,}                   # Telegram
    | (?<=hooks\.slack\.com/services/)[\w/]{16,}
    | (?<![\w-])eyJ[\w-]{8,4000}+\.eyJ[\w-]{8,8000}+\.[\w-]{8,}       # JWT
    )""",
    re.VERBOSE,
)
_URL: Final = re.compile(r"(?<=://)([^\s/:@]{0,80}):([^\s/@]{1,200})(?=@)")
_USER: Final = re.compile(r"(?<=://)(?=[A-Za-z_-]{0,99}\d)[\w-]{20,200}(?=@)")
"""A long user name with digits in a URL, which may be a token."""
_BEARER: Final = re.compile(r"(?i)\b(bearer|basic)\s+([A-Za-z0-9._~+/=-]{16,})")
_NAMES: Final = (
    r"(?:passw(?:or)?[dt]|passphrase|secret|(?:auth|access|refresh)[_-]?token"
    r"|(?:api|access|private|secret|signing|encryption|master|account|shared)[_-]?key)"
)
"""Names that are hardly ever followed by anything but a credential."""
_PROMPT_END: Final = r"(?=\s{0,3}(?:$|[.,)\n]|appear|is\ gone|(?:and|or)\b))"
_PROMPTS: Final = "|".join(
    rf"(?<![^\s(\[:,]){quote}(?=\S)[^{quote}\n=:]{{0,80}}?(?i:{_NAMES})"
    rf"\s?:\s?{quote}{_PROMPT_END}"
    for quote in "\"'"
)
"""A quoted prompt, such as "Password:", is not followed by a credential."""
_SET: Final = r"(?:\\{0,8}[\"']|%22)?\s{0,3}(?:[=:]|%3[ADad])\s{0,3}"
_ASSIGNMENT: Final = re.compile(
    rf"""
    ( (?i:{_NAMES}){_SET}
    | (?i:token|credentials?)\\{{0,8}}["']\s{{0,3}}:\s{{0,3}}(?=\\{{0,8}}["'])  # JSON
    | _(?:TOKEN|PASS|PWD|PAT)=(?!\$)                                # environments
    )
    ( "(?:[^"\\\n]|\\.)++
    | '(?:[^'\\\n]|\\.)++
    # JSON within a text: what ends it has as many backslashes as what opens it
    | (?P<two>\\{{1,8}}+)"(?:[^"\\]|\\++[^"\\]|(?P=two)\\++")++
    | (?P<one>\\{{1,8}}+)'(?:[^'\\]|\\++[^'\\]|(?P=one)\\++')++
    | [^\s"',;&]{{6,}}
    )
    | {_PROMPTS}
    """,
    re.VERBOSE,
)
_OPAQUE_VALUE: Final = re.compile(
    rf"""
    ((?:token|(?<!session)(?<!session[_-])(?<!public)(?<!public[_-])key){_SET}
      \\{{0,8}}["']?)
    ( (?=[\w+/.~-]{{0,200}}\d) (?=[\w+/.~-]{{0,200}}[a-z])
      (?![.~]{{0,2}}/[\w.-]+/)                                          # a path
      [\w+/.~-]{{16,}}+ =*+ (?!:)
    )
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""After less specific names: only values that do not look like words."""
_NO_PLACEHOLDER: Final = r"""(?!["']?[\[<]|"?\$)"""
"""Not a variable, a placeholder or an earlier mask."""
_VALUE: Final = (
    rf"{_NO_PLACEHOLDER}(?:"
    r"""\"(?:[^"\\\n]|\\.)++"?|'(?:[^'\\\n]|\\.)++'?|[^\s"'&;\\]{1,2000})"""
)
"""A word, or a whole quoted text."""
_LINE: Final = re.compile(
    rf"""
    ( (?i:\bauthorization["']?\s?[:=]\s?["']?(?:basic|bearer|token|apikey)\s+)
    | \b[A-Z0-9_]{{0,40}}PASSW(?:OR)?D=(?!["'])
    | (?<![\w-])--(?!no-)(?i:[a-z0-9]{{1,20}}[_-]){{0,4}}(?i:{_NAMES}|token)=
    | [?&](?:token|sig|signature)=(?!["'])
    | \bsshpass\s{{1,3}}(?:-v\s{{1,3}})?-p\s{{0,3}}
    )
    {_VALUE}
    """,
    re.VERBOSE,
)
"""Credentials in any command line."""
_PROGRAMS: Final = tuple(
    (
        re.compile(rf"\b{program}\b(?:(?!&&)(?:\\\n|[^\n|;]))*"),
        re.compile(
            rf"""(\s{flag}(["'])?{before})
            (?(2){_NO_PLACEHOLDER}(?:(?!\2)[^\\\n]|\\.)++|{_VALUE})""",
            re.VERBOSE,
        ),
    )
    for program, flag, before in (
        ("curl", r"(?:-[uU]|--(?:proxy-)?user)[\s=]{0,3}", r"""[^\s:"']{0,80}:"""),
        (r"docker[ \t]{1,3}login", r"-p\s{0,3}", ""),
        (r"mysql\w{0,9}", r"-p(?!ort\b)", ""),
        ("redis-cli", r"-a\s{1,3}", ""),
    )
)
"""Command lines of programs, and their options that take a credential."""
_FLAG: Final = re.compile(
    rf"""
    ( (?<![\w-])--(?!no-)(?:[a-z0-9]{{1,20}}[_-]){{0,4}}(?:{_NAMES}|token)[ \t]{{1,3}} )
    ( "(?!\$)(?:[^"\\\n]|\\.)++ | '(?:[^'\\\n]|\\.)++
    | (?!(?:flag|option|argument|parameter|switch|value|file|is|was|are|to|and|or|for
        |from|in|with|on|of|as|the|a|an|works?|again|instead|needs?|must|can|when|if
        |it|that|which|by|has|does|not|at|then|because|takes?|expects?|requires?)\b)
      [^\s"'`$<>\[\](){{}},.;:|&\\-][^\s"'`;|&\\]{{0,2000}}
    )
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""An option and its value; prose about options is mostly left alone."""
_FULL_WIDTH: Final = re.compile(r"[\uff01-\uff5e]+(?=\s?[!-~\uff01-\uff5e])")
"""Full-width forms of ASCII, as in Chinese and Japanese, but not at the end of a sentence."""
_OPENING_QUOTE: Final = re.compile(r"(?:\\{0,8}[\"'])?")
_HINTS: Final = (
    "-----begin",
    "sk-",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat",
    "glpat",
    "xox",
    "akia",
    "asia",
    "aiza",
    "npm_",
    "pypi-",
    "hf_",
    "eyj",
    "://",
    "bearer",
    "basic",
    "pass",
    "secret",
    "key",
    "token",
    "credential",
    "_pwd=",
    "_pat=",
    "authorization",
    "curl",
    "docker",
    "mysql",
    "redis-cli",
    "?sig",
    "&sig",
    "sk_live",
    "sk_test",
    "rk_live",
    "rk_test",
    "sg.",
    "dop_",
    ":aa",
)
"""Every text with a credential has one of these, in lower case."""
_SHORT_WORD: Final = re.compile(r"[a-z_]{0,15}")
"""A text that is one, such as most keys of JSON, holds no credential of any shape."""
_WORD: Final = re.compile(r"[\w./][\w./-]{0,80}")
"""A possible program name in a list of arguments."""
_LONE_OPTION: Final = re.compile(r"--?\w[\w-]{0,80}")
"""An option alone; the next argument may be its value."""
_KEYS: Final = re.compile(
    rf"(?i)(?:{_NAMES}|token|credentials?"
    r"|(?:^|[_-])(?:pass|pwd|authorization|cookie|bearer|otp))$"
)


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
    narrow = _FULL_WIDTH.sub(_narrow_letter, clean)
    again = clean if narrow == clean else _scrub_plain(narrow)
    return clean if again == narrow else again


def _narrow_letter(wide: re.Match[str]) -> str:
    return normalize("NFKC", wide[0])


def _scrub_plain(text: str) -> str:
    for hint, shape in _HINTED_PATTERNS:
        if hint in text:
            text = shape.sub(MASK, text)
    low = text.casefold()
    if "pass" in low or "pwd" in low:
        text = _NETRC.sub(rf"\1{MASK}", text)
        text = _PROSE_PASSWORD.sub(rf"\1{MASK}", text)
    if text.count(":") > 3:  # noqa: PLR2004 - those of one line
        text = _PGPASS.sub(rf"\1{MASK}", text)
    if not any(map(low.__contains__, _HINTS)):
        return text
    text = _mask_key_tails(_BLOCK.sub(MASK, _scrub_json_text(text)), MASK)
    text = _TOKEN.sub(MASK, text)
    text = _USER.sub(MASK, _URL.sub(rf"\1:{MASK}", text))
    text = _LINE.sub(rf"\1{MASK}", text)
    for line, flag in _PROGRAMS:
        text = line.sub(partial(_mask_flags, flag), text)
    text = _FLAG.sub(_mask_value, text)
    text = _BEARER.sub(rf"\1 {MASK}", text)
    text = _ASSIGNMENT.sub(_mask_value, text)
    return _OPAQUE_VALUE.sub(_mask_value, text)


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


def _mask_flags(flag: re.Pattern[str], line: re.Match[str]) -> str:
    return flag.sub(rf"\1{MASK}", line[0])


def _mask_value(match: re.Match[str]) -> str:
    if match[1] is None:  # a prompt
        return match[0]
    opening = _OPENING_QUOTE.match(match[2])
    quote = opening[0] if opening else ""
    if match[2].startswith(MASK[:7], len(quote)):
        return match[0]
    return f"{match[1]}{quote}{MASK}"


def scrub_json(value: JsonValue, *, is_secret: bool = False) -> JsonValue:
    """Replace every credential in the texts and keys of a JSON value.

    Each text under a key that is named like a credential is replaced as a whole, as all are if the
    value `is_secret`. Keys that become equal are numbered, so that none is lost.
    """
    if isinstance(value, str):
        return MASK if is_secret and value else scrub(value)
    if isinstance(value, Mapping):
        clean: dict[str, JsonValue] = {}
        for key, item in value.items():
            name = scrub(key)
            name = _make_free_key(name, clean) if name in clean else name
            clean[name] = scrub_json(item, is_secret=is_secret or bool(_KEYS.search(key)))
        return clean
    if isinstance(value, Sequence):
        items = [scrub_json(item, is_secret=is_secret) for item in value]
        return _mask_arguments(items) if items else items
    return value


def _mask_arguments(items: list[JsonValue]) -> list[JsonValue]:
    """Mask the credentials in a list that may be a program's arguments."""
    words = [item if isinstance(item, str) else "" for item in items]
    program = " ".join(takewhile(_WORD.fullmatch, words[:2]))
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
            _replace(wait, last_observation=_scrub_optional(wait.last_observation))
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
