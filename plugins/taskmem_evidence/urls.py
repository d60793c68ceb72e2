"""Verify claims that a URL responds.

Only the response is proven: a URL does not show since when it has responded.

Only addresses that `is_askable` allows are requested, also behind redirects.

A claim is refuted by what is known to be absent: a page, or a server. A denial (a status that
refuses access, a sign-in page, a network that does not lead there) says nothing of the page, nor
does slowness: the claim is unproven then.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import ssl
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final
from urllib.request import getproxies

import httpx

from taskmem_evidence.commits import is_on_remote
from taskmem_evidence.findings import (
    ClaimDoubted,
    ClaimRefuted,
    ClaimUnchecked,
    build_verified_finding,
    format_name,
)
from taskmem_hookspecs import Claim, Finding

_NAT64: Final = ip_network("64:ff9b::/96")
_IPV4_COMPATIBLE: Final = ip_network("::/96")
_METADATA: Final = frozenset(
    map(
        ip_address,
        ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"),
    )
)
"""Addresses where clouds serve a machine's credentials, besides link-local ones."""


def is_askable(address: str) -> bool:
    """Return whether requests to an address are allowed: not to those that serve credentials.

    The agent's URL is untrusted data. Private and local addresses are allowed, because agents serve
    what they make there.

    An address is IPv4 or IPv6, with or without a zone.
    """
    return not any(
        each.is_link_local or each in _METADATA
        for each in _expand_address(ip_address(address.partition("%")[0]))
    )


def is_public(address: str) -> bool:
    """Return whether an address is public: neither of this machine nor of a private network.

    An address is IPv4 or IPv6, with or without a zone.
    """
    meant = [*_expand_address(ip_address(address.partition("%")[0]))]
    # A translated address is as public as its target.
    return all(each.is_global and not each.is_multicast for each in meant[1:] or meant)


def _expand_address(ip: IPv4Address | IPv6Address) -> Iterator[IPv4Address | IPv6Address]:
    """Yield an address and every address that it may be translated to."""
    yield ip
    if isinstance(ip, IPv4Address):
        return
    if ip in _NAT64 or ip in _IPV4_COMPATIBLE:
        yield IPv4Address(int(ip) & 0xFFFFFFFF)
    for inner in (ip.ipv4_mapped, ip.sixtofour, *(ip.teredo or ())):
        if inner is not None:
            yield inner


# --- the verifier -------------------------------------------------------------


TOTAL_SECONDS: Final = 1.6
"""Time limit for name lookup, redirects and body together. A hook has 2 s. Seconds."""
CONNECT_SECONDS: Final = 0.7
"""Time limit to connect to one address; it leaves time for a second address. Seconds."""
LARGEST_BODY_BYTES: Final = 1 << 20
"""Maximum size of a body that is read. Bytes."""
_MOST_ADDRESSES: Final = 3
_MOST_REDIRECTS: Final = 10
_ABSENT_STATUSES: Final = (404, 410, *range(500, 511))
"""Statuses that say that nothing is there, or that the server is broken. All other errors deny
access, or want another kind of request, and say nothing about the content."""
_NOT_FOUND: Final = 404
_EMPTY_STATUSES: Final = (204, 205)
"""Successes that never have a body."""
_HEADERS: Final = {
    "User-Agent": "Mozilla/5.0 (compatible; taskmem)",
    # Some servers refuse who does not name the type.
    "Accept": "*/*, text/html",
    # Checksums are of the content, not of a compressed transfer.
    "Accept-Encoding": "identity",
}
_SIGN_IN: Final = frozenset(
    ("auth", "authorize", "login", "oauth2", "saml", "signin", "sign_in", "sign-in", "sso")
)
"""Parts of paths behind which servers let people sign in."""
_WELL_KNOWN_HOST: Final = "example.com"
"""A host that every resolver of the public internet knows (RFC 2606)."""
_PORTS: Final = {"http": 80, "https": 443}
_PORTS_END: Final = 65_536


class UrlVerifier:
    """Verifies by GET that a URL responds with content; follows redirects, also to other hosts."""

    def __init__(self) -> None:
        """Load the trusted certificates."""
        self._tls = httpx.create_ssl_context(trust_env=False)

    async def verify(self, claim: Claim) -> Finding:
        """Verify a claim; the finding contains none of the body."""
        try:
            url = _parse_url(claim.subject)
            try:
                async with asyncio.timeout(TOTAL_SECONDS):
                    return await self._verify_url(claim, url)
            except TimeoutError:
                sentence = f"{_format_url(url)} did not answer within {TOTAL_SECONDS:g} s."
                raise ClaimUnchecked(sentence) from None
        except ClaimDoubted as error:
            return error.finding

    async def _verify_url(self, claim: Claim, url: httpx.URL) -> Finding:
        # Use no proxy from the environment: it would resolve names itself and so reach forbidden
        # addresses. Use no .netrc: its passwords must not be sent.
        async with httpx.AsyncClient(
            verify=self._tls,
            trust_env=False,
            timeout=httpx.Timeout(TOTAL_SECONDS, connect=CONNECT_SECONDS),
        ) as client:
            addresses: dict[str, Sequence[str]] = {}
            for _ in range(_MOST_REDIRECTS + 1):
                if url.host not in addresses:
                    addresses[url.host] = await _resolve_addresses(url)
                async with _open_answer(client, url, addresses[url.host]) as answer:
                    if not answer.has_redirect_location:
                        return await _judge_answer(claim, url, answer)
                    url = _parse_redirect(url, answer.headers["location"])
        raise ClaimRefuted(f"{_format_url(url)} is redirected again and again.")


# --- where --------------------------------------------------------------------


def _parse_url(subject: str) -> httpx.URL:
    """Parse a URL that can be requested.

    Raises:
        ClaimRefuted: No server can have such a URL.
        ClaimUnchecked: It cannot be requested. The message never repeats credentials.
    """
    try:
        url = httpx.URL(subject.strip())
    except (httpx.InvalidURL, ValueError):
        raise ClaimRefuted("The claim names no URL; write it whole, from https:// on.") from None
    if url.scheme not in _PORTS:
        raise ClaimUnchecked("Only a URL that begins with http:// or https:// can be asked.")
    if not url.host:
        raise ClaimRefuted("The claim names no host; write the URL whole, from https:// on.")
    if url.port is not None and not 0 < url.port < _PORTS_END:
        raise ClaimRefuted(f"There is no port {url.port}; give one from 1 to 65535.")
    if url.userinfo:
        raise ClaimUnchecked(
            f"The URL at {format_name(url.host)} holds credentials, which are not sent; "
            "claim one that answers without."
        )
    return url


def _format_url(url: httpx.URL) -> str:
    """Return a URL for a sentence, without query and fragment, which may be secret."""
    port = f":{url.port}" if url.port else ""
    host = f"[{url.host}]" if ":" in url.host else url.host
    return format_name(f"{url.scheme}://{host}{port}{url.path}")


def _encode_host(url: httpx.URL) -> str:
    return url.raw_host.decode("ascii")


async def _resolve_addresses(url: httpx.URL) -> Sequence[str]:
    """Resolve a host once, because a second lookup could differ; return its first addresses.

    Raises:
        ClaimRefuted: The host is unknown.
        ClaimUnchecked: It cannot be looked up, one of its addresses is forbidden, or the operator
            does not allow it.
    """
    allowed = os.environ.get("TASKMEM_EVIDENCE_URLS", "").strip() or "all"
    if allowed == "none":
        raise ClaimUnchecked(
            f"{_format_url(url)} is not asked: TASKMEM_EVIDENCE_URLS is none. Claim a file "
            "or a recorded command."
        )
    try:
        resolved = await _look_up(_encode_host(url), url.port or _PORTS[url.scheme])
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no name"
        sentence = f"Nobody knows the host {format_name(url.host)} ({reason})."
        if getattr(error, "errno", None) == socket.EAI_NONAME and await _knows_public_names():
            raise ClaimRefuted(sentence) from None
        raise ClaimUnchecked(sentence) from None
    if not all(is_askable(address) for address in resolved):
        raise ClaimUnchecked(
            f"{format_name(url.host)} is an address of this machine's own network link or "
            "of a cloud's credentials, which is never asked."
        )
    if allowed == "public" and not all(map(is_public, resolved)):
        raise ClaimUnchecked(
            f"{format_name(url.host)} is an address of this machine or of a private network, "
            "and is not asked: TASKMEM_EVIDENCE_URLS is public. Claim a file or a "
            "recorded command."
        )
    return resolved[:_MOST_ADDRESSES]


async def _look_up(host: str, port: int) -> Sequence[str]:
    loop = asyncio.get_running_loop()
    rows = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(row[4][0]) for row in rows))


async def _knows_public_names() -> bool:
    """Tell whether public names can be looked up: not in a sandbox, nor behind a proxy."""
    try:
        return bool(await _look_up(_WELL_KNOWN_HOST, _PORTS["https"]))
    except OSError:
        return False


def _parse_redirect(url: httpx.URL, location: str) -> httpx.URL:
    """Return the target of a redirect.

    Raises:
        ClaimUnchecked: The target cannot be requested, or is where people sign in.
    """
    try:
        target = _parse_url(str(url.join(location)))
    except (httpx.InvalidURL, ValueError, ClaimRefuted):
        raise ClaimUnchecked(f"{_format_url(url)} redirects to what is no URL.") from None
    if not _SIGN_IN.isdisjoint(target.path.lower().split("/")):
        raise ClaimUnchecked(
            f"{_format_url(url)} redirects to {_format_url(target)}, to sign in first: it may not "
            "be seen from here."
        )
    return target


# --- what ---------------------------------------------------------------------


@asynccontextmanager
async def _open_answer(
    client: httpx.AsyncClient, url: httpx.URL, addresses: Sequence[str]
) -> AsyncGenerator[httpx.Response]:
    """Yield the response of the first address that responds, with its body unread.

    Raises:
        ClaimRefuted: Every address refuses to be connected to.
        ClaimUnchecked: No address responds.
    """
    why, refusals = "nobody answers", 0
    for address in addresses:
        try:
            answer = await client.send(_build_request(client, url, address), stream=True)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            why = _describe_failure(error)
            says_no = any(isinstance(c, ConnectionRefusedError) for c in _list_causes(error))
            refusals += says_no and not (is_public(address) and getproxies())
            continue
        except httpx.TimeoutException as error:
            raise TimeoutError from error
        except (httpx.HTTPError, ValueError):
            raise ClaimUnchecked(f"{_format_url(url)} answers with what is no HTTP.") from None
        try:
            yield answer
        finally:
            await answer.aclose()
        return
    sentence = f"{_format_url(url)} could not be asked: {why} (no proxy is used). See that it runs."
    raise ClaimRefuted(sentence) if refusals == len(addresses) else ClaimUnchecked(sentence)


def _build_request(client: httpx.AsyncClient, url: httpx.URL, address: str) -> httpx.Request:
    """Build a request to one resolved address, so that the name is not resolved again."""
    return client.build_request(
        "GET",
        url.copy_with(host=address, fragment=None),
        headers={"Host": url.netloc.decode("ascii"), **_HEADERS},
        extensions={"sni_hostname": _encode_host(url)},
    )


def _describe_failure(error: BaseException) -> str:
    """Return the reason why the connection failed."""
    for cause in _list_causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return "its certificate is not trusted"
        if isinstance(cause, ssl.SSLError):
            return "it speaks no TLS that we know"
    return "nobody answers"


def _list_causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


async def _judge_answer(claim: Claim, url: httpx.URL, answer: httpx.Response) -> Finding:
    """Return the finding for a response.

    Raises:
        ClaimRefuted: The response is not as claimed.
        ClaimUnchecked: Access is denied, or the response broke off.
    """
    status = answer.status_code
    is_challenge = answer.headers.get("cf-mitigated") == "challenge"
    if status in _ABSENT_STATUSES and not is_challenge:
        if status == _NOT_FOUND and is_on_remote(claim.folder or "", url.host, url.path):
            raise ClaimUnchecked(
                f"{_format_url(url)} answers with status {status} to who is not signed in. It "
                "belongs to the remote of the task's repository, which may be private."
            )
        raise ClaimRefuted(f"{_format_url(url)} answers with status {status}.")
    if not answer.is_success:
        raise ClaimUnchecked(
            f"{_format_url(url)} answers with status {status}: it may not be seen from here."
        )
    checksum, size, whole = await _hash_body(url, answer)
    if size == 0 and status not in _EMPTY_STATUSES:
        raise ClaimRefuted(f"{_format_url(url)} answers with status {status} and nothing.", size=0)
    if not whole and claim.checksum is not None:
        raise ClaimUnchecked(
            f"{_format_url(url)} is larger than {LARGEST_BODY_BYTES:,} bytes, too large to be"
            " summed; claim it without a checksum."
        )
    part = "" if whole else "the first "
    return build_verified_finding(
        claim,
        checksum,
        size,
        f"{_format_url(url)} answers with status {status}; {part}{size:,} bytes were read.",
    )


async def _hash_body(url: httpx.URL, answer: httpx.Response) -> tuple[str, int, bool]:
    """Return the SHA-256 and size of the body that was read, and whether that is all of it."""
    content, size = hashlib.sha256(), 0
    try:
        async for chunk in answer.aiter_raw():
            kept = chunk[: LARGEST_BODY_BYTES - size]
            content.update(kept)
            size += len(kept)
            if len(kept) < len(chunk):
                return content.hexdigest(), size, False
    except httpx.TimeoutException as error:
        raise TimeoutError from error
    except httpx.HTTPError:
        raise ClaimUnchecked(f"{_format_url(url)} broke off its answer.") from None
    return content.hexdigest(), size, True
