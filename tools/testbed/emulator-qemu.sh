# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# AMD hosts: QEMU's TCG with an emulated PMU. Part of run, whose variables and functions it uses.
# shellcheck disable=SC2034,SC2154 # theirs

EMULATOR_LOG=qemu.log
virtiofs=()

emulator_prepare() {
	case $cpu in
	amd-zen4) cpu=EPYC-Genoa,-pcid,pmu=on ;;
	amd-zen3) cpu=EPYC-Milan,-pcid,pmu=on,perfctr-core=on ;;
	amd-k10) cpu=phenom,pmu=on,svm=on,npt=on,nrip-save=on ;;
	*) return 1 ;;
	esac
	[ -z "$icount" ] || [ "$smp" = 1 ] || bad "--icount takes one CPU only: with more, guests never boot"
	[ -n "${KVM_VPMU_QEMU:-}" ] || steps+=(qemu)
}

# emulator_share TAG DIR [readonly]
emulator_share() {
	if ! is_cloud; then
		emulator+=(-virtfs "local,path=$2,mount_tag=$1,security_model=none,multidevs=remap${3:+,readonly=on}")
		return
	fi
	virtiofs+=("$run/$1.socket" "$2" "${3:-}")
	emulator+=(-chardev "socket,id=$1,path=$run/$1.socket" -device "vhost-user-fs-pci,chardev=$1,tag=$1")
}

# Kernels of cloud flavours have no 9P, but virtiofs, whose servers are processes of their own that want to
# see the machine's memory.
is_cloud() {
	[[ ${version:-} == *-cloud-* ]]
}

# emulator_servers COMMAND...: COMMAND is the emulator; its servers end when it does.
emulator_servers() {
	# shellcheck disable=SC2016 # expands there
	emulator=(bash -euc '
		while [ "$1" != -- ]; do
			/usr/libexec/virtiofsd --socket-path="$1" --shared-dir="$2" --sandbox=none --cache=never \
				--inode-file-handles=never --log-level=error ${3:+--readonly} &
			while [ ! -S "$1" ]; do
				kill -0 $!
				sleep 0.05
			done
			shift 3
		done
		shift
		exec "$@"
	' servers "${virtiofs[@]}" -- "$@")
}

emulator_machine() {
	local qemu=${KVM_VPMU_QEMU:-$(entry qemu)/qemu-system-x86_64} word properties=$cpu
	[ -x "$qemu" ] || die "no emulator $qemu"
	ns+=(--ro "$qemu" "$run/qemu")
	for word in "${cpu_props[@]}"; do
		properties="$properties,$word"
	done
	emulator+=("$run/qemu")
	if [ -z "$icount" ]; then
		emulator+=(-accel "tcg,thread=multi")
	else
		emulator+=(-accel "tcg,thread=single" -icount "shift=0,sleep=off")
	fi
	emulator+=(-nodefaults -no-user-config -display none -no-reboot
		-L /usr/share/seabios -L /usr/share/qemu -machine q35 -cpu "$properties"
		-smp "$smp${sockets:+,sockets=$sockets,cores=$((smp / sockets))}" -m "$mem" -serial "file:$run/console.log")
	! is_cloud || emulator+=(-object "memory-backend-memfd,id=memory,size=${mem}M,share=on"
		-machine memory-backend=memory)
	if [ -n "$monitor" ]; then
		mkfifo "$run/monitor.in" "$run/monitor.out"
		emulator+=(-chardev "pipe,id=monitor,path=$run/monitor" -mon monitor)
		# Held open: the emulator waits at its start for somebody at the other ends.
		exec 6<>"$run/monitor.in" 7<>"$run/monitor.out"
	fi
}

emulator_bare() {
	ns+=(--ro "$bare" "$run/image")
	emulator+=(-kernel "$run/image" -debugcon "file:$run/stdout" -device "isa-debug-exit,iobase=0xf4,iosize=4")
	[ -z "$host_cmdline" ] || emulator+=(-append "${host_cmdline# }")
}

# emulator_linux VERSION CMDLINE
emulator_linux() {
	local cmdline=$2

	# An idle machine's clock runs ahead to its next timer. While it waits for a file of the real one, that
	# may be minutes.
	[ -z "$icount" ] || cmdline="$cmdline sysctl.kernel.hung_task_timeout_secs=0"
	emulator+=(-kernel "/boot/vmlinuz-$1" -initrd "$machine/initramfs/$1" -append "$cmdline"
		-drive "file=/bed/image/root.img,format=raw,readonly=on,if=virtio" -device virtio-serial
		-chardev "file,id=stdout,path=$run/stdout" -device "virtserialport,chardev=stdout,name=stdout"
		-chardev "file,id=stderr,path=$run/stderr" -device "virtserialport,chardev=stderr,name=stderr")
	! is_cloud || emulator_servers "${emulator[@]}"
}

# The answer stands between the first and the second prompt; the echo of the line before it is full
# of line editing.
ask_monitor() {
	local part answer='' prompts=0
	printf 'info pmu\n' >&6
	while [ $prompts -lt 2 ] && IFS= read -r -t 5 -d ')' -u 7 part; do
		if [[ $part == *'(qemu' ]]; then
			prompts=$((prompts + 1))
			part=${part%'(qemu'}
			[ $prompts -lt 2 ] || answer=$answer$part
		elif [ $prompts = 1 ]; then
			answer="$answer$part)"
		fi
	done
	answer=$(printf '%s' "$answer" | sed 1d | tr -d '\r')
	case $answer in
	'' | 'unknown command'*) say "this emulator has no 'info pmu': $monitor isn't written" ;;
	*) printf '%s\n' "$answer" >"$monitor" ;;
	esac
}

# Has it ended by itself?
emulator_failed() {
	grep -qv 'warning:' "$run/$EMULATOR_LOG"
}
