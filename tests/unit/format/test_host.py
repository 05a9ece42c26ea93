from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.errors import CorruptRecord
from embermq.format.host import decode_host, encode_host
from embermq.model.message import Host

ports = st.integers(-(2**31), 2**31 - 1)


@given(st.ip_addresses(v=4), ports)
def test_an_ipv4_host_takes_eight_bytes_and_comes_back(address: ipaddress.IPv4Address, port: int) -> None:
    host = Host(str(address), port)
    data = encode_host(host)
    assert len(data) == 8
    assert decode_host(data) == host


@given(st.ip_addresses(v=6).filter(lambda address: address.ipv4_mapped is None), ports)
def test_an_ipv6_host_takes_twenty_bytes_and_comes_back(address: ipaddress.IPv6Address, port: int) -> None:
    data = encode_host(Host(str(address), port))
    assert len(data) == 20
    found = decode_host(data)
    assert ipaddress.ip_address(found.address) == address
    assert found.port == port


def test_hosts_have_the_bytes_of_the_format() -> None:
    assert encode_host(Host("192.168.0.10", 10911)).hex() == "c0a8000a00002a9f"
    assert encode_host(Host("2001:db8::1", 50002)).hex() == "20010db80000000000000000000000010000c352"


def test_an_ipv4_address_in_ipv6_clothes_is_ipv4() -> None:
    assert encode_host(Host("::ffff:10.0.0.1", 1)) == encode_host(Host("10.0.0.1", 1))


def test_the_zone_of_an_ipv6_address_is_left_out() -> None:
    assert encode_host(Host("fe80::1%eth0", 1)) == encode_host(Host("fe80::1", 1))


@pytest.mark.parametrize("address", ["", "localhost", "1.2.3", "1.2.3.256", "::g", "1:2"])
def test_a_name_is_no_address(address: str) -> None:
    with pytest.raises(ValueError, match="no numeric address"):
        encode_host(Host(address, 1))


@pytest.mark.parametrize("size", [0, 7, 9, 19, 21])
def test_a_host_of_another_size_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptRecord, match=f"not {size}"):
        decode_host(bytes(size))
