#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

# Makes all files of a release in a new folder, and checks them; see docs/releasing.md. A commit always gives the same bytes.
#
#   cmake/release.sh v0.5.0 FOLDER              of an annotated tag, which is checked out
#   cmake/release.sh --rehearse COMMIT FOLDER   of any commit, with the version that it has
#   cmake/release.sh --set-version 0.6.0-dev    only writes this version into the files that name it
#
# --without-site, before the others, leaves the site out.

set -euo pipefail
umask 022
export LC_ALL=C.UTF-8 TZ=UTC PYTHONDONTWRITEBYTECODE=1

# The folder of a server that will have the archives: a placeholder. README.md repeats it, and --set-version corrects it there.
address=https://example.org/shardwise

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)

fail() {
  echo "release: $*" >&2
  exit 1
}

# In the repository; tests/reference_pages.py compares the same files.
set_version() {
  local new=$1
  [[ $new =~ ^([0-9]+)\.([0-9]+)\.([0-9]+)(-dev)?$ ]] || fail "$new: a version is like 0.6.0 or 0.6.0-dev"
  local major=${BASH_REMATCH[1]} minor=${BASH_REMATCH[2]} patch=${BASH_REMATCH[3]}
  cd "$root"
  sed -i -e "s/\(VERSION_MAJOR\) .*/\1 $major/; s/\(VERSION_MINOR\) .*/\1 $minor/; s/\(VERSION_PATCH\) .*/\1 $patch/" \
    -e "s/\(VERSION\) \".*/\1 \"$new\"/" include/shardwise/version.hpp
  sed -i "s/^version: .*/version: $new/" CITATION.cff
  sed -i "s/\(\"version-string\": \)\"[^\"]*/\1\"$new/" cmake/packaging/vcpkg/vcpkg.json
  local distribution=unstable
  [[ $new != *-dev ]] || distribution=UNRELEASED
  sed -i -e "s/^\(shardwise (\).*;/\1${new/-/\~}-1) $distribution;/" -e "s/^\( -- .*>  \).*/\1$(date -R)/" \
    cmake/packaging/debian/changelog
  sed -i "s/\(find_package(shardwise \)[0-9.]*/\1$major.$minor/" README.md docs/learn/installing.md docs/reference/cmake.md
  sed -i "s|\(  URL \).*/shardwise-.*|\1$address/shardwise-${new%-dev}.tar.gz|" README.md
  if [[ $new != *-dev ]]; then
    sed -i "s/^## \[Unreleased\]$/## [$new] - $(date +%F)/" CHANGELOG.md
  elif ! grep -qF '## [Unreleased]' CHANGELOG.md; then
    sed -i '0,/^## \[/s//## [Unreleased]\n\n## [/' CHANGELOG.md
  fi
  python3 tests/reference_pages.py .
}

# The same bytes for the same files: pack FOLDER ARCHIVE.
pack() {
  tar -C "$1" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -c . | gzip -n >"$2"
}

# Beside the site's folder; the theme's header makes a menu of them. Of earlier tags, those that have this script have a site.
versions_of_site() {
  local tag
  {
    echo "$version"
    for tag in $(git -C "$root" tag --list 'v[0-9]*'); do
      if git -C "$root" cat-file -e "$tag:cmake/release.sh" 2>/dev/null &&
        (($(git -C "$root" log -1 --format=%ct "$tag") < SOURCE_DATE_EPOCH)); then
        echo "${tag#v}"
      fi
    done
  } | sort -urV | sed 's/.*/{"version": "&", "title": "&", "aliases": []}/' | paste -sd, | sed 's/.*/[&]/'
}

# An archive cannot have its own checksum. So a recipe of the repository builds a checkout, and has beside that, as a comment,
# the lines by which it builds an archive.
write_recipes() {
  local archive=$name.tar.gz file sha256 sha512
  sha256=$(sha256sum <"$out/$archive") sha512=$(sha512sum <"$out/$archive")
  sha256=${sha256%% *} sha512=${sha512%% *}
  mkdir "$out/recipes"
  cp -r "$tree/cmake/packaging/"{Containerfile,conan,spack,vcpkg} "$out/recipes"
  sed -n '/^include(FetchContent)/,/^FetchContent_MakeAvailable/p' "$tree/README.md" >"$out/recipes/fetch.cmake"
  for file in "$out/recipes/"{Containerfile,conan/conanfile.py,spack/package.py,vcpkg/portfile.cmake,fetch.cmake}; do
    sed -i -e '/^ *# checkout:/,/^ *# release:/d; s/^ *#|$//; s/#| //' \
      -e "s|$address/shardwise-.*gz|@URL@|; s|SHA256=…|SHA256=@SHA256@|" \
      -e "s|@URL@|$address/@ARCHIVE@|; s|@ARCHIVE@|$archive|g; s|@VERSION@|$version|" \
      -e "s|@SHA256@|$sha256|; s|@SHA512@|$sha512|" "$file"
    if ! grep -qF "$archive" "$file" || ! grep -qE "$sha256|$sha512" "$file"; then
      fail "${file#"$out/"} does not name $archive and its checksum"
    fi
  done
}

make_release() {
  local kind=$1 ref=$2 folder=$3 commit version name work out tree tool section
  for tool in git python3 dpkg-source; do
    command -v "$tool" >/dev/null || fail "no $tool here (Debian: git, python3, dpkg-dev)"
  done
  [[ ! -e $folder ]] || fail "$folder is there already"
  [[ $(git -C "$root" rev-parse --show-toplevel 2>/dev/null) == "$root" ]] || fail "$root is not a clone of the repository"
  [[ -z $(git -C "$root" status --porcelain) ]] || fail "the clone has changes: $(git -C "$root" status --porcelain | head -n 3)"
  commit=$(git -C "$root" rev-parse --quiet --verify "$ref^{commit}") || fail "$ref: no such tag or commit"
  version=$(git -C "$root" show "$commit:include/shardwise/version.hpp" | sed -n 's/^#define SHARDWISE_VERSION "\(.*\)"/\1/p')
  if [[ $kind == tag ]]; then
    [[ $(git -C "$root" cat-file -t "refs/tags/$ref" 2>/dev/null) == tag ]] || fail "$ref is not an annotated tag"
    [[ $version != *-dev && $ref == "v$version" ]] || fail "the tag $ref has the version $version (include/shardwise/version.hpp)"
    [[ $(git -C "$root" rev-parse HEAD) == "$commit" ]] || fail "check out $ref first"
  fi
  name=shardwise-$version
  SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct "$commit")
  export SOURCE_DATE_EPOCH
  work=$(mktemp -d)
  # shellcheck disable=SC2064  # this folder
  trap "rm -rf -- '$work'" EXIT
  out=$work/out tree=$work/$name
  mkdir -p "$out/debian"

  git -C "$root" -c tar.umask=0022 archive --format=tar --prefix="$name/" "$commit" | gzip -n >"$out/$name.tar.gz"
  tar -C "$work" -xzf "$out/$name.tar.gz"
  python3 "$tree/tests/reference_pages.py" "$tree" >"$work/log" || fail "versions differ in $ref:"$'\n'"$(cat "$work/log")"

  section=$version
  [[ $version != *-dev ]] || section=Unreleased
  awk -v heading="## [$section]" '/^## \[/ {inside = index($0, heading) == 1} inside' "$tree/CHANGELOG.md" >"$out/$name-notes.md"
  grep -q '^- ' "$out/$name-notes.md" || fail "CHANGELOG.md says nothing about $section"

  python3 "$tree/cmake/single_header/make.py" "$out/$name.hpp"

  cp -r "$tree/cmake/packaging/debian" "$tree/debian"
  ln "$out/$name.tar.gz" "$out/debian/shardwise_${version/-/\~}.orig.tar.gz"
  (cd "$out/debian" && dpkg-source --build "$tree") >"$work/log" 2>&1 || fail "dpkg-source:"$'\n'"$(cat "$work/log")"

  write_recipes
  if [[ $with_site == yes ]]; then
    mkdir "$work/site"
    versions_of_site >"$work/site/versions.json"
    python3 "$tree/cmake/site/make.py" "$work/site/$version" >"$work/log" || fail "no site was made; --without-site leaves it out"
    rm -r "$work/site/$version-work"
    pack "$work/site" "$out/$name-site.tar.gz"
  fi
  (cd "$out" && find . -type f -printf '%P\n' | sort | xargs sha256sum) >"$work/sums"
  mv "$work/sums" "$out/SHA256SUMS"
  mkdir -p "$(dirname -- "$folder")"
  mv "$out" "$folder"
  echo "release: $folder has Shardwise $version ($commit)"
}

with_site=yes
if [[ ${1:-} == --without-site ]]; then
  with_site=no
  shift
fi
case "${1:-} $#" in
--set-version\ 2) set_version "$2" ;;
--rehearse\ 3) make_release commit "$2" "$3" ;;
v*\ 2) make_release tag "$1" "$2" ;;
*)
  sed -n '/^# Makes/,/^$/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
  ;;
esac
