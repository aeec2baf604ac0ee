"""Makes the golden files of the reward scorers, in the folder that holds this package:

    python3 -m make_scorers CHECKOUTS [OUT]

CHECKOUTS is a folder with one checkout for each entry of `loading.SOURCES`, named
`owner+name@commit7` (first seven digits of the commit). OUT is the folder for
the JSON files; the default is `scorers` beside this package. The scorers are
imported from the checkouts and fed the cases of `answers` and `responses`; what
they answer is written down. There is no reference code here. Needs numpy,
pydantic, openai, regex.
"""

import json
import types

from .asearcher import make_asearcher
from .flashrag import make_f1
from .loading import stub
from .nemo_gym import make_nemo_gym
from .normalisation import make_normalisation
from .r1_searcher import make_r1_searcher
from .research import make_research
from .rllm import make_rllm
from .running import OUT
from .search_o1 import make_search_o1
from .search_r1 import make_autorefine, make_search_r1, make_slime, make_zerosearch
from .skyrl import make_skyrl
from .tinker import make_tinker
from .verl import make_verl, make_verl_tool


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    steps = [make_normalisation, make_search_r1, make_verl, make_skyrl, make_research, make_r1_searcher, make_asearcher, make_autorefine]
    steps += [make_slime, make_zerosearch, make_search_o1, make_rllm, make_tinker, make_f1, make_nemo_gym, make_verl_tool]
    # The server modules of R1-Searcher need their stubs before the normalisers.
    for name in ("uvicorn", "datasets", "transformers", "fastapi", "fastapi.responses", "openrlhf.utils", "jsonlines"):
        stub(name)
    stub("openrlhf.utils.logging_utils", init_logger=lambda name: types.SimpleNamespace(info=lambda *a: None))
    stub("ujson", dumps=json.dumps)
    for step in steps:
        step()


main()
