"""Mask credentials that are recognised by their beginning, shape, or a fixed text before them.

Each pattern is tried only if its hint is in the text, so that most texts are searched quickly. New
forms go here; `redaction` has the commonest, and those that are known by the name, option or
program before them.
"""

from __future__ import annotations

import re
from typing import Final

_BEGUN: Final = {
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
    *((begun, rf"(?<![\w-]){re.escape(begun)}{rest}") for begun, rest in _BEGUN.items()),
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
_TRIED: Final = tuple((hint, re.compile(shape)) for hint, shape in _SHAPES)
_NETRC: Final = re.compile(
    r"(login\s{1,9}[^\s]{1,200}\s{1,9}password\s{1,9})(?!\[secret)\S{1,2000}"
)
_PGPASS: Final = re.compile(
    r"(?m)(^[\w.*-]{1,99}:(?:\d{2,5}|\*):[\w*-]{1,99}:[\w*-]{1,99}:)(?!\[secret)\S+$"
)
_SAID: Final = re.compile(
    r"([Pp](?i:assw(?:or)?[dt]|assphrase|asscode|wd)\s{1,3}(?i:is|was|ist|to)\s{1,3}"
    r"(?:now\s)?[\"'`]?)(?=[^\s\"'`]{0,80}\d)(?=[^\s\"'`]{0,80}[A-Za-z])[^\s\"'`]{5,}"
)
"""In prose only values with letters and digits; `is required` is no credential."""
_END: Final = re.compile(r"-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_BREAK: Final = re.compile(r"(\n|\\n)")
_BACKWARDS: Final = re.compile(r"[^\w+/=]{0,4}+([\w+/=]{1,100}+)(?![\w+/=])")
"""A line of a key, read backwards; quotes, a comma or a return may follow it."""
_SEEN: Final = 300
"""Characters to read at the end of a line: part of a key, and what is before it."""
_WIDE: Final = 40
"""Fewest characters of a line of a key, except its last."""
_WIDTHS: Final = frozenset({64, 70, 76})
"""Widths at which keys are wrapped (PEM, OpenSSH, MIME)."""
_FEWEST: Final = 5
"""Whole lines that count as a key without its beginning and end."""
_WRAPPED: Final = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_MIXED: Final = tuple(map(re.compile, ("[a-z]", "[A-Z]", "[0-9]")))
"""Character classes that the lines of a key all have, unlike lists of checksums."""


def mask_shapes(text: str, mask: str) -> str:
    """Replace each credential of a known shape with `mask`."""
    for hint, shape in _TRIED:
        if hint in text:
            text = shape.sub(mask, text)
    low = text.lower()
    if "pass" in low or "pwd" in low:
        text = _NETRC.sub(rf"\1{mask}", text)
        text = _SAID.sub(rf"\1{mask}", text)
    if text.count(":") > 3:  # noqa: PLR2004 - those of one line
        text = _PGPASS.sub(rf"\1{mask}", text)
    return text


def mask_key_tails(text: str, mask: str) -> str:
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


def mask_cut_keys(text: str, mask: str) -> str:
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
        if not _WRAPPED.fullmatch(part) or _to_shape(start) != like:
            break
        if len(part) != len(whole) or "=" in part:
            at += 0 < len(part) <= len(whole)  # its last line
            break
        letters += part
        at += 1
    if len(letters) < _FEWEST * len(whole):
        return 0
    rest, part = _split_key_part(lines[0])
    fits = like.endswith(_to_shape(rest)) and _WRAPPED.fullmatch(part)
    return at if fits and all(each.search(letters) for each in _MIXED) else 0


def _split_key_part(line: str) -> tuple[str, str]:
    """Split off a line's last word, which may be a key's; return the prefix and the word."""
    found = _BACKWARDS.match(line[: -_SEEN - 1 : -1])
    if found is None:
        return line, ""
    return line[: len(line) - found.end()], found[1][::-1]


def _to_shape(start: str) -> str:
    """Reduce a line's prefix, such as a time or a number, to a form equal for all lines."""
    return re.sub(r"\d+", "0", " ".join(start[-_SEEN:].split())).strip("+ ")


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
        if not part or (len(part) < _WIDE and not half and first < last and not sums):
            break
        if shape != like and not (half and like.endswith(shape)):
            if len(part) >= _WIDE and start and not start[-1].isspace():
                first, kept = first - 2, start
            break
        first, below, kept = first - 2, part, start
    return text if first == last else "".join((*lines[:first], kept))
