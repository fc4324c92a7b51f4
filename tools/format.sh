#!/usr/bin/env bash
# Lay out all C files as .clang-format says.
#
# usage: format.sh [--check]     --check: change nothing, list the files that differ; the last line is "N passed, N failed"
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t files < <(find src include cli examples test -name '*.[ch]' | sort)
if [ "${1:-}" != --check ]; then
	clang-format -i "${files[@]}"
	exit
fi
failed=0
for file in "${files[@]}"; do
	if ! clang-format "$file" | cmp -s - "$file"; then
		echo "$file: not laid out as .clang-format says (tools/format.sh does it)"
		failed=$((failed + 1))
	fi
done
echo "$((${#files[@]} - failed)) passed, $failed failed"
[ "$failed" -eq 0 ]
