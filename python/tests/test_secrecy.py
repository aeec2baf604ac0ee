"""A token is sent to the server and shown nowhere."""

import logging
import traceback

import fake as faults
import pytest

import hindsearch

TOKEN = "s3cr3t-t0k3n"


def shown(error):
    told = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return told + repr(error) + str(error) + repr(vars(error)) + repr(error.args)


def test_the_token_is_sent(connect, fake):
    fake.token = TOKEN
    assert connect(fake.url, token=TOKEN).search("radium")


@pytest.mark.parametrize("token", [None, "wrong"])
def test_without_it_the_server_refuses(connect, fake, token):
    fake.token = TOKEN
    with pytest.raises(hindsearch.Unauthorized) as caught:
        connect(fake.url, token=token).search("radium")
    assert caught.value.status == 401


def test_no_representation_shows_it(connect, fake):
    client = connect(fake.url, token=TOKEN)
    assert TOKEN not in repr(client)
    assert TOKEN not in repr(vars(getattr(client, "inner", client)))


def echo(code):
    def fault(handler, body):
        handler.reply(code, f"Authorization: {handler.headers['Authorization']}".encode())

    return fault


@pytest.mark.parametrize("fault", [echo(200), echo(400), echo(500), echo(302), faults.reset, faults.not_http, faults.hang])
def test_no_error_shows_it_even_where_the_server_echoes_it(connect, fake, fault, caplog):
    caplog.set_level(logging.DEBUG)
    fake.faults = [fault] * 9
    with pytest.raises(hindsearch.HindsearchError) as caught:
        connect(fake.url, token=TOKEN, timeout=1, retries=1).search("radium")
    assert TOKEN not in shown(caught.value)
    assert TOKEN not in caplog.text


def test_a_token_that_cannot_be_sent_is_refused_unseen(connect):
    with pytest.raises(hindsearch.InvalidInput) as caught:
        connect("http://127.0.0.1:1", token=TOKEN + "\r\nX-Injected: 1")
    assert TOKEN not in str(caught.value)


def test_a_password_in_the_url_is_refused_unseen(connect):
    with pytest.raises(hindsearch.InvalidInput) as caught:
        connect(f"http://user:{TOKEN}@127.0.0.1:1")
    assert TOKEN not in str(caught.value)
