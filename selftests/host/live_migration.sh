#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host, with the patched QEMU (BUILD/vmm): a stock guest under perf stat and perf record
# moves from one QEMU to the next, live. Needs BUILD and PROGRAMS; arguments: how often perf runs in the
# guest, and how often it has to move meanwhile at least.

. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/qemu.sh"

runs=${1:-20} least=${2:-20}

# The guest reads what it needs from here, and lets go of it: with a shared folder it couldn't move.
share=$dir/share
mkdir -p "$share/test"
cp "$PROGRAMS/exact" "$PROGRAMS/profile" "$(dirname "$0")/../guest/migrating.sh" \
	"$(dirname "$0")/../tap.sh" "$share/test/"
cat >"$share/config" <<EOF
NAME=guest
setup() { :; }
command() {
	cp -r /run/vpmu/test /tmp/ && cd /tmp/test && umount /run/vpmu && exec ./migrating.sh $runs
}
EOF
# shellcheck source=/dev/null disable=SC2153 # from there
cmdline=$(. /run/vpmu/config && echo "$CMDLINE")
kernel=$(uname -r)

# start_guest NAME [ARGUMENT...]
start_guest() {
	local name=$1
	shift
	start_qemu "$name" -cpu host -m 384 -kernel "/run/lower/boot/vmlinuz-$kernel" \
		-initrd "/run/vpmu/initramfs/$kernel" -append "$cmdline" -serial "file:$dir/$name.console" \
		-drive file=/dev/vda,format=raw,readonly=on,if=virtio -device virtio-serial \
		-virtfs "local,path=$share,mount_tag=run,security_model=none,multidevs=remap" \
		-chardev "file,id=stdout,path=$dir/$name.tap" -device virtserialport,chardev=stdout,name=stdout \
		-chardev "file,id=stderr,path=$dir/$name.err" -device virtserialport,chardev=stderr,name=stderr "$@"
}

# What the guest said, to whichever QEMU
said() {
	cat "$dir"/guest-*.tap
}

n=0
start_guest guest-00
wait_for "$dir/guest-00.tap" '# begin' || sed 's/^/# /' "$dir"/guest-00.{console,err,log}
while ! said | grep -q '# end'; do
	here=guest-$(printf %02d $n) there=guest-$(printf %02d $((n + 1)))
	start_guest "$there" -incoming defer || break
	qmp "$here" migrate-set-parameters '{"max-bandwidth": 4000000000, "downtime-limit": 2000}' >/dev/null
	if ! move "$here" "$there" || ! migrated "$here"; then
		not_ok "migration $((n + 1))"
		sed 's/^/# /' "$dir/$there.log"
		break
	fi
	end_qemu "$here"
	n=$((n + 1))
	note "migration $n: $(said | tail -n 1)"
done
within "live migrations" $n "$least" 1000
# It powers off.
wait "$(cat "$dir/guest-$(printf %02d $n).pid")"
relay said

rm -rf "$dir"
finish
