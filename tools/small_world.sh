#!/bin/sh
# Makes the small world in .cache/small-world: a corpus of made-up pages with its index, questions, episodes to imitate, and a model that
# knows nothing. What is there already is kept.
set -eu
hindsearch=$1
small_world=$2
world=.cache/small-world

if ! "$hindsearch" verify "$world/index" --quick >/dev/null 2>&1; then
    "$small_world" corpus "$world"
    echo "Building an index of it"
    "$hindsearch" build "$world/corpus.jsonl" --out "$world/index"
fi
if ! [ -d "$world/model" ]; then
    echo "Making questions, episodes to imitate, and a model that knows nothing"
    "$small_world" tasks "$world"
    rm -f "$world/lessons.jsonl"
    "$hindsearch" experience build "$world/plays.jsonl" --tasks "$world/train.jsonl" --rules --out "$world/lessons.jsonl"
    "$small_world" warmup "$world"
fi
