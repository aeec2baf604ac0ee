#!/bin/sh
# Methods compared in the small world, three seeds each, from one and the same warm start. Each step goes on where it was stopped.
set -eu
hindsearch=$1
world=.cache/small-world
sh tools/small_world.sh "$hindsearch" "$2"
run() {
    "$hindsearch" train "$world/index" --tasks "$world/train.jsonl" --held-out "$world/test.jsonl" \
        --recipe examples/small_world/recipe.toml --settings examples/small_world/settings.toml "$@"
}

echo "Warm start: the format and copying, by imitation"
run --model "$world/model" --override steps=0 --out "$world/warm"
echo "Plays of the warm start, for experience"
run --model "$world/warm/model" --override imitation.steps=0 --override steps=1 --override rollout.tasks=300 \
    --override evaluation.every=0 --override schedule.peak=0.0 --out "$world/plays"
if ! [ -f "$world/experience.jsonl" ]; then
    "$hindsearch" experience build "$world/plays" --tasks "$world/train.jsonl" --rules --out "$world/experience.jsonl"
fi
"$hindsearch" ablate examples/small_world/sweep.toml --out "$world/methods"
