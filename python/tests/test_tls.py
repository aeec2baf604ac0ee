"""Both clients over TLS, with a certificate made for the test."""

import contextlib
import pickle
import socket
import ssl
import subprocess
import threading
import time

import fake as faults
import pytest
from fake import FakeServer

import hindsearch


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("NOT RUN: openssl is not installed")
    return folder


@pytest.fixture
def secure(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    server = FakeServer(context)
    yield server
    server.stop()


def test_a_trusted_certificate_is_taken_and_its_connection_kept(connect, secure, certificate):
    client = connect(secure.url, ca_file=str(certificate / "cert.pem"), token="sesame")
    secure.token = "sesame"
    assert client.search(["radium"] * 3000) == client.search("radium") * 3000
    assert len(secure.connections) == 1


def test_failures_are_tried_again_over_tls_too(connect, secure, certificate):
    secure.faults = [faults.hang_up, faults.cut_short, faults.reset]
    assert connect(secure.url, ca_file=str(certificate / "cert.pem")).search("radium")


def test_the_setting_survives_pickling(secure, certificate):
    client = hindsearch.Client(secure.url, ca_file=str(certificate / "cert.pem"))
    assert pickle.loads(pickle.dumps(client)).search("radium") == client.search("radium")


def test_an_unknown_certificate_is_refused_at_once(connect, secure):
    client = connect(secure.url, retries=3, token="sesame")
    begun = time.monotonic()
    with pytest.raises(hindsearch.Unavailable) as caught:
        client.search("radium")
    assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)
    assert "tries" not in str(caught.value) and time.monotonic() - begun < 5
    assert secure.requests == []


def test_an_http_address_of_a_tls_port_is_told(connect):
    listener = socket.create_server(("127.0.0.1", 0))

    def alert():
        with contextlib.suppress(OSError):
            peer, _ = listener.accept()
            peer.recv(65536)
            peer.sendall(b"\x15\x03\x01\x00\x02\x02F\r\n\r\n")
            peer.close()

    threading.Thread(target=alert, daemon=True).start()
    with pytest.raises(hindsearch.Unavailable, match="https://") as caught:
        connect(f"http://127.0.0.1:{listener.getsockname()[1]}", retries=0, timeout=5).search("radium")
    assert str(caught.value).isprintable()
    listener.close()
