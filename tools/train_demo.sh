#!/bin/sh
# A small language model learns to search: from nothing, by imitation and then by reward, in a closed world of made-up pages.
set -eu
hindsearch=$1
world=.cache/small-world
sh tools/small_world.sh "$hindsearch" "$2"

"$hindsearch" train "$world/index" --model "$world/model" --tasks "$world/train.jsonl" --held-out "$world/test.jsonl" \
    --recipe examples/small_world/recipe.toml --settings examples/small_world/settings.toml --out "$world/run"

cat <<NEXT

Go on:
  $hindsearch view $world/run                      # what the last step's episodes were
  tensorboard --logdir $world/run
  $world/run/curve.svg                             # the curve, for a browser
  make methods                                     # compare methods of training here
NEXT
