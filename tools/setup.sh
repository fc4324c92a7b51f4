#!/usr/bin/env bash
# Install the system packages that building and testing need, where they are missing. Says what it does; silent where all is there.
#
# usage: setup.sh [--check]      --check: only tell what is missing (exit code 1)
set -euo pipefail

# Debian package | what shows that it is there: a command, a header, a library, a file
needs="
gcc|command gcc
libc6-dev|header stdio.h
cmake|command cmake
ninja-build|command ninja
libxxhash-dev|header xxhash.h
libhwloc-dev|header hwloc.h
libcmocka-dev|header cmocka.h
libjansson-dev|header jansson.h
libstb-dev|header stb/stb_image.h
python3-venv|python ensurepip
pkg-config|command pkg-config
ccache|command ccache
clang-format|command clang-format
ocl-icd-libopencl1|library libOpenCL.so.1
pocl-opencl-icd|file /etc/OpenCL/vendors/pocl.icd
"

present() {
	case "$1" in
		command) command -v "$2" >/dev/null 2>&1 ;;
		library) { ldconfig -p 2>/dev/null || /sbin/ldconfig -p; } | grep -q "$2" ;;
		file) [ -e "$2" ] ;;
		python) command -v python3 >/dev/null 2>&1 && python3 -c "import $2, venv" >/dev/null 2>&1 ;;
		header)
			local folder
			for folder in /usr/include /usr/local/include "/usr/include/$(uname -m)-linux-gnu"; do
				[ -e "$folder/$2" ] && return 0
			done
			return 1
			;;
	esac
}

missing=()
while IFS='|' read -r package test; do
	[ -n "$package" ] || continue
	# shellcheck disable=SC2086
	present $test || missing+=("$package")
done <<<"$needs"

[ ${#missing[@]} -gt 0 ] || exit 0
echo "setup: missing: ${missing[*]}"
[ "${1:-}" != --check ] || exit 1

if ! command -v apt-get >/dev/null 2>&1; then
	echo "setup: this is not Debian or Ubuntu; please install what the packages above are called here" >&2
	exit 1
fi
run=()
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null 2>&1; then
		echo "setup: please run as root: apt-get install ${missing[*]}" >&2
		exit 1
	fi
	run=(sudo)
fi
echo "setup: installing them with apt-get"
export DEBIAN_FRONTEND=noninteractive
"${run[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}" >/dev/null 2>&1 || {
	"${run[@]}" apt-get update -q
	"${run[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}"
}
echo "setup: done"
