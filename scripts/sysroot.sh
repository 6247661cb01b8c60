#!/usr/bin/env bash
# Unpacks Debian packages of another architecture, and all that they need, into a folder, for compilers that get it as
# --sysroot: sysroot.sh ARCHITECTURE FOLDER PACKAGE ... Packages of this machine stay as they are.
set -euo pipefail
architecture=$1
folder=$2
shift 2
[[ -f $folder/packages ]] && [[ $(<"$folder/packages") == "$*" ]] && exit
rm -rf "$folder"
mkdir -p "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial"
folder=$(realpath "$folder")
: >"$folder/apt/status"
# The sources and keys are those of the machine, the rest is the folder's own.
cat >"$folder/apt/apt.conf" <<CONFIGURATION
APT::Architecture "$architecture";
APT::Architectures { "$architecture"; };
APT::Sandbox::User "root";
Dir::State "$folder/apt";
Dir::State::lists "$folder/apt/lists";
Dir::State::status "$folder/apt/status";
Dir::Cache "$folder/apt/cache";
CONFIGURATION
export APT_CONFIG=$folder/apt/apt.conf
apt-get update -qq
apt-get install -qq -y --no-install-recommends --download-only "$@" >/dev/null
for package in "$folder"/apt/cache/archives/*.deb; do dpkg-deb --extract "$package" "$folder"; done
rm -r "$folder/apt"
echo "$*" >"$folder/packages"
