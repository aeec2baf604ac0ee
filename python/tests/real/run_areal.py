"""AReaL's contract, as `OpenAIProxyWorkflow` has it: a pickled object, `async run`, a plain `float`. It needs no AReaL."""

import asyncio
import inspect
import pickle

import httpx
import model_server
import play

from hindsearch.adapters.areal import SearchAgent

URL = play.server()


async def main():
    agent = pickle.loads(pickle.dumps(SearchAgent(url=URL, temperature=1.0)))
    assert inspect.iscoroutinefunction(agent.run)
    base_url = model_server.start(play.reply)
    async with httpx.AsyncClient() as http:
        rows = [{"question": question, "answer": golds} for question, golds in zip(play.QUESTIONS, play.GOLDS)]
        played = await asyncio.gather(*(agent.run(row, base_url=base_url, http_client=http, api_key="none") for row in rows))
    assert all(type(reward) is float for reward in played)
    play.same("areal", played, URL)


asyncio.run(main())
