import pytest

from taskmem_program.web_access import is_askable


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "169.254.0.1",
        "169.254.255.255",
        "fe80::1",
        "fe80::1%eth0",
        "febf::1",
        "::ffff:169.254.169.254",
        "::ffff:a9fe:a9fe",
        "::169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::1",
        "2001:0:1:1:0:0:5601:5601",
        "100.100.100.200",
        "::ffff:100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd20:ce::254",
        "fd20:ce::254%eth0",
    ],
)
def test_where_machines_learn_their_credentials_nobody_asks(address):
    assert not is_askable(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "0.0.0.0",  # noqa: S104 - what servers print of themselves
        "::1",
        "::",
        "10.0.0.1",
        "192.168.1.20",
        "100.100.100.201",
        "93.184.216.34",
        "::ffff:93.184.216.34",
        "64:ff9b::5db8:d822",
        "2606:2800:220:1::1",
        "fd12:3456::1",
        "169.253.255.255",
    ],
)
def test_what_agents_make_may_be_served_anywhere_else(address):
    assert is_askable(address)
