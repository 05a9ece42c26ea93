"""Which addresses may be listened on."""

from __future__ import annotations

import pytest

from embermq.access.listeners import check_listener
from embermq.errors import SettingsError

PUBLIC = ["0.0.0.0", "::", "", "192.0.2.7", "broker.example", "::ffff:10.0.0.1"]


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.10", "::1", "[::1]", "localhost"])
def test_this_machine_alone_needs_no_credentials(address: str) -> None:
    assert check_listener(address, has_credentials=False, insecure_public=False) is None


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_needs_credentials_or_the_flag(address: str) -> None:
    with pytest.raises(SettingsError, match="--insecure-public") as refused:
        check_listener(address, has_credentials=False, insecure_public=False)
    assert "\n" not in str(refused.value)
    check_listener(address, has_credentials=True, insecure_public=False)
    check_listener(address, has_credentials=False, insecure_public=True)
