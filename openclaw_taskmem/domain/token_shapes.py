"""Credentials that their own beginning, or the words before them, give away.

Each shape has a text that must be there before its pattern is tried, so that a text
without any is looked through quickly.
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
    "oy2": r"[a-z0-9]{43}",  # NuGet
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
    "tskey-": r"[a-z]{2,20}-[\w-]{12,}",  # Tailscale
    "vcp_": r"[A-Za-z0-9]{20,}",  # Vercel
    "whsec_": r"[\w+/=-]{16,}",
    "xai-": r"[A-Za-z0-9]{20,}",
    "xapp-": r"\d-[\w-]{20,}",  # Slack
    "xkeysib-": r"[a-f0-9]{40,}-\w{10,}",  # Brevo
    "ya29.": r"[\w-]{20,}",  # Google
}
_SHAPES: Final = (
    *(
        (begun, rf"(?<![\w-]){re.escape(begun)}{rest}")
        for begun, rest in _BEGUN.items()
    ),
    *(
        (f"gl{kind}-", rf"\bgl{kind}-[\w-]{{16,}}")
        for kind in ("dt", "ft", "rt", "cbt")
    ),
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
    r"([Pp](?i:asswor[dt]|assphrase|asscode|wd)\s{1,3}(?i:is|was|ist|to)\s{1,3}"
    r"(?:now\s)?[\"'`]?)(?=[^\s\"'`]{0,80}\d)(?=[^\s\"'`]{0,80}[A-Za-z])[^\s\"'`]{5,}"
)
"""In prose only what has letters and digits; `is required` is no credential."""
_END: Final = re.compile(
    r"(?<![\w+/=\s\\])[\w+/=\s\\]++-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"|\A[\w+/=\s\\]++-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
)
_KEY_LINE: Final = re.compile(r"[\w+/=]{1,100}")
_WIDE: Final = 40
"""Letters of a line of a key, but for its last."""
_CUT: Final = re.compile(
    r"\A(?:[A-Za-z0-9+/]{0,75}\r?\n)?"
    r"(?:(?:[A-Za-z0-9+/]{64}\r?\n){5,}+|(?:[A-Za-z0-9+/]{70}\r?\n){5,}+"
    r"|(?:[A-Za-z0-9+/]{76}\r?\n){5,}+)"
    r"(?:[A-Za-z0-9+/]{1,76}={0,2}\r?(?=\n|\Z))?"
)
"""Lines as wide as keys are wrapped (PEM, OpenSSH, MIME), from a text's start on."""
_MIXED: Final = tuple(map(re.compile, ("[a-z]", "[A-Z]", "[0-9]")))
"""What the lines of a key have all of, and lists of checksums have not."""


def mask_shapes(text: str, mask: str) -> str:
    """Return a text with `mask` for each credential of a known shape."""
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
    """Return a text with `mask` for a private key whose first line is not there."""
    if "PRIVATE KEY" not in text or "-----END" not in text:
        return text
    return _END.sub(
        lambda found: _without_tail(found[0], mask, cut=found.start() == 0), text
    )


def mask_cut_keys(text: str, mask: str) -> str:
    """Return a text that may begin anywhere with `mask` for the middle of a key.

    Neither its first line nor its last need be there: five whole lines and more that
    look like a key's count, at the beginning alone. What else is wrapped so (an image
    in a mail) is masked too, where the text begins within it.
    """
    found = _CUT.match(text)
    if found is None or not all(each.search(found[0]) for each in _MIXED):
        return text
    lines = found[0]
    return f"{mask}{lines[len(lines.rstrip()) :]}{text[found.end() :]}"


def _without_tail(text: str, mask: str, *, cut: bool) -> str:
    """Return a text that ends with a key's last lines without them.

    `cut`: nothing stands before it, so that its first line may be half a key's.
    """
    lines = re.split(r"(\n|\\n)", text)
    first = len(lines) - 1
    while first >= 2 and _KEY_LINE.fullmatch(lines[first - 2].strip()):  # noqa: PLR2004
        half = cut and first == 2  # noqa: PLR2004
        short = len(lines[first - 2].strip()) < _WIDE
        if short and not half and first < len(lines) - 1:
            break
        first -= 2
    return text if first == len(lines) - 1 else "".join((*lines[:first], mask))
