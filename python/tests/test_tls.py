"""Both clients over TLS, with a certificate made for the test."""

import pickle
import ssl
import subprocess

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


def test_an_unknown_certificate_is_refused(connect, secure):
    with pytest.raises(hindsearch.Unavailable) as caught:
        connect(secure.url, retries=0, token="sesame").search("radium")
    assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)
    assert secure.requests == []
