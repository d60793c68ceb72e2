"""Decide which network addresses may be requested to verify a claim."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

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

    Args:
        address: IPv4 or IPv6, with or without a zone.
    """
    return not any(
        each.is_link_local or each in _METADATA
        for each in _expand_address(ip_address(address.partition("%")[0]))
    )


def is_public(address: str) -> bool:
    """Return whether an address is public: neither of this machine nor of a private network.

    Args:
        address: IPv4 or IPv6, with or without a zone.
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
