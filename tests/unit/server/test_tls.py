"""TLS over real sockets: with no files, with own ones, and with certificates on both sides."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from embermq.errors import SettingsError
from embermq.format.command import Command, decode_command, encode_command, make_answer, make_request
from embermq.format.frame import FrameLimits, split_frames
from embermq.model.message import Host
from embermq.net.connection import Connection
from embermq.net.server import Server, TlsMode, bind, host_of
from embermq.server.settings import TlsSettings
from embermq.server.tls import FILE_NAME, TlsContext
from tests.unit.server.certificates import Authority

WITHOUT_FILES = TlsSettings(test_certificate=True)


def trusting_anyone() -> ssl.SSLContext:
    """As RocketMQ's clients do by default."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def answer(connection: Connection, requests: Sequence[Command]) -> None:
    for request in requests:
        connection.send(make_answer(request, remark="here"))


async def ask(server: Host, context: ssl.SSLContext | None) -> str | None:
    """The remark of the server's answer; raises what a client sees that is not let in."""
    reader, writer = await asyncio.open_connection(server.address, server.port, ssl=context)
    try:
        writer.write(encode_command(make_request(105, {"topic": "t"})))
        frame = await asyncio.wait_for(reader.readuntil(b"}"), 10)
        while not (found := split_frames(frame, FrameLimits())[0]):
            chunk = await asyncio.wait_for(reader.read(4096), 10)
            assert chunk, "closed in the middle of an answer"
            frame += chunk
        return decode_command(found[0]).remark
    finally:
        writer.close()


async def ask_each(settings: TlsSettings, folder: Path, *contexts: ssl.SSLContext | None) -> list[str | None]:
    """What each of these clients gets from one server on one port."""
    server = Server(answer, tls_mode=settings.mode, tls_context=TlsContext(settings, folder=folder))
    listener = bind(Host("127.0.0.1", 0))
    server.start(listener)
    try:
        return [await ask(host_of(listener), context) for context in contexts]
    finally:
        await server.stop()


def test_with_no_files_plain_and_tls_share_a_port_and_the_certificate_stays(tmp_path: Path) -> None:
    context = trusting_anyone()
    assert asyncio.run(ask_each(WITHOUT_FILES, tmp_path, None, context, None)) == ["here"] * 3
    path = tmp_path / FILE_NAME
    first = path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600
    assert asyncio.run(ask_each(WITHOUT_FILES, tmp_path, context)) == ["here"]
    assert path.read_bytes() == first


def test_plain_connections_make_no_certificate(tmp_path: Path) -> None:
    assert asyncio.run(ask_each(WITHOUT_FILES, tmp_path, None)) == ["here"]
    assert list(tmp_path.iterdir()) == []


def test_who_trusts_the_self_signed_certificate_can_verify_it(tmp_path: Path) -> None:
    TlsContext(WITHOUT_FILES, folder=tmp_path)()
    context = ssl.create_default_context(cafile=str(tmp_path / FILE_NAME))
    assert asyncio.run(ask_each(WITHOUT_FILES, tmp_path, context)) == ["here"]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_present_versions_of_tls_are_spoken(version: ssl.TLSVersion, tmp_path: Path) -> None:
    context = trusting_anyone()
    context.minimum_version = context.maximum_version = version
    assert asyncio.run(ask_each(WITHOUT_FILES, tmp_path, context)) == ["here"]


# What Java 8 and later offer first for a key on this curve.
@pytest.mark.parametrize("cipher", ["ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-AES128-GCM-SHA256"])
def test_the_ciphers_of_java_are_taken(cipher: str, tmp_path: Path) -> None:
    context = trusting_anyone()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(cipher)
    assert asyncio.run(ask_each(WITHOUT_FILES, tmp_path, context)) == ["here"]


def test_older_versions_are_refused(tmp_path: Path) -> None:
    assert TlsContext(WITHOUT_FILES, folder=tmp_path)().minimum_version is ssl.TLSVersion.TLSv1_2  # type: ignore[union-attr]


def test_enforcing_refuses_plain_connections(tmp_path: Path) -> None:
    settings = TlsSettings(mode=TlsMode.ENFORCING, test_certificate=True)
    assert asyncio.run(ask_each(settings, tmp_path, trusting_anyone())) == ["here"]
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        asyncio.run(ask_each(settings, tmp_path, None))


@pytest.mark.parametrize("settings", [TlsSettings(mode=TlsMode.DISABLED), TlsSettings(test_certificate=False)])
def test_without_tls_who_wants_it_is_refused_and_others_are_not(settings: TlsSettings, tmp_path: Path) -> None:
    assert asyncio.run(ask_each(settings, tmp_path, None)) == ["here"]
    with pytest.raises((ssl.SSLError, ConnectionError)):
        asyncio.run(ask_each(settings, tmp_path, trusting_anyone()))


@pytest.mark.parametrize("password", [None, "opens it"])
def test_an_own_certificate_proves_who_the_server_is(password: str | None, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server", password=password)
    settings = TlsSettings(certificate=str(certificate), key=str(key), key_password=password)
    trusting = ssl.create_default_context(cafile=str(authority.path))
    assert asyncio.run(ask_each(settings, tmp_path, trusting)) == ["here"]
    assert not (tmp_path / FILE_NAME).exists()
    with pytest.raises(ssl.SSLCertVerificationError):
        asyncio.run(ask_each(settings, tmp_path, ssl.create_default_context()))


def test_clients_prove_who_they_are_when_they_must(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "strangers")
    certificate, key = authority.issue("server")
    settings = TlsSettings(
        certificate=str(certificate),
        key=str(key),
        client_authorities=str(authority.path),
        require_client_certificate=True,
    )
    known, unknown = trusting_anyone(), trusting_anyone()
    known.load_cert_chain(*authority.issue("client"))
    unknown.load_cert_chain(*stranger.issue("stranger"))
    assert asyncio.run(ask_each(settings, tmp_path, known)) == ["here"]
    for context in (trusting_anyone(), unknown):
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            asyncio.run(ask_each(settings, tmp_path, context))


def test_files_that_cannot_be_used_are_told_at_start(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = map(str, authority.issue("server"))
    _, others_key = map(str, authority.issue("other"))
    sealed = map(str, authority.issue("sealed", password="secret"))
    wrong = [
        TlsSettings(certificate=str(tmp_path / "missing"), key=key),
        TlsSettings(certificate=key, key=key),
        TlsSettings(certificate=certificate, key=others_key),
        TlsSettings(**dict(zip(("certificate", "key"), sealed, strict=True))),
        TlsSettings(certificate=certificate, key=key, client_authorities=key),
        TlsSettings(certificate=certificate, key=key, require_client_certificate=True),
        TlsSettings(mode=TlsMode.ENFORCING, test_certificate=False),
    ]
    for settings in wrong:
        with pytest.raises(SettingsError, match="TLS"):
            TlsContext(settings, folder=tmp_path)


def test_a_folder_that_cannot_be_written_refuses_tls_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    context = TlsContext(WITHOUT_FILES, folder=tmp_path / "file")
    assert context() is None
    assert context() is None
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_the_library_for_certificates_is_imported_only_when_one_is_made(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from embermq.server.tls import TlsContext; "
        "from embermq.server.settings import TlsSettings; "
        f"context = TlsContext(TlsSettings(test_certificate=True), folder=Path({str(tmp_path)!r})); "
        "print('cryptography' in sys.modules); assert context(); print('cryptography' in sys.modules)"
    )
    seen = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
        for _ in range(2)
    ]
    assert seen == [["False", "True"], ["False", "False"]]
