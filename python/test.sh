#!/bin/sh
# The client's tests with the real packages that it adapts to, in a virtual environment: `VENV`, or one that is removed after.
# Arguments go to pytest. `PYTHON` is the interpreter.
set -eu
cd "$(dirname "$0")"
if [ -z "${VENV:-}" ]; then
    VENV=$(mktemp -d)
    trap 'rm -rf "$VENV"' EXIT
fi
"${PYTHON:-python3}" -m venv "$VENV"
"$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --editable ".[test]"
"$VENV/bin/python" -m pytest -c pyproject.toml tests "$@"
