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
if ! [ -d "$world/model" ]; then
    echo "Making a model that knows nothing, and questions about the sample corpus"
    "$small_world" "$index" "$world"
fi

"$hindsearch" train "$index" --model "$world/model" --tasks "$world/train.jsonl" --held-out "$world/test.jsonl" \
    --recipe examples/small_world/recipe.toml --settings examples/small_world/settings.toml --out "$world/run"

cat <<NEXT

Go on:
  $hindsearch view $world/run                      # what the last step's episodes were
  tensorboard --logdir $world/run
  $world/run/curve.svg                             # the curve, for a browser
NEXT
