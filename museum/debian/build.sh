#!/bin/sh
# Builds programs of Debian with planted errors: museum/debian/build.sh FOLDER EXHIBIT...
#
# Each source package comes from Debian 12 and is built twice: as it is (FOLDER/EXHIBIT/clean), and with the exhibit's error
# (FOLDER/EXHIBIT/planted, from FOLDER/EXHIBIT/source). The system's own package lists are left alone, and root is not needed.
set -eu

recipes=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift

apt() {
    apt-get -qq -o "Dir::Etc::sourcelist=$folder/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o "Dir::State::lists=$folder/apt/lists" -o "Dir::Cache=$folder/apt/cache" -o Dir::State::status=/dev/null \
        -o "APT::Sandbox::User=$(id -un)" "$@"
}

list_sources() {
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    mkdir -p "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial"
    echo "deb-src [signed-by=$keyring] http://deb.debian.org/debian bookworm main" >"$folder/apt/sources.list"
    apt update
}

# The recipe says: package, program (what is built), source (where the error goes), build() and plant().
make_exhibit() {
    . "$recipes/$1/recipe.sh"
    here=$folder/$1
    mkdir -p "$here/source"
    cd "$here"
    apt source --download-only --tar-only "$package"
    tar -xf ./*.orig.tar.* -C source --strip-components=1
    cd source
    build
    cp "$program" "$here/clean"
    plant
    grep -q '/\* mark: guilty \*/' "$source" || { echo "$1: the error does not fit into $source" >&2; exit 1; }
    build
    cp "$program" "$here/planted"
}

list_sources
builds=
for exhibit; do
    (make_exhibit "$exhibit") >"$folder/$exhibit.log" 2>&1 &
    builds="$builds $exhibit:$!"
done
for started in $builds; do
    wait "${started#*:}" || { cat "$folder/${started%:*}.log" >&2; exit 1; }
done
rm -r "$folder/apt"
