#!/bin/sh
# Fails where a commit's title has 70 characters or more. Commits before this rule was checked are left as they are.
set -eu

cd "$(dirname "$0")/.."
long=$(git log --no-merges --since=2026-11-30 --format='%h %s' | awk '{ title = substr($0, index($0, " ") + 1) } length(title) >= 70')
[ -z "$long" ] || { printf 'commit-titles.sh: titles of 70 characters or more; shorten them by git rebase:\n%s\n' "$long" >&2; exit 1; }
