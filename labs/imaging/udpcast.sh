#!/bin/sh
# Sends one disk image to many loop devices, by treecast and by udpcast through zstd, and compares time, bytes and copies.
# Usage: labs/imaging/udpcast.sh [TREECAST]        as root; TREECAST: the program [default: target/release/treecast]
# Environment: SIZE      MiB of the image, of which 40 % are zeros [2048]
#              RECEIVERS [20]
#              WHERE     folder for the image and the devices' files, with room for SIZE x (RECEIVERS + 1) [/var/tmp]
#              LINK      rate of the sender's link, as tc has it [no limit]
#              LEVEL     of zstd [3]
# Needs: udp-sender and udp-receiver (Debian: udpcast), zstd, losetup, ip, tc. It removes all that it makes.
set -eu

treecast=$(readlink -f "${1:-target/release/treecast}")
size=${SIZE:-2048} receivers=${RECEIVERS:-20} where=${WHERE:-/var/tmp} link=${LINK:-} level=${LEVEL:-3}
die() { echo "udpcast.sh: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || die "this needs root, for loop devices and network namespaces"
[ -x "$treecast" ] || die "there is no program $treecast: build it, or name it"
for program in udp-sender udp-receiver zstd losetup ip tc; do
    command -v $program >/dev/null || die "$program is missing: install it (scripts/setup.sh bench)"
done
work=$(mktemp -d "$where/treecast-imaging-XXXXXX")
net=tci$$
devices="" pids=""

clean() {
    [ -z "$pids" ] || kill $pids 2>/dev/null || true
    wait
    for device in $devices; do losetup --detach "$device" 2>/dev/null || true; done
    for number in $(seq 0 "$receivers"); do ip netns delete $net-"$number" 2>/dev/null || true; done
    ip netns delete $net-switch 2>/dev/null || true
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 1' INT TERM

# 60 % of the image are files of this system, in three parts with zeros between them.
make_image() {
    truncate --size "${size}M" "$work/image"
    part=$((size / 5))
    { tar cf - /usr /lib /opt /var/lib 2>/dev/null || true; } | {
        for at in 0 1 2; do
            dd of="$work/image" bs=1M count=$part seek=$((at * size * 2 / 5)) iflag=fullblock conv=notrunc status=none
        done
    }
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
    [ -z "$link" ] || ip netns exec $net-0 tc qdisc add dev if0 root tbf rate "$link" burst 256k latency 50ms
    sleep 3
}

attach() {
    device=$(losetup --find --show "$1")
    devices="$devices $device"
}

# Every target begins with bytes of an older image, so that zeros have to be written.
make_targets() {
    for number in $(seq 1 "$receivers"); do
        rm -f "$work/target-$number"
        { yes old || true; } | head -c "${size}M" >"$work/target-$number"
    done
    sync
}

sent_bytes() { ip netns exec $net-0 cat /sys/class/net/if0/statistics/tx_bytes; }
now() { date +%s.%N; }

by_treecast() {
    ip netns exec $net-0 "$treecast" send --interface if0 --rate max --wait "$receivers" --compress zstd:"$level" \
        --ticket-file "$work/ticket" "$source" >"$work/send.log" 2>&1 &
    sender=$!
    while [ ! -e "$work/ticket" ]; do sleep 0.1; done
    for number in $(seq 1 "$receivers"); do
        mkdir -p "$work/keep-$number"
        ip netns exec $net-"$number" "$treecast" receive --interface if0 --into "$work/keep-$number" \
            --to "$(eval echo \$target_"$number")" @"$work/ticket" >"$work/receive-$number.log" 2>&1 &
        pids="$pids $!"
    done
    wait $sender || { tail -n 5 "$work/send.log"; die "treecast send has failed"; }
}

by_udpcast() {
    for number in $(seq 1 "$receivers"); do
        ip netns exec $net-"$number" setsid --wait sh -c "udp-receiver --nokbd --interface if0 </dev/null 2>'$work/receive-$number.log' |
            zstd -dc | dd of=$(eval echo \$target_"$number") bs=1M iflag=fullblock conv=fsync status=none" &
        pids="$pids $!"
    done
    sleep 2
    ip netns exec $net-0 setsid --wait sh -c "zstd -c -$level <$source |
        udp-sender --nokbd --interface if0 --full-duplex --min-receivers $receivers" >"$work/send.log" 2>&1 &
    pids="$pids $!"
}

# run NAME: makes all targets anew, sends, waits for all, and compares each copy.
run() {
    make_targets
    for number in $(seq 1 "$receivers"); do
        attach "$work/target-$number"
        eval "target_$number=$device"
    done
    before=$(sent_bytes) began=$(now) pids=""
    by_"$1"
    for pid in $pids; do wait "$pid" || true; done
    ended=$(now) pids=""
    bytes=$(($(sent_bytes) - before)) wrong=0
    sync
    for number in $(seq 1 "$receivers"); do
        target=$(eval echo \$target_"$number")
        cmp -s -n $((size * 1048576)) "$source" "$target" || wrong=$((wrong + 1))
        losetup --detach "$target"
    done
    devices=$source
    seconds=$(echo "$ended $began" | awk '{ printf "%.1f", $1 - $2 }')
    echo "$1: $seconds s, $((bytes / 1048576)) MiB left the sender, $wrong of $receivers copies are wrong"
    eval "seconds_$1=$seconds bytes_$1=$bytes"
}

make_image
make_network
attach "$work/image"
source=$device
echo "image: $size MiB, 40 % zeros; $receivers receivers on loop devices in $where; zstd level $level; link ${link:-not limited}"
run treecast
run udpcast
echo "$seconds_treecast $seconds_udpcast $bytes_treecast $bytes_udpcast" |
    awk '{ printf "treecast took %.2f of the time of udpcast, and %.2f of its bytes\n", $1 / $2, $3 / $4 }'
