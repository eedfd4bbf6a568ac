#!/usr/bin/env bash
# Unpacks into DIR, and installs nowhere, what the C++ runners and their tests are compiled with on Debian: headers of ONNX
# Runtime, xtensor and nlohmann-json as Debian 13 has them, and, where there is no clang++, clang and clang++ of the Debian
# that this runs on.
#   export/posenc_export/write/cpp/runner/fetch.sh DIR && export CMAKE_PREFIX_PATH=DIR/usr PATH=$PATH:DIR/usr/bin
set -euo pipefail
into=$(realpath -m "$1")
mkdir -p "$into"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .

# Debian 13's packages, from the mirror that this machine uses, without touching its own lists.
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Origin: Debian' | grep '/debian$\|/debian/$' | head -n 1)
mkdir -p lists/partial cache
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" > trixie.list
trixie=(-o "Dir::Etc::sourcelist=$work/trixie.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work/cache")
apt-get "${trixie[@]}" -qq update
apt-get "${trixie[@]}" -qq download libonnxruntime-dev libxtensor-dev xtl-dev nlohmann-json3-dev

if ! command -v clang++ > /dev/null; then
  clang=$(apt-cache depends clang | sed -n 's/.*Depends: \(clang-[0-9]*\)$/\1/p')
  version=${clang#clang-}
  apt-get -qq download "$clang" "libclang-common-$version-dev" "libclang-cpp$version" "libllvm$version"
fi
for package in *.deb; do dpkg -x "$package" "$into"; done
if [ -n "${version-}" ]; then
  for name in clang clang++; do ln -sf "$name-$version" "$into/usr/bin/$name"; done
fi
