#!/bin/sh
# Builds the sample index once and asks it three questions.
set -eu
hindsearch=$1
index=.cache/sample

if ! "$hindsearch" verify "$index" --quick >/dev/null 2>&1; then
    echo "Building an index of the sample corpus (581 passages)"
    "$hindsearch" build examples/data/corpus.jsonl --out "$index"
fi

"$hindsearch" search "$index" --top-k 3 \
    "Who discovered radium?" \
    "Which river flows through Vienna and Budapest?" \
    "Who directed the first film version of Solaris?"

cat <<NEXT

Go on:
  $hindsearch serve $index                         # then open http://127.0.0.1:8000
  $hindsearch search $index "your question"
  $hindsearch eval retrieval $index --questions examples/data/questions.jsonl
  $hindsearch build YOUR-CORPUS.jsonl --out your-index      # wiki-18, BEIR, DPR, MS MARCO, Parquet, Arrow
  $hindsearch build YOUR-CORPUS.jsonl --out your-index --dry-run
  $hindsearch doctor
  cargo install --locked --path .                            # puts \`hindsearch\` on your path
NEXT
