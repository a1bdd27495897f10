#!/bin/sh
# Takes a feed over TCP where a firewall drops UDP from its sender, and hands it on to this site by multicast, under the same names.
# Usage: contrib/feed/relay.sh SPOOL TICKET-COMMAND [OPTION...]
#   SPOOL           a folder of this relay alone. It holds what is on its way
#   TICKET-COMMAND  prints the sender's ticket, such as 'ssh sender.example cat /srv/ticket'. It is asked again whenever the session has ended.
#                   It has no standard input, so it must not ask for a password
#   OPTION...       of treecast feed: --ticket-file or --to-standing any for the receivers of the site, --rules with the sender's own rules,
#                   --keep as the sender's, so that a restart neither loses nor repeats files; --spool-bytes for what the site is slow to take
# A sender that is started again without --session has another ticket: the relay asks for it when the old one has not worked for 10 s.
# Ends with its treecast feed and that one's exit code, and on HUP, INT and TERM, when both halves have ended. Exit code 2: wrong arguments.
# A relay that is started again goes on where it was.
set -u

[ $# -ge 2 ] || { echo "relay.sh: expected SPOOL TICKET-COMMAND [OPTION...]" >&2; exit 2; }
case $1 in
-*) spool=./$1 ;;
*) spool=$1 ;;
esac
ask=$2
shift 2
mkdir -p "$spool" || exit 1
# Others on this host see what a command line says, and may not have the ticket.
ticket=$(mktemp) || exit 1
trap 'rm -f "$ticket" "$ticket".*' EXIT

# `stopping` has a letter for each signal. `begun` is a file that says that a program has begun.
child="" stopping="" interrupted="" begun=$ticket.feed
stop() {
    stopping=${stopping}x interrupted=yes
    [ -z "$child" ] || kill "$child" 2>/dev/null
}

# Runs a program that a signal ends, and returns its exit code. The shell would hear of a signal only behind a program in the foreground.
run() {
    code=0
    [ -z "$stopping" ] || return 0
    rm -f "$begun"
    begin "$@" &
    program=$! tries=0
    # From its fork until it has put its traps away, a shell loses signals.
    until [ -e "$begun" ] || [ $tries = 50 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    child=$program
    # The signal may have come before its number was known.
    [ -z "$stopping" ] || kill "$child" 2>/dev/null
    outlive "$child"
    child=""
    return "$code"
}

# Becomes a program, or runs the function `ask`.
begin() {
    : >"$begun"
    case $1 in
    ask) ask ;;
    *) exec "$@" ;;
    esac
}

# Waits for a process of this shell to end, however many signals end the waiting. Leaves its exit code in `code`.
outlive() {
    code=127 interrupted=yes
    while [ -n "$interrupted" ]; do
        interrupted=""
        wait "$1"
        ended=$?
        # A signal that came behind the end: the shell has told of the process, and knows it no more.
        [ "$ended" = 127 ] || code=$ended
    done
}

# A command that hangs is given up. `timeout` ends what it has started, too.
ask() { exec timeout 60 sh -c "$ask" >"$ticket"; }

receive() {
    begun=$ticket.receive
    trap stop TERM
    while [ -z "$stopping" ]; do
        if run ask && [ -s "$ticket" ]; then
            [ -n "$stopping" ] || run treecast receive --into "$spool" --reconnect 10 --connect-timeout 10 -- "@$ticket"
        elif [ -z "$stopping" ]; then
            echo "relay.sh: no ticket from: $ask: asking again" >&2
        fi
        [ -n "$stopping" ] || run sleep 2
    done
}

trap stop HUP INT TERM
receive &
loop=$!
run treecast feed "$spool" --remove "$@"
feed=$code
# One that was told to end before it could hear of it has sent nothing.
[ "$feed" != 143 ] || [ "$stopping" != x ] || feed=0
kill "$loop" 2>/dev/null
outlive "$loop"
exit "$feed"
