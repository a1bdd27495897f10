#!/bin/sh
# An hour of CONDUIT, compressed in time, to 25 receivers, of which a fifth lose half of their packets (interdomain-2013, 4.8):
# treecast without and with the losses, and TCP to each receiver, as LDM does it, without and with them.
# Usage: labs/feeds/conduit.sh [TREECAST]        as root; TREECAST: the program [default: target/release/treecast]
# Environment: RECEIVERS [25]     SLOW    how many of them lose packets [5]     LOSS [50%]
#              SCALE     factor by which time is compressed: an hour takes 3600 / SCALE seconds [60]
#              START     second of the synthetic day at which the hour begins [7200, where the first peak does]
#              EVERY     each so-manieth product is sent [200]
#              SIZE      sizes are divided by this [2]
#              RATE      of each cable [100M]     SENT  rate of the session [80M]
#              FACTOR    --retx-factor of the session [50]
#              OPTIONS   more options of treecast feed []
#              RUNS      which runs [treecast treecast-loss tcp tcp-loss]
#              WHERE     folder for all files [/dev/shm]
# EVERY and SIZE keep 25 receivers within what two processors can do: this hour has 193,000 products of 38 kB. The form of the feed
# stays: peaks, pauses and sizes relative to each other. Needs python3, and treecast's lab. It removes all that it makes.
set -eu

treecast=$(readlink -f "${1:-target/release/treecast}")
here=$(dirname "$(readlink -f "$0")")
receivers=${RECEIVERS:-25} slow=${SLOW:-5} loss=${LOSS:-50%} scale=${SCALE:-60} every=${EVERY:-200} size=${SIZE:-2}
rate=${RATE:-100M} sent=${SENT:-80M} factor=${FACTOR:-50} runs=${RUNS:-treecast treecast-loss tcp tcp-loss}
die() { echo "conduit.sh: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || die "this needs root, for network namespaces"
[ -x "$treecast" ] || die "there is no program $treecast: build it, or name it"
command -v python3 >/dev/null || die "python3 is missing"
work=$(mktemp -d "${WHERE:-/dev/shm}/treecast-conduit-XXXXXX")
lab=tcf$$
pids=""

clean() {
    [ -z "$pids" ] || kill $pids 2>/dev/null || true
    wait 2>/dev/null || true
    "$treecast" lab down $lab >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 1' INT TERM

on() { node=$1; shift; exec ip netns exec "$lab-$node" "$@"; }
seconds=$((3600 / scale)) start=$((${START:-7200} / scale))
"$treecast" feed synth conduit --out "$work" --time-scale "$scale" --size-scale "$size" >/dev/null
"$treecast" lab up "lan:clients=$receivers,rate=$rate,loss=0%" --name $lab >/dev/null
server=$(ip netns exec $lab-server0 ip -6 -o address show scope global | awk '{ sub("/.*", "", $4); print $4; exit }')

# Waits until all fast receivers have all products, and then for the slow ones, but not for ever.
wait_for_all() {
    count=$(wc -l < "$1/times")
    for most in 30 30; do
        while [ $most -gt 0 ]; do
            missing=0
            for number in $2; do
                [ "$(find "$1/$number" -name 'p*' ! -name '*.part' | wc -l)" -ge "$count" ] || missing=1
            done
            [ $missing = 1 ] || break
            sleep 1; most=$((most - 1))
        done
        set -- "$1" "$(seq 0 $((receivers - 1)))"
    done
}

run() {
    run=$work/$1 folders=""
    mkdir -p "$run/spool"
    for number in $(seq 0 $((receivers - 1))); do
        mkdir "$run/$number"
        folders="$folders $run/$number"
        case $1 in *-loss) share=$loss ;; *) share=0% ;; esac
        [ "$number" -lt $((receivers - slow)) ] || "$treecast" lab fault $lab "client$number" lose "$share" >/dev/null
    done
    pids=""
    case $1 in
    treecast*)
        (on server0 "$treecast" feed "$run/spool" --remove --wait "$receivers" --wait-at-least 1 --wait-timeout 30 --rate "$sent" \
            --retx-factor "$factor" ${OPTIONS:-} --json --ticket-file "$run/ticket" > "$run/sender" 2>&1) & pids=$!
        while [ ! -e "$run/ticket" ]; do sleep 0.1; done
        for number in $(seq 0 $((receivers - 1))); do
            (on "client$number" "$treecast" receive "@$run/ticket" --into "$run/$number" --json > "$run/receiver$number" 2>&1) &
            pids="$pids $!"
        done
        while ! grep -q '"event":"started"' "$run/sender"; do sleep 0.2; done
        python3 "$here/conduit.py" play "$work/CONDUIT.log" "$start" "$seconds" "$every" "$run/times" "$run/spool"
        ;;
    tcp*)
        (on server0 python3 "$here/conduit.py" serve "$work/CONDUIT.log" "$start" "$seconds" "$every" "$run/times" "$receivers" \
            "$server" 5380) & pids=$!
        for number in $(seq 0 $((receivers - 1))); do
            (on "client$number" python3 "$here/conduit.py" fetch "$server" 5380 "$run/$number") &
            pids="$pids $!"
        done
        while [ ! -e "$run/times" ]; do sleep 0.2; done
        sleep "$seconds"
        ;;
    esac
    wait_for_all "$run" "$(seq 0 $((receivers - slow - 1)))"
    kill $pids 2>/dev/null || true
    wait 2>/dev/null || true
    pids=""
    python3 "$here/conduit.py" compare "$run/times" "$1" "$slow" $folders
    rm -rf "$run"
}

echo "$receivers receivers, of which $slow lose $loss in runs with loss; an hour in $seconds s, each ${every}th product, sizes / $size"
for name in $runs; do run "$name"; done
