#!/bin/sh
# Asks a running server whatever its own description allows, and some that it does not: no answer may be a 500, or one that
# the description does not have. Needs schemathesis (`pip install schemathesis`).
#
#   target/release/hindsearch serve INDEX --port 8000 --no-access-log &
#   tools/fuzz_api.sh http://127.0.0.1:8000 [EXAMPLES]
#
# EXAMPLES is per route and method; 50 give some thousand requests. Bodies of MessagePack cannot be generated from a schema:
# the routes that want them are left out here, and asked by the tests of the server.
# Every request gets a minute, as 504 is the right answer to one that gives the server a millisecond.
set -eu
address=${1:?expected the address of a server, such as http://127.0.0.1:8000}
examples=${2:-50}
exec schemathesis run "$address/openapi.json" \
    --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance \
    --exclude-path-regex '^/dialect/gem/retrieve$' \
    --header 'X-Request-Timeout-Ms: 60000' \
    --phases examples,coverage,fuzzing \
    --max-examples "$examples" \
    --mode all \
    --seed 1
