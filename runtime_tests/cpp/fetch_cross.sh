#!/usr/bin/env bash
# Unpacks into DIR, and installs nowhere, what the tests of headers on aarch64 are built and run with on Debian.
#   runtime_tests/cpp/fetch_cross.sh DIR && export PATH=$PATH:DIR/usr/bin LD_LIBRARY_PATH=DIR/usr/lib/x86_64-linux-gnu
set -euo pipefail
into=$(realpath -m "$1")
mkdir -p "$into"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
gcc=$(apt-cache depends gcc-aarch64-linux-gnu | sed -n 's/.*Depends: gcc-\([0-9]*\)-aarch64-linux-gnu$/\1/p')
apt-get -qq download {gcc,g++}-aarch64-linux-gnu {gcc,g++,cpp}-"$gcc"-aarch64-linux-gnu binutils-aarch64-linux-gnu \
  libc6-arm64-cross libc6-dev-arm64-cross linux-libc-dev-arm64-cross libgcc-s1-arm64-cross \
  "libgcc-$gcc-dev-arm64-cross" libstdc++6-arm64-cross "libstdc++-$gcc-dev-arm64-cross" qemu-user-static
for package in *.deb; do dpkg -x "$package" "$into"; done
