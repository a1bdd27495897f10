#!/bin/sh
# Starts a program for x86_64 in an initramfs that has nothing else but busybox, and has it deliver a file over the loopback interface.
# Usage: scripts/initramfs.sh PROGRAM         such as target/x86_64-unknown-linux-musl/endpoint/treecast-endpoint
# Needs what `scripts/setup.sh initramfs` installs. The processor is emulated, because a virtual machine often has no working KVM.
set -eu

die() { echo "initramfs.sh: $*" >&2; exit 1; }

program=$(realpath "$1")
cd "$(dirname "$0")/.."
kernel=$(echo target/initramfs/boot/vmlinuz-*)
[ -e "$kernel" ] || die "there is no target/initramfs: run scripts/setup.sh initramfs"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir -p "$work/root/bin" "$work/root/proc" "$work/root/tmp" "$work/root/dev"
cp target/initramfs/bin/busybox "$work/root/bin"
cp "$program" "$work/root/bin/treecast"
cat > "$work/root/init" <<'EOF'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc none /proc
ip link set lo up multicast on
ip route add 224.0.0.0/4 dev lo
cd /tmp
dd if=/bin/treecast of=file bs=1k count=2000 2>/dev/null
treecast --version
treecast send --interface lo --ticket-file ticket file >sent 2>&1 &
for tries in 1 2 3 4 5 6 7 8 9 10; do [ -e ticket ] || sleep 1; done
treecast receive --interface lo --into received @ticket 2>&1 | cat
wait
cat sent
cmp file received/file && echo "= the file is equal"
poweroff -f
EOF
chmod +x "$work/root/init"
(cd "$work/root" && find . | cpio --quiet -o -H newc) > "$work/initramfs"

timeout 200 qemu-system-x86_64 -accel tcg -m 256 -nographic -no-reboot -nic none -kernel "$kernel" \
    -initrd "$work/initramfs" -append "console=ttyS0 quiet panic=-1" </dev/null >"$work/log" 2>&1 || true
cat "$work/log"
grep -q "= the file is equal" "$work/log" || die "$program did not deliver the file"
