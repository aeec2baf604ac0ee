"""For `bench_peers.py`: a taskset of verifiers whose search is a tool server that all episodes share, as in its own example."""

import httpx
import verifiers.v1 as vf


class Data(vf.TaskData):
    pass


class Task(vf.Task[Data]):
    @vf.reward(weight=1.0)
    async def right(self, trace: vf.Trace) -> float:
        return float("<answer>Marie Curie</answer>" in (trace.last_reply or ""))


class SearchConfig(vf.SharedToolsetConfig):
    search_url: str = ""


class Search(vf.Toolset[SearchConfig]):
    @vf.tool
    async def search(self, query: str) -> str:
        """Search the corpus."""
        async with httpx.AsyncClient() as client:
            body = {"queries": [query], "topk": 3}
            answer = await client.post(f"{self.config.search_url}/retrieve", json=body)
        return "\n\n".join(hit["contents"] for hit in answer.json()["result"][0])


class ToolTasksetConfig(vf.TasksetConfig):
    episodes: int = 32
    tools: SearchConfig = SearchConfig()


class ToolTaskset(vf.Taskset[Task, ToolTasksetConfig]):
    def load(self):
        for number in range(self.config.episodes):
            yield Task(Data(name=str(number), prompt=f"Who discovered radium? ({number})"), self.config.task)

    @classmethod
    def toolsets(cls, config):
        return [Search(config.tools)]


__all__ = ["ToolTaskset"]
if __name__ == "__main__":
    Search.run()
