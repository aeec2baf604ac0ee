"""OpenEnv: the program's own sessions, and our environment under its server, played by our client and by its generic one."""

import asyncio
import socket
import threading
import time

import play
import uvicorn
from openenv import GenericEnvClient
from openenv.core.env_server import create_fastapi_app

from hindsearch.adapters.openenv import SearchAction, SearchClient, SearchEnvironment, SearchObservation

URL = play.server()
app = create_fastapi_app(SearchEnvironment, SearchAction, SearchObservation, max_concurrent_envs=64)
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True).start()
while not server.started:
    time.sleep(0.05)
BASE = f"http://127.0.0.1:{listener.getsockname()[1]}"


async def episode(base, client, number, action, text_of):
    async with client(base_url=base) as session:
        result = await session.reset(task={"question": play.QUESTIONS[number], "golden_answers": play.GOLDS[number]}, seed=number)
        seen = text_of(result.observation)
        while not result.done:
            text = play.reply(seen)
            result = await session.step(action(text))
            seen += text + text_of(result.observation)
        return result.reward


async def main():
    for client, action, text_of in [
        (SearchClient, lambda text: SearchAction(text=text), lambda observation: observation.text),
        (GenericEnvClient, lambda text: {"text": text}, lambda observation: observation["text"]),
    ]:
        for what, base in (("the program's sessions", f"{URL}/openenv"), ("our environment", BASE)):
            played = await asyncio.gather(*(episode(base, client, number, action, text_of) for number in range(64)))
            play.same(f"openenv, {client.__name__}, {what}", played, URL)


asyncio.run(main())
with SearchClient(base_url=BASE).sync() as session:
    assert session.reset(seed=1).observation.text
    assert session.step(SearchAction(text="<answer>nobody</answer>")).done
