"""Verify claims that a URL responds.

Only the response is proven: a URL does not show since when it has responded.

Only addresses that `is_askable` allows are requested.
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

import httpx

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
_MOST_REDIRECTS: Final = 3
_DENIED_STATUSES: Final = (401, 403, 407, 429)
"""Statuses that deny access and say nothing about the content."""
_PORTS: Final = {"http": 80, "https": 443}
_PORTS_END: Final = 65_536


class UrlVerifier:
    """Verifies by GET that a URL responds with content; follows redirects on the same host."""

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
        addresses = await _resolve_addresses(url)
        # Use no proxy from the environment: it would resolve names itself and so reach forbidden
        # addresses. Use no .netrc: its passwords must not be sent.
        async with httpx.AsyncClient(
            verify=self._tls,
            trust_env=False,
            timeout=httpx.Timeout(TOTAL_SECONDS, connect=CONNECT_SECONDS),
        ) as client:
            for _ in range(_MOST_REDIRECTS + 1):
                async with _open_answer(client, url, addresses) as answer:
                    if not answer.has_redirect_location:
                        return await _judge_answer(claim, url, answer)
                    url = _parse_redirect(url, answer.headers["location"])
        raise ClaimRefuted(f"{_format_url(url)} is redirected again and again.")


# --- where --------------------------------------------------------------------


def _parse_url(subject: str) -> httpx.URL:
    """Parse a URL that can be requested.

    Raises:
        ClaimUnchecked: It cannot. The message never repeats credentials.
    """
    try:
        url = httpx.URL(subject.strip())
    except (httpx.InvalidURL, ValueError):
        raise ClaimUnchecked("The claim names no URL; write it whole, from https:// on.") from None
    if url.scheme not in _PORTS or not url.host:
        raise ClaimUnchecked("Only a URL that begins with http:// or https:// can be asked.")
    if url.port is not None and not 0 < url.port < _PORTS_END:
        raise ClaimUnchecked(f"There is no port {url.port}; give one from 1 to 65535.")
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
        ClaimUnchecked: The host is unknown, one of its addresses is forbidden, or the operator
            does not allow it.
    """
    allowed = os.environ.get("TASKMEM_EVIDENCE_URLS", "").strip() or "all"
    if allowed == "none":
        raise ClaimUnchecked(
            f"{_format_url(url)} is not asked: TASKMEM_EVIDENCE_URLS is none. Claim a file "
            "or a recorded command."
        )
    loop = asyncio.get_running_loop()
    port = url.port or _PORTS[url.scheme]
    try:
        rows = await loop.getaddrinfo(_encode_host(url), port, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no name"
        raise ClaimUnchecked(f"Nobody knows the host {format_name(url.host)} ({reason}).") from None
    found = list(dict.fromkeys(str(row[4][0]) for row in rows))
    if not all(is_askable(address) for address in found):
        raise ClaimUnchecked(
            f"{format_name(url.host)} is an address of this machine's own network link or "
            "of a cloud's credentials, which is never asked."
        )
    if allowed == "public" and not all(map(is_public, found)):
        raise ClaimUnchecked(
            f"{format_name(url.host)} is an address of this machine or of a private network, "
            "and is not asked: TASKMEM_EVIDENCE_URLS is public. Claim a file or a "
            "recorded command."
        )
    return found[:_MOST_ADDRESSES]


def _parse_redirect(url: httpx.URL, location: str) -> httpx.URL:
    """Return the target of a redirect on the same host.

    Raises:
        ClaimRefuted: The target is on another host, which was not claimed.
        ClaimUnchecked: The target cannot be requested.
    """
    try:
        target = _parse_url(str(url.join(location)))
    except (httpx.InvalidURL, ValueError):
        raise ClaimUnchecked(f"{_format_url(url)} redirects to what is no URL.") from None
    if target.host != url.host:
        raise ClaimRefuted(
            f"{_format_url(url)} redirects to another host, {format_name(target.host)}; claim "
            "where it is."
        )
    return target


# --- what ---------------------------------------------------------------------


@asynccontextmanager
async def _open_answer(
    client: httpx.AsyncClient, url: httpx.URL, addresses: Sequence[str]
) -> AsyncGenerator[httpx.Response]:
    """Yield the response of the first address that responds, with its body unread.

    Raises:
        ClaimUnchecked: No address responds.
    """
    why = "nobody answers"
    for address in addresses:
        try:
            answer = await client.send(_build_request(client, url, address), stream=True)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            why = _describe_failure(error)
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
    raise ClaimUnchecked(
        f"{_format_url(url)} could not be asked: {why} (no proxy is used). See that it runs."
    )


def _build_request(client: httpx.AsyncClient, url: httpx.URL, address: str) -> httpx.Request:
    """Build a request to one resolved address, so that the name is not resolved again."""
    return client.build_request(
        "GET",
        url.copy_with(host=address, fragment=None),
        headers={
            "Host": url.netloc.decode("ascii"),
            # Checksums are of the content, not of a compressed transfer.
            "Accept-Encoding": "identity",
        },
        extensions={"sni_hostname": _encode_host(url)},
    )


def _describe_failure(error: BaseException) -> str:
    """Return the reason why the connection failed."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return "its certificate is not trusted"
        if isinstance(cause, ssl.SSLError):
            return "it speaks no TLS that we know"
        cause = cause.__cause__ or cause.__context__
    return "nobody answers"


async def _judge_answer(claim: Claim, url: httpx.URL, answer: httpx.Response) -> Finding:
    """Return the finding for a response.

    Raises:
        ClaimRefuted: The response is not as claimed.
        ClaimUnchecked: Access is denied, or the response broke off.
    """
    status = answer.status_code
    if status in _DENIED_STATUSES:
        raise ClaimUnchecked(
            f"{_format_url(url)} answers with status {status}: it may not be seen from here."
        )
    if not answer.is_success:
        raise ClaimRefuted(f"{_format_url(url)} answers with status {status}.")
    checksum, size, whole = await _hash_body(url, answer)
    if size == 0:
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
