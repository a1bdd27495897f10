#!/bin/bash
# Standing receivers in network namespaces: the sender is killed and started again twice, and some receivers lose their
# power. All must have everything in the end, with nothing done by hand. Needs root, iproute2, and `treecast` on the path.
#
#     contrib/standing/show.sh [RECEIVERS [OFF [MEBIBYTES]]]     # 30 receivers, of which 5 lose their power, 64 MiB
set -euo pipefail
receivers=${1:-30} off=${2:-5} mebibytes=${3:-64}
treecast=$(command -v treecast) || { echo "treecast is not on the path" >&2; exit 1; }
folder=$(mktemp -d /tmp/treecast-standing.XXXXXX)
prefix=st$$
declare -A pids

finish() {
    for pid in "${pids[@]}"; do { kill -9 "$pid" && wait "$pid"; } 2>/dev/null || true; done
    for node in switch s $(seq 1 "$receivers"); do ip netns del "$prefix-$node" 2>/dev/null || true; done
    rm -rf "$folder"
}
trap finish EXIT

on() { local node=$1; shift; ip netns exec "$prefix-$node" "$@"; }
# A program on a node, in place of this (sub)shell, so that a signal to it reaches the program.
become() { local node=$1; shift; exec ip netns exec "$prefix-$node" "$@"; }

# One LAN: a bridge, the sender, and the receivers.
ip netns add "$prefix-switch"
on switch ip link add lan type bridge
on switch ip link set lan up
number=1
for node in s $(seq 1 "$receivers"); do
    ip netns add "$prefix-$node"
    on "$node" ip link set lo up
    ip link add "p$node" netns "$prefix-switch" type veth peer name eth0 netns "$prefix-$node"
    on switch ip link set "p$node" master lan up
    on "$node" ip addr add "fd00:30::$(printf %x "$number")/64" dev eth0 nodad
    on "$node" ip link set eth0 up
    number=$((number + 1))
done

cd "$folder"
head -c "$((mebibytes << 20))" /dev/urandom > image.raw
key=$("$treecast" keys new ./sender.pem | cut -d' ' -f1)
"$treecast" keys new ./stranger.pem > stranger.key
names=$(seq -s, -f 'r%g' 1 "$receivers")

power_on() {
    local node=$1
    printf 'name = "r%s"\nstate = "state%s"\n[[rule]]\nsenders = ["%s"]\ninto = "copy%s"\n' \
        "$node" "$node" "$key" "$node" > "r$node.toml"
    become "$node" "$treecast" receive --standing "r$node.toml" > /dev/null 2>> "r$node.log" &
    pids[$node]=$!
}
power_off() { kill -9 "${pids[$1]}"; wait "${pids[$1]}" 2>/dev/null || true; unset "pids[$1]"; }
send() {
    become s "$treecast" send --key ./sender.pem --session ./session --to-standing "$names" --wait-timeout 5 \
        --rate 100M image.raw > send.log 2>&1 &
    pids[s]=$!
}
# Waits until the sender has multicast this share of the image, in percent.
reach() {
    local want=$((mebibytes * 1048576 / 100 * $1)) sent=0
    while [ "$sent" -lt "$want" ]; do
        sleep 0.1
        sent=$(sed -n 's/^sent 0 //p' session 2>/dev/null | tail -n 1 || true); sent=${sent:-0}
    done
}

start=$(date +%s)
for node in $(seq 1 "$receivers"); do power_on "$node"; done
# Somebody whose key nobody trusts announces all the time.
become s "$treecast" send --key ./stranger.pem --to-standing any --wait-timeout 3600 image.raw > /dev/null 2>&1 &
pids[stranger]=$!
send
reach 20
for node in $(seq 1 "$off"); do power_off "$node"; done
reach 35; power_off s; send
reach 60; power_off s
for node in $(seq 1 "$off"); do power_on "$node"; done
send
code=0; wait "${pids[s]}" || code=$?
unset "pids[s]"
echo "the sender's exit code is $code after $(($(date +%s) - start)) s"

whole=0 ignored=0 received=0
for node in $(seq 1 "$receivers"); do
    cmp -s image.raw "copy$node/image.raw" && whole=$((whole + 1))
    # A receiver writes its history a moment after the sender has let it go.
    for _ in $(seq 50); do
        "$treecast" status --history --state "state$node" > "history$node"
        grep -q ' received ' "history$node" && break
        sleep 0.1
    done
    starts=$(grep -c ' started; ' "history$node")
    [ "$(grep -c ' ignored ' "history$node")" = "$starts" ] && ignored=$((ignored + 1))
    [ "$(grep -c ' received ' "history$node")" = 1 ] && received=$((received + 1))
done
echo "$whole of $receivers copies are whole; $received histories tell of it once, $ignored of the stranger once a start"
echo "the history of a receiver that lost its power:"; sed 's/^/    /' history1
[ "$code" = 0 ] && [ "$whole" = "$receivers" ] && [ "$received" = "$receivers" ] && [ "$ignored" = "$receivers" ]
