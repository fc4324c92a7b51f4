#!/usr/bin/env bash
# Fetch the PP-OCR models where they are missing and read the text off a picture with them, as `make demo` does.
#
# usage: demo.sh BUILD [OPTION]... [PICTURE]      options: those of the program, --tsv, --threads N, --no-cache
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
if [ $# -lt 1 ]; then
	sed -n '2,4s/^# \{0,1\}//p' "$0" >&2
	exit 2
fi
build=$1
shift
picture=$root/test/data/ocr.png
options=()
while [ $# -gt 0 ]; do
	case "$1" in
		--threads)
			options+=("$1" "${2:-}")
			shift $(($# > 1))
			;;
		-*) options+=("$1") ;;
		*) picture=$1 ;;
	esac
	shift
done
if [ ! -x "$build/example_ocr" ]; then
	echo "demo.sh: there is no $build/example_ocr; \`make build\` makes it" >&2
	exit 1
fi

# The fetcher needs pip alone: the tests' environment where there is one, else a bare one.
python=${TILEWRIGHT_VENV:-$root/.venv}/bin/python
if ! "$python" -c 'import pip' 2>/dev/null; then
	python=$build/venv/bin/python
	[ -x "$python" ] || python3 -m venv "$build/venv"
fi
list=$("$python" "$root/tools/models.py" ocr)
mapfile -t models < <(cut -d ' ' -f 2- <<<"$list") # detection, direction, recognition
[ "$PWD" != "$root" ] || picture=${picture#"$root"/}
exec "$build/example_ocr" "${options[@]}" "$picture" "${models[@]}"
