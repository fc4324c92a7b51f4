#!/usr/bin/env bash
# Make the Python environment of the tests: .venv in the repository's root (or TILEWRIGHT_VENV), with pinned packages.
#
# usage: venv.sh [--models]
#
# --models adds what exporting the benchmark networks needs (torch for the CPU, about 600 MB to fetch).
# Returns at once where the environment is complete: a stamp holds the requirement files it was made from.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
venv=${TILEWRIGHT_VENV:-$root/.venv}
base=$root/tools/requirements.txt
models=$root/tools/requirements-models.txt

pip() { "$venv/bin/python" -m pip --quiet --disable-pip-version-check install "$@"; }

# up_to_date STAMP FILE...: whether STAMP holds what the files hold
up_to_date() { [ -f "$1" ] && cmp -s "$1" <(cat "${@:2}"); }

case "${1:-}" in
	"" | --models) ;;
	*)
		sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
		exit 2
		;;
esac

if ! "$venv/bin/python" -c 'import pip' 2>/dev/null; then
	if ! "${PYTHON:-python3}" -c 'import ensurepip, venv' 2>/dev/null; then
		echo "venv.sh: needs Python 3 with its venv module (Debian: apt-get install python3-venv)" >&2
		exit 1
	fi
	"${PYTHON:-python3}" -m venv --clear "$venv"
fi

if ! up_to_date "$venv/.stamp" "$base"; then
	rm -f "$venv/.stamp"
	pip -r "$base"
	cp "$base" "$venv/.stamp"
fi

if [ "${1:-}" = --models ] && ! up_to_date "$venv/.stamp-models" "$base" "$models"; then
	rm -f "$venv/.stamp-models"
	pip -r "$base" -r <(grep -v '^torch' "$models")
	# shellcheck disable=SC2046
	pip --no-deps $(grep '^torch' "$models")
	"$venv/bin/python" "$root/tools/torch_stubs.py"
	"$venv/bin/python" -c 'import torch, torchvision, onnxscript'
	cat "$base" "$models" >"$venv/.stamp-models"
fi
