#!/bin/sh
# Inserts files that treecast has received into LDM's product queue, and removes them.
# Usage: treecast receive @TICKET --into FOLDER --exec 'contrib/ldm/insert.sh FEEDTYPE FOLDER {}'
# A file's name below FOLDER becomes the product's identifier. With --batch 1, a pqinsert inserts the files of a second together.
# The variable QUEUE names the queue [default: the one of LDM's registry].
set -u

[ $# -ge 3 ] || { echo "insert.sh: expected FEEDTYPE FOLDER FILE..." >&2; exit 2; }
feed=$1
# The folder may be named by a link, and so are its files then.
case $2 in
/*) folder=${2%/} ;;
*) folder=$(pwd -P)/${2%/} ;;
esac
cd -P "$2" || exit 1
shift 2
for path; do
    shift
    path=${path#"$folder"/}
    set -- "$@" "${path#"$PWD"/}"
done
pqinsert ${QUEUE:+-q "$QUEUE"} -f "$feed" -- "$@" 2>/dev/null && exec rm -- "$@"
# One of them was not inserted.
failed=0
for name; do
    pqinsert ${QUEUE:+-q "$QUEUE"} -f "$feed" -- "$name"
    case $? in
    0 | 4) rm -- "$name" ;; # 4: the queue has this product, from another way or another run
    *) failed=1 ;;
    esac
done
exit $failed
