#!/bin/sh
# The package's tests, with the real packages of its LangChain and LlamaIndex retrievers, in a virtual environment: `VENV`, or one
# that is removed after. Arguments go to pytest. `PYTHON` is the interpreter, `BUILD` what the core is built with beside itself.
set -eu
cd "$(dirname "$0")"
if [ -z "${VENV:-}" ]; then
    VENV=$(mktemp -d)
    trap 'rm -rf "$VENV"' EXIT
fi
sh build.sh ${BUILD:-}
"${PYTHON:-python3}" -m venv "$VENV"
"$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --requirement tests/requirements.txt
PYTHONPATH="$PWD/src" "$VENV/bin/python" -m pytest -c pyproject.toml tests "$@"
