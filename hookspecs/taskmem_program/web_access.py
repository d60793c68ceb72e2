"""Ask web servers for pages, of which only the addresses are asked that may be.

An agent's URL is untrusted data. Names are looked up once, and the addresses found are asked, so
that a later look-up cannot lead elsewhere. No proxy is used, which would look up names itself, and
no `.netrc`, whose passwords would be sent.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final, Literal
from urllib.request import getproxies

import httpx

from taskmem_hookspecs.file_access import escape_name

Reach = Literal["all", "public", "none"]
"""Which addresses may be asked: all but those that serve credentials, public ones, or none."""
_NAT64: Final = ip_network("64:ff9b::/96")
_LOCAL_NAT64: Final = ip_network("64:ff9b:1::/48")
"""Translated within a network of its operator, to addresses of that (RFC 8215)."""
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
    return meant[0] not in _LOCAL_NAT64 and all(
        each.is_global and not each.is_multicast for each in meant[1:] or meant
    )


def _expand_address(ip: IPv4Address | IPv6Address) -> Iterator[IPv4Address | IPv6Address]:
    """Yield an address and every address that it may be translated to."""
    yield ip
    if isinstance(ip, IPv4Address):
        return
    if any(ip in each for each in (_NAT64, _LOCAL_NAT64, _IPV4_COMPATIBLE)):
        yield IPv4Address(int(ip) & 0xFFFFFFFF)
    for inner in (ip.ipv4_mapped, ip.sixtofour, *(ip.teredo or ())):
        if inner is not None:
            yield inner


_MOST_ADDRESSES: Final = 3
_MOST_REDIRECTS: Final = 10
_HEADERS: Final = {
    "User-Agent": "Mozilla/5.0 (compatible; taskmem)",
    # Some servers refuse who does not name the type.
    "Accept": "*/*, text/html",
    # Checksums are of the content, not of a compressed transfer.
    "Accept-Encoding": "identity",
}
_WELL_KNOWN_HOST: Final = "example.com"
"""A host that every resolver of the public internet knows (RFC 2606)."""
_PORTS: Final = {"http": 80, "https": 443}
_PORTS_END: Final = 65_536


class WebFailure(Exception):
    """A page could not be asked for, in a sentence."""

    def __init__(self, sentence: str, *, is_absent: bool = False) -> None:
        super().__init__(sentence)
        self.is_absent = is_absent
        """True if it is known that nothing is there."""


class ForbiddenAddress(WebFailure):
    """A page lies where none is asked."""


class PrivateAddress(ForbiddenAddress):
    """A page lies on this machine or in a private network, which may not be asked."""


CheckRedirect = Callable[[httpx.URL, httpx.URL], None]
"""Called with a page and where it redirects to; raises `WebFailure` if that is not to be asked."""


def _accept_redirect(_page: httpx.URL, _target: httpx.URL) -> None:
    pass


def parse_url(text: str) -> httpx.URL:
    """Parse a URL that can be requested. No message repeats credentials.

    Raises:
        WebFailure: It cannot be requested.
    """
    try:
        url = httpx.URL(text.strip())
    except (httpx.InvalidURL, ValueError):
        raise WebFailure(
            "It is no URL; write it whole, from https:// on.", is_absent=True
        ) from None
    if url.scheme not in _PORTS:
        raise WebFailure("Only a URL that begins with http:// or https:// can be asked.")
    if not url.host:
        raise WebFailure("It names no host; write the URL whole, from https:// on.", is_absent=True)
    if url.port is not None and not 0 < url.port < _PORTS_END:
        raise WebFailure(f"There is no port {url.port}; give one from 1 to 65535.", is_absent=True)
    if url.userinfo:
        raise WebFailure(
            f"The URL at {escape_name(url.host)} holds credentials, which are not sent; "
            "give one that answers without."
        )
    return url


class WebClient:
    """Asks for pages; keeps the trusted certificates."""

    def __init__(self, total_seconds: float, connect_seconds: float) -> None:
        """Take the time limits of a request and of each connection, in seconds."""
        self._tls = httpx.create_ssl_context(trust_env=False)
        self._timeout = httpx.Timeout(total_seconds, connect=connect_seconds)

    @asynccontextmanager
    async def open_answer(
        self, url: httpx.URL, allowed: Reach, check_redirect: CheckRedirect = _accept_redirect
    ) -> AsyncGenerator[tuple[httpx.URL, httpx.Response]]:
        """Yield the page that a URL leads to and its answer, whose body is unread.

        `check_redirect` may raise `WebFailure` for a redirect.

        Raises:
            WebFailure: There is no answer, or it may not be asked for.
            TimeoutError: It did not come in time.
        """
        async with httpx.AsyncClient(
            verify=self._tls, trust_env=False, timeout=self._timeout
        ) as client:
            addresses: dict[str, Sequence[str]] = {}
            for _ in range(_MOST_REDIRECTS + 1):
                if url.host not in addresses:
                    addresses[url.host] = await _resolve_addresses(url, allowed)
                async with _open_answer(client, url, addresses[url.host]) as answer:
                    if not answer.has_redirect_location:
                        yield url, answer
                        return
                    target = _parse_redirect(url, answer.headers["location"])
                check_redirect(url, target)
                url = target
        raise WebFailure(f"{format_url(url)} is redirected again and again.", is_absent=True)


def format_url(url: httpx.URL) -> str:
    """Return a URL for a sentence, without query and fragment, which may be secret."""
    port = f":{url.port}" if url.port else ""
    host = f"[{url.host}]" if ":" in url.host else url.host
    return escape_name(f"{url.scheme}://{host}{port}{url.path}")


def _encode_host(url: httpx.URL) -> str:
    return url.raw_host.decode("ascii")


async def _resolve_addresses(url: httpx.URL, allowed: Reach) -> Sequence[str]:
    """Resolve a host once, because a second lookup could differ; return its first addresses.

    Raises:
        WebFailure: The host is unknown, cannot be looked up, or one of its addresses may not be
            asked.
    """
    try:
        resolved = await _look_up(_encode_host(url), url.port or _PORTS[url.scheme])
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no name"
        is_unknown = getattr(error, "errno", None) == socket.EAI_NONAME
        raise WebFailure(
            f"Nobody knows the host {escape_name(url.host)} ({reason}).",
            is_absent=is_unknown and await _knows_public_names(),
        ) from None
    if not all(is_askable(address) for address in resolved):
        raise ForbiddenAddress(
            f"{escape_name(url.host)} is an address of this machine's own network link or "
            "of a cloud's credentials, which is never asked."
        )
    if allowed == "public" and not all(map(is_public, resolved)):
        raise PrivateAddress(
            f"{escape_name(url.host)} is an address of this machine or of a private network."
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
        WebFailure: It cannot be requested.
    """
    try:
        return parse_url(str(url.join(location)))
    except (httpx.InvalidURL, ValueError, WebFailure) as error:
        if isinstance(error, WebFailure) and not error.is_absent:
            raise
        raise WebFailure(f"{format_url(url)} redirects to what is no URL.") from None


@asynccontextmanager
async def _open_answer(
    client: httpx.AsyncClient, url: httpx.URL, addresses: Sequence[str]
) -> AsyncGenerator[httpx.Response]:
    """Yield the response of the first address that responds, with its body unread.

    Raises:
        WebFailure: No address responds.
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
            raise WebFailure(f"{format_url(url)} answers with what is no HTTP.") from None
        try:
            yield answer
        finally:
            await answer.aclose()
        return
    sentence = f"{format_url(url)} could not be asked: {why} (no proxy is used). See that it runs."
    raise WebFailure(sentence, is_absent=refusals == len(addresses))


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
