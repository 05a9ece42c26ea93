"""Which addresses may be listened on: those of this machine always, others only with access control."""

from __future__ import annotations

from ipaddress import ip_address

from embermq.errors import SettingsError


def is_local(address: str) -> bool:
    """Whether only this machine can reach `address`."""
    if address == "localhost":
        return True
    try:
        return ip_address(address.strip("[]").partition("%")[0]).is_loopback
    except ValueError:
        return False  # a name, or nothing: it may stand for any address


def check_listener(address: str, *, has_credentials: bool, insecure_public: bool) -> None:
    """Raise SettingsError for an address that others can reach while nobody has to say who they are."""
    if not is_local(address) and not has_credentials and not insecure_public:
        raise SettingsError(
            f"{address or 'every address'} can be reached from other machines, and anyone could read and write there: "
            "listen on 127.0.0.1, switch access control on with --access, or accept it with --insecure-public"
        )
