#!/bin/sh
# A small language model learns to search: from nothing, by imitation and then by reward, on the sample corpus.
set -eu
hindsearch=$1
small_world=$2
index=.cache/sample
world=.cache/small-world

if ! "$hindsearch" verify "$index" --quick >/dev/null 2>&1; then
    echo "Building an index of the sample corpus (581 passages)"
    "$hindsearch" build examples/data/corpus.jsonl --out "$index"
fi
[ -d "$world/model" ] || "$small_world" examples/data/corpus.jsonl "$world"

"$hindsearch" train "$index" --model "$world/model" --tasks "$world/train.jsonl" --held-out "$world/test.jsonl" \
    --preset "$world/recipe.toml" --settings examples/small_world.toml --out "$world/run"

cat <<NEXT

Go on:
  $hindsearch view $world/run                      # what the last step's episodes were
  tensorboard --logdir $world/run
  open $world/run/curve.svg                        # in a browser
NEXT
