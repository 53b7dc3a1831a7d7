# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# For tests with a stock guest, most of which move it from one QEMU to the next while it counts and samples: source
# it after qemu.sh. Needs BUILD and PROGRAMS.

# The guest says what its command says, selftests/guest/migrating.sh for those, to NAME.tap in the folder that
# this is set to.
# shellcheck disable=SC2154 # from qemu.sh
taps=$dir

# share_with_guest COMMAND FILE...: what the guest is to run, and what that needs, in /run/vpmu/test there
share_with_guest() {
	local command=$1
	shift
	share=$dir/share
	mkdir -p "$share/test"
	cp "$@" "$share/test/"
	cat >"$share/config" <<-EOF
		NAME=guest
		setup() { :; }
		command() {
			$command
		}
	EOF
	# shellcheck source=/dev/null disable=SC2153 # from there
	cmdline=$(. /run/vpmu/config && echo "$CMDLINE")
}

# prepare_guest RUNS: of perf stat and perf record, each. The guest reads what it needs from the shared folder,
# and lets go of that: with it, it couldn't move.
prepare_guest() {
	share_with_guest "cp -r /run/vpmu/test /tmp/ && cd /tmp/test && umount /run/vpmu && exec ./migrating.sh $1" \
		"$PROGRAMS/exact" "$PROGRAMS/profile" "$(dirname "$0")/../guest/migrating.sh" "$(dirname "$0")/../tap.sh"
}

# start_guest NAME [ARGUMENT...]
start_guest() {
	local name=$1 kernel
	shift
	kernel=$(uname -r)
	start_qemu "$name" -cpu host -m 384 -kernel "/run/lower/boot/vmlinuz-$kernel" \
		-initrd "/run/vpmu/initramfs/$kernel" -append "$cmdline" -serial "file:$dir/$name.console" \
		-drive file=/dev/vda,format=raw,readonly=on,if=virtio -device virtio-serial \
		-virtfs "local,path=$share,mount_tag=run,security_model=none,multidevs=remap" \
		-chardev "file,id=stdout,path=$taps/$name.tap" -device virtserialport,chardev=stdout,name=stdout \
		-chardev "file,id=stderr,path=$dir/$name.err" -device virtserialport,chardev=stderr,name=stderr "$@"
}

# What the guest said, to whichever QEMU
said() {
	cat "$taps"/guest-*.tap
}

# begin_guest RUNS [ARGUMENT...]: the first QEMU, guest-00, until the guest is about to count
begin_guest() {
	prepare_guest "$1"
	shift
	start_guest guest-00 "$@" && wait_for "$taps/guest-00.tap" '# begin' && return
	sed 's/^/# /' "$dir"/guest-00.{console,err,log}
	return 1
}
