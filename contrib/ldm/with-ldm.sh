#!/bin/sh
# Runs LDM itself at both ends of treecast, on this machine: pqinsert, a product queue, pqact with the entry of pqact.conf, treecast feed
# store, treecast feed, treecast receive, insert.sh, and another product queue. Says what it has seen, and fails if it is wrong.
# Usage: contrib/ldm/with-ldm.sh [TREECAST]      TREECAST: the program [default: target/release/treecast]
# Environment: LDM     the folder with pqact, pqinsert, pqcreate and pqcat [default: they are in PATH]
#              COUNT   number of small products [300]
# Traffic stays on the loopback interface. It removes all that it makes.
set -eu

treecast=$(readlink -f "${1:-target/release/treecast}" || true)
here=$(dirname "$(readlink -f "$0")")
count=${COUNT:-300}
PATH=${LDM:+$LDM:}$(dirname "$treecast"):$PATH
export PATH
die() { echo "with-ldm.sh: $*" >&2; exit 1; }
[ -x "$treecast" ] || die "there is no program ${1:-target/release/treecast}: build it, or name it"
for program in pqact pqinsert pqcreate pqcat; do
    command -v $program >/dev/null || die "there is no $program: build LDM (github.com/Unidata/LDM), and name its folder by LDM=.../bin"
done
work=$(mktemp -d /tmp/treecast-ldm-XXXXXX)
pids=""

clean() {
    # pqact's decoders end with its pipe.
    [ -z "$pids" ] || kill $pids 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 1' INT TERM

cd "$work"
mkdir spool out files
for queue in up down; do pqcreate -l - -s 200M -S 5000 -q $queue.pq; done
sed "s#/var/spool/treecast/conduit#$work/spool#" "$here/pqact.conf" > pqact.conf

# pqact polls each second, because only an LDM that runs as a whole tells it of products.
act() { pqact -v -l "$work/pqact.log" -q "$work/up.pq" -d "$work" -f CONDUIT -i 1 "$work/pqact.conf" & pqact=$!; pids="$pids $pqact"; }
number=0
# insert SIZE IDENTIFIER
insert() {
    number=$((number + 1))
    head -c "$1" /dev/urandom > "files/$number"
    pqinsert -l "$work/pqinsert.log" -q up.pq -f CONDUIT -s $number -p "$2" "files/$number"
}
# MD5, size and identifier of each product of a queue.
products() {
    pqcat -x -l - -q "$1" 2>&1 >/dev/null |
        sed -n 's/^.* INFO  *\([0-9a-f]\{32\}  *[0-9]*\) [0-9.]* CONDUIT [0-9]* *\(.*\)$/\1 \2/p' | LC_ALL=C sort
}
# arrive SECONDS WHAT: waits until the other queue has all products.
arrive() {
    most=$(($1 * 10))
    until [ "$(products down.pq | wc -l)" -ge $number ]; do
        most=$((most - 1))
        [ $most -gt 0 ] || die "$2: $(products down.pq | wc -l) of $number products have arrived after $1 s"
        sleep 0.1
    done
    echo "ok: $2"
}

"$treecast" feed spool --remove --interface lo --ticket-file ticket > feed.log 2>&1 & feed=$!
pids="$pids $feed"
until [ -s ticket ]; do
    kill -0 $feed 2>/dev/null || die "treecast feed has ended: $(cat feed.log)"
    sleep 0.1
done
QUEUE=$work/down.pq "$treecast" receive @ticket --interface lo --into out --batch 1 \
    --exec "$here/insert.sh CONDUIT out {}" > receive.log 2>&1 & receive=$!
pids="$pids $receive"
act

i=0
while [ $i -lt "$count" ]; do
    i=$((i + 1))
    insert $((i * 37)) "data/nccf/gfs.t00z.pgrb2f00 !grib2/ncep/GFS/#000/201010130000/F000/TMPK/0 - NONE! $i"
done
arrive 60 "$count small products"
insert 7000 'SDUS54 KOUN 201643 /pN0RTLX'
insert 7001 '-odd "$(id)" '\''name'\'' 100% \1 (a:yyyy) ; & ~ *'
insert 7002 "$(head -c 255 /dev/zero | tr '\0' x)"
insert 63000 "data/fills the pipe"
insert 40000000 "data/large"
arrive 60 "blanks, signs, a name of 255 bytes, 40 MB"

kill $pqact; wait $pqact || true
insert 8000 "data/while pqact was stopped"
act
arrive 60 "a pqact that was stopped went on"

insert 8001 "data/before pqact is killed"
arrive 60 "one more"
kill -KILL $pqact; wait $pqact 2>/dev/null || true
insert 8002 "data/while pqact was dead"
act
arrive 60 "a pqact that was killed went on"

# A decoder has nothing in its pipe when all products have arrived.
kill -KILL "$(pgrep -f "feed store $work/spool")"
insert 8003 "data/after the decoder was killed"
arrive 60 "a decoder that was killed was started again"
sleep 2

products up.pq > up; products down.pq > down
diff up down >&2 || die "the queues have different products"
[ -z "$(find spool out -type f ! -name '.treecast*')" ] || die "files are left: $(find spool out -type f)"
echo "ok: $number products, the same in both queues"
