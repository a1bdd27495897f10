#!/bin/sh
# Takes a feed over TCP where a firewall drops UDP from its sender, and hands it on to this site by multicast, under the same names.
# Usage: contrib/feed/relay.sh SPOOL TICKET-COMMAND [OPTION...]
#   SPOOL           a folder of this relay alone. It holds what is on its way
#   TICKET-COMMAND  prints the sender's ticket, such as 'ssh sender.example cat /srv/ticket'. It is asked again whenever the session has ended
#   OPTION...       of treecast feed: --ticket-file or --announce for the receivers of the site, --rules with the sender's own rules,
#                   --keep as the sender's, so that a restart neither loses nor repeats files; --spool-bytes for what the site is slow to take
# A sender that is started again without --session has another ticket: the relay asks for it when the old one has not worked for 10 s. Ends with its treecast feed. A relay that is started again goes on where it was.
set -u

[ $# -ge 2 ] || { echo "relay.sh: expected SPOOL TICKET-COMMAND [OPTION...]" >&2; exit 2; }
spool=$1 ask=$2
shift 2
mkdir -p "$spool" || exit 1

# Its own receiver is the only program that it ends.
receive() {
    trap '[ -z "$receiver" ] || kill "$receiver" 2>/dev/null; exit 0' TERM
    receiver=""
    while :; do
        ticket=$(sh -c "$ask") || ticket=""
        if [ -n "$ticket" ]; then
            treecast receive --into "$spool" --reconnect 10 --connect-timeout 10 -- "$ticket" &
            receiver=$!
            wait "$receiver"
        else
            echo "relay.sh: no ticket from: $ask: asking again" >&2
        fi
        receiver=""
        sleep 2 &
        wait $!
    done
}

receive &
loop=$!
treecast feed "$spool" --remove "$@" &
feed=$!
trap 'kill $feed 2>/dev/null' INT TERM
wait $feed
code=$?
# The signal ends the wait, and the feed ends after it.
while kill -0 $feed 2>/dev/null; do wait $feed; code=$?; done
kill $loop 2>/dev/null
wait
exit $code
