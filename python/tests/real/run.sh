#!/bin/sh
# Plays 64 episodes through a trainer's own loop, with the real package: `sh python/tests/real/run.sh NAME`.
#
# NAME is skyrl_gym, gymnasium, verifiers, trl, trl_hindsearch, verl, skyrl, openrlhf, tinker, gem, areal or openenv. Packages go into a virtual
# environment of their own, `VENV` or `.cache/real/NAME`, which is kept; where `VENV` is given, what it has is used as it is.
# `PYTHON` is a Python 3.12. The server is `target/debug/hindsearch` with the index `.cache/example`, which `make examples` makes;
# `REAL_PROGRAM` and `REAL_INDEX` name others, `SEARCH_ENV_URL` a server that runs already.
#
# slime, ROLL and NeMo RL are on no package registry; their adapters are tested against their base classes in `test_adapters.py`.
set -eu
NAME=${1:?"the name of a package: see this file"}
shift
HERE=$(cd "$(dirname "$0")" && pwd)
ROOT=$(cd "$HERE/../../.." && pwd)
if [ -z "${VENV:-}" ]; then
    VENV="$ROOT/.cache/real/$NAME"
    # Where a package wants all of CUDA, or pins that nothing else can live with, its dependencies are named here.
    case $NAME in
        skyrl_gym) FULL="skyrl-gym" BARE="" ;;
        gymnasium) FULL="gymnasium" BARE="" ;;
        verifiers) FULL="verifiers uv" BARE="" ;;
        openenv) FULL="fastapi pydantic uvicorn requests typer rich pyyaml huggingface_hub openai tomli tomli-w websockets httpx" BARE="openenv" ;;
        gem) FULL="nltk==3.9.1 math-verify[antlr4_13_2] reasoning-gym==0.1.23 msgspec==0.19.0 requests" BARE="gem-llm" ;;
        areal) FULL="openai httpx" BARE="" ;;
        trl | trl_hindsearch) FULL="torch transformers>=5.5.3,<5.11,!=5.6.0 datasets>=4.7 jinja2 jmespath accelerate trl" BARE="" ;;
        skyrl) FULL="torch transformers>=5.5.3,<5.11,!=5.6.0 loguru ray>=2.41 skyrl-gym uvicorn fastapi orjson cloudpathlib func-timeout hydra-core pillow tensordict jmespath datasets" BARE="skyrl" ;;
        verl) FULL="torch transformers>=5.5.3,<5.11,!=5.6.0 datasets>=4.7 ray>=2.41 hydra-core codetiming dill pybind11 pylatexenc pyvers cloudpickle pillow cachetools uvicorn fastapi aiohttp pandas pyarrow jmespath accelerate peft torchdata trl" BARE="verl tensordict>=0.8,<=0.10,!=0.9.0" ;;
        openrlhf) FULL="torch transformers>=5.5.3,<5.11,!=5.6.0 aiohttp ray>=2.41 pylatexenc" BARE="openrlhf" ;;
        tinker) FULL="torch transformers>=5.5.3,<5.11,!=5.6.0 chz sniffio distro httpx pydantic anyio pillow datasets aiohttp" BARE="tinker tinker-cookbook" ;;
        *) echo "run.sh: no package \`$NAME\`: see the file" >&2; exit 2 ;;
    esac
    "${PYTHON:-python3.12}" -m venv "$VENV"
    PIP="$VENV/bin/python -m pip install --quiet --disable-pip-version-check"
    $PIP $FULL
    if [ -n "$BARE" ]; then
        # gem-llm refuses 3.12.1 and later, and works there.
        $PIP --no-deps --ignore-requires-python $BARE
    fi
fi
[ -f "$ROOT/python/src/hindsearch/_core.abi3.so" ] || sh "$ROOT/python/build.sh"
# verifiers' harnesses want `uv` on the path.
PATH="$VENV/bin:$PATH" PYTHONPATH="$ROOT/python/src" exec "$VENV/bin/python" "$HERE/run_$NAME.py" "$@"
