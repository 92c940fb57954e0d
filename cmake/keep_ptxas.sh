#!/bin/sh
# keep_ptxas.sh FOLDER nvcc arguments...: compiles, and keeps what ptxas -v says (registers, spills) in FOLDER/<object>.ptxas; the rest of
# standard error is passed on. patchbay profile reads these files (docs/profiling.md).
folder=$1
shift
object=unknown
previous=
for argument in "$@"; do
  [ "$previous" = -o ] && object=$(basename "$argument")
  previous=$argument
done
mkdir -p "$folder"
words="$folder/$object.ptxas"
"$@" 2>"$words.all"
code=$?
pattern='ptxas info|bytes stack frame'
grep -E "$pattern" "$words.all" >"$words"
grep -Ev "$pattern" "$words.all" >&2
rm -f "$words.all"
exit $code
