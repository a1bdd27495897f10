#!/bin/sh
# Brings one disk image up to date at many receivers, once sent whole and once by difference, and compares time and bytes.
# Usage: labs/imaging/delta.sh [TREECAST]          as root; TREECAST: the program [default: target/release/treecast]
# Environment: SIZE      MiB of the image [1024]
#              CHANGES   places in which it has changed; together they are 1 % of it [200]
#              RECEIVERS [20]
#              WHERE     folder for all images, with room for SIZE x (RECEIVERS + 2) [/var/tmp]
#              LINK      rate of the sender's link, as tc has it [40mbit]
#              RATE      rate of the sender, headers included, a little less than LINK's [39M]
#              OPTIONS   more options of `treecast send`, such as "--fanout unicast" []
# Needs: python3, ip, tc. It removes all that it makes.
set -eu

treecast=$(readlink -f "${1:-target/release/treecast}")
size=${SIZE:-1024} changes=${CHANGES:-200} receivers=${RECEIVERS:-20} where=${WHERE:-/var/tmp}
link=${LINK:-40mbit} rate=${RATE:-39M} options=${OPTIONS:-}
die() { echo "delta.sh: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || die "this needs root, for network namespaces"
[ -x "$treecast" ] || die "there is no program $treecast: build it, or name it"
for program in python3 ip tc; do
    command -v $program >/dev/null || die "$program is missing: install it"
done
work=$(mktemp -d "$where/treecast-delta-XXXXXX")
net=tcd$$
pids=""

clean() {
    [ -z "$pids" ] || kill $pids 2>/dev/null || true
    wait
    for number in $(seq 0 "$receivers"); do ip netns delete $net-"$number" 2>/dev/null || true; done
    ip netns delete $net-switch 2>/dev/null || true
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 1' INT TERM

# Bytes that do not repeat, and the same with a hundredth of them changed.
make_images() {
    mkdir "$work/old" "$work/new"
    python3 - "$work" "$size" "$changes" <<'PYTHON'
import random, sys
work, size, changes = sys.argv[1], int(sys.argv[2]) << 20, int(sys.argv[3])
seeded = random.Random(21)
with open(f"{work}/old/image", "wb") as old, open(f"{work}/new/image", "wb") as new:
    for _ in range(size >> 20):
        piece = seeded.randbytes(1 << 20)
        old.write(piece)
        new.write(piece)
with open(f"{work}/new/image", "r+b") as new:
    length = size // 100 // changes
    for _ in range(changes):
        new.seek(seeded.randrange(size - length))
        new.write(seeded.randbytes(length))
PYTHON
}

# A switch with a port for each host. Host 0 is the sender.
make_network() {
    ip netns add $net-switch
    ip -n $net-switch link add switch type bridge mcast_snooping 0
    ip -n $net-switch link set switch up
    for number in $(seq 0 "$receivers"); do
        ip netns add $net-"$number"
        ip -n $net-"$number" link add if0 type veth peer name port"$number" netns $net-switch
        ip -n $net-switch link set port"$number" master switch up
        ip -n $net-"$number" address add 10.77.$((number / 250)).$((number % 250 + 1))/16 brd + dev if0
        ip -n $net-"$number" link set if0 up
        ip -n $net-"$number" link set lo up
        ip -n $net-"$number" route add 224.0.0.0/4 dev if0
    done
    ip netns exec $net-0 tc qdisc add dev if0 root tbf rate "$link" burst 256k latency 50ms
    sleep 3
}

sent_bytes() { ip netns exec $net-0 cat /sys/class/net/if0/statistics/tx_bytes; }
now() { date +%s.%N; }

# run NAME OPTION...: receivers have the old image, and the new one is sent to them.
run() {
    name=$1
    shift
    for number in $(seq 1 "$receivers"); do
        mkdir -p "$work/copy-$number"
        rm -f "$work/copy-$number/image"
        # The old image is replaced, and never written to: its copies need no room.
        ln "$work/old/image" "$work/copy-$number/image"
    done
    sync
    rm -f "$work/ticket"
    before=$(sent_bytes) began=$(now) pids=""
    ip netns exec $net-0 "$treecast" send --interface if0 --rate "$rate" --wait "$receivers" $options "$@" \
        --ticket-file "$work/ticket" "$work/new/image" >"$work/send.log" 2>&1 &
    sender=$!
    pids=$sender
    while [ ! -e "$work/ticket" ]; do
        kill -0 $sender 2>/dev/null || { cat "$work/send.log"; die "treecast send has failed"; }
        sleep 0.1
    done
    for number in $(seq 1 "$receivers"); do
        ip netns exec $net-"$number" "$treecast" receive --interface if0 --into "$work/copy-$number" \
            @"$work/ticket" >"$work/receive-$number.log" 2>&1 &
        pids="$pids $!"
    done
    wait $sender || { tail -n 5 "$work/send.log"; die "treecast send has failed"; }
    for pid in $pids; do wait "$pid" || true; done
    ended=$(now) pids=""
    bytes=$(($(sent_bytes) - before)) wrong=0
    for number in $(seq 1 "$receivers"); do
        cmp -s "$work/new/image" "$work/copy-$number/image" || wrong=$((wrong + 1))
    done
    seconds=$(echo "$ended $began" | awk '{ printf "%.1f", $1 - $2 }')
    share=$(echo "$bytes $size" | awk '{ printf "%.2f", $1 / $2 / 1048576 * 100 }')
    echo "$name: $seconds s, $bytes bytes left the sender ($share % of the image), $wrong of $receivers copies are wrong"
    eval "seconds_$name=$seconds"
}

make_images
make_network
echo "image: $size MiB, 1 % changed in $changes places; $receivers receivers with the old one; link $link, sender's rate $rate"
run whole
run delta --delta
echo "$seconds_delta $seconds_whole" | awk '{ printf "by difference it took %.3f of the time of the whole\n", $1 / $2 }'
