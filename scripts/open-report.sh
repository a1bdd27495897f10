#!/bin/sh
# Opens reports in the browser where there is a display, and prints their addresses.
# Usage: scripts/open-report.sh FILE...
set -eu

# open ADDRESS: as the user at the desktop, because browsers do not run as root.
open() {
    [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ] && command -v xdg-open >/dev/null 2>&1 || return 1
    if [ "$(id -u)" = 0 ] && [ -n "${SUDO_USER:-}" ]; then
        timeout 10 sudo -E -u "$SUDO_USER" xdg-open "$1" >/dev/null 2>&1
    else
        timeout 10 xdg-open "$1" >/dev/null 2>&1
    fi
}

for report in "$@"; do
    address=file://$(realpath "$report")
    if open "$address"; then
        echo "report: $address (opened in the browser)"
    else
        echo "report: $address (open it in a browser)"
    fi
done
