"""What connections are encrypted with: your own certificate, or one that is made at the first need.

    [tls] certificate, key      yours; wrong files are told at start
    otherwise                   self-signed, kept in the data directory, so that permissive mode works with no files

A self-signed certificate keeps others from reading along, but proves to nobody whom they talk to: that
takes your own. The library that makes one is imported when the first client asks for TLS.
"""

from __future__ import annotations

import logging
import socket
import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from embermq.errors import SettingsError
from embermq.files.durable import make_directory, replace_file
from embermq.net.server import TlsMode
from embermq.server.settings import TlsSettings

log = logging.getLogger(__name__)

FILE_NAME: Final = "tls-self-signed.pem"
_YEARS: Final = 30


class TlsContext:
    """The context for connections that want TLS; call it to get it. None means that they are refused."""

    def __init__(self, settings: TlsSettings, *, folder: Path) -> None:
        """Raises SettingsError for certificate files that cannot be used; `folder` keeps a self-signed one."""
        self._settings = settings
        self._path = folder / FILE_NAME
        self._context: ssl.SSLContext | None = None
        self._has_failed = False
        if settings.mode is TlsMode.DISABLED:
            return
        if settings.require_client_certificate and not settings.client_authorities:
            raise SettingsError(
                "require_client_certificate of TLS needs client_authorities: who signs for the clients?"
            )
        if settings.certificate is not None:
            self._context = self._load(Path(settings.certificate), Path(settings.key or ""), settings.key_password)
        elif not settings.test_certificate and settings.mode is TlsMode.ENFORCING:
            raise SettingsError("TLS is required and there is no certificate; name one, or set test_certificate")

    def __call__(self) -> ssl.SSLContext | None:
        if self._context is None and self._settings.test_certificate and not self._has_failed:
            self._context = self._self_signed()
            self._has_failed = self._context is None
        return self._context

    def _self_signed(self) -> ssl.SSLContext | None:
        """The context of the self-signed certificate, made if it is not there; None, and a line in the log, if not."""
        try:
            if not self._path.exists():
                make_directory(self._path.parent)
                replace_file(self._path, make_self_signed(), is_private=True)
                log.info("self-signed certificate made path=%s", self._path)
            return self._load(self._path, self._path, None)
        except (ImportError, OSError, SettingsError) as error:
            log.error("no TLS path=%s cause=%s; name a certificate of your own", self._path, error)
            return None

    def _load(self, certificate: Path, key: Path, password: str | None) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        place: Path | str = certificate
        try:
            # A password is always given: without one, OpenSSL would ask for it at the terminal.
            context.load_cert_chain(certificate, key, password or "")
            if self._settings.client_authorities:
                place = self._settings.client_authorities
                context.load_verify_locations(place)
                is_required = self._settings.require_client_certificate
                context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            cause = getattr(error, "strerror", None) or error
            raise SettingsError(f"TLS cannot use {place} (key {key}): {cause}; PEM files are expected") from error
        return context


def make_self_signed() -> bytes:
    """A new key and a certificate for it that nobody but its holder has signed, as one PEM text."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())  # what every Java since 7 and every Go knows
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "EmberMQ, self-signed")])
    names: list[x509.GeneralName] = [x509.DNSName("localhost")]
    names += [x509.IPAddress(ip_address(address)) for address in ("127.0.0.1", "::1")]
    with suppress(ValueError, OSError):  # a host name that no certificate can have
        names.append(x509.DNSName(socket.gethostname()))
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # clocks differ
        .not_valid_after(now + timedelta(days=365 * _YEARS))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + certificate.public_bytes(serialization.Encoding.PEM)
