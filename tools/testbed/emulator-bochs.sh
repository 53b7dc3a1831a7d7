# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Intel hosts: Bochs, patched. Part of run, whose variables and functions it uses.
# shellcheck disable=SC2034,SC2154 # theirs

EMULATOR_LOG=bochs.log

# One instruction takes one tick of the TSC.
BOCHS_IPS=1000000000

# Where things are in memory when bochs/rom.S takes over
BOCHS_SETUP=0x20000
BOCHS_CMDLINE=0x10000 # from there
BOCHS_KERNEL=0x100000
BOCHS_INITRD=0x8000000

emulator_prepare() {
	case $cpu in
	intel-v2) cpu='corei7_skylake_x, pmu=2' ;;
	# Bochs has no XFD yet, without which Linux can't use AMX.
	intel-v4) cpu='sapphire_rapids, pmu=4, exclude_features="amx amx_int8 amx_bf16"' ;;
	*) return 1 ;;
	esac
	[ -z "$monitor" ] || bad "--monitor asks QEMU; Intel hosts have no such emulator"
	[ ${#host_args[@]} = 0 ] || bad "--host-arg is for QEMU; Intel hosts have --cpu-prop and --host-cmdline"
	[ "$mem" -ge 256 ] || bad "--mem: an Intel host needs at least 256"
	steps+=(boot)
	[ -n "${KVM_VPMU_BOCHS:-}" ] || steps+=(bochs)
}

bochs() {
	bochsrc="$bochsrc$*"$'\n'
}

# emulator_share TAG DIR
emulator_share() {
	[[ $version != *-cloud-* ]] || die "Intel hosts have 9P only, which kernels of cloud flavours haven't"
	bochs "virtio: share=\"$2\", tag=$1"
}

emulator_machine() {
	local program=${KVM_VPMU_BOCHS:-$(entry bochs)/bochs} word properties='' memory=$mem count=$smp
	# Sockets, cores of each, threads of each
	[ -z "$sockets" ] || count=$sockets:$((smp / sockets)):1
	# PCI's addresses begin at 3 GiB, and what lies behind them below 4 GiB is lost.
	[ "$mem" -le 3072 ] || memory=$((mem + 1024))
	for word in "${cpu_props[@]}"; do
		case $word in
		# one name for both emulators
		x-pmu-oracle=on) word=pmu_oracle=1 ;;
		esac
		properties="$properties, $word"
	done
	[ -x "$program" ] || die "no emulator $program"
	ns+=(--ro "$program" /bed/bochs --ro "$(entry boot)" /bed/boot
		--ro "$BED/bochs/msrs" /bed/msrs)
	emulator=(/bed/bochs -q -f "$run/bochsrc")
	bochsrc=''
	bochs "display_library: nogui"
	bochs "plugin_ctrl: unmapped=1, biosdev=1, serial=1, isadebug=1, virtio=1"
	bochs "panic: action=fatal"
	bochs "error: action=report"
	bochs "info: action=ignore"
	bochs "romimage: file=/usr/share/seabios/bios.bin"
	bochs "vgaromimage: file=/bed/boot/rom"
	bochs "pci: enabled=1, chipset=i440fx, slot1=pcivga"
	bochs "cpu: model=$cpu, count=$count, ips=$BOCHS_IPS, reset_on_triple_fault=0," \
		"ignore_bad_msrs=0, msrs=/bed/msrs$properties"
	bochs "memory: guest=$memory, host=$memory, block_size=8192"
	bochs "clock: sync=none, time0=utc"
	bochs "com1: enabled=1, mode=file, dev=\"$run/console.log\""
	bochs "optramimage1: file=\"$run/setup\", address=$BOCHS_SETUP"
}

# poke OFFSET VALUE: 32 bits of the setup
poke() {
	local n=$2 bytes=''
	for _ in 1 2 3 4; do
		bytes="$bytes\\x$(printf %02x $((n & 255)))"
		n=$((n >> 8))
	done
	# shellcheck disable=SC2059 # the format is the data
	printf "$bytes" | dd of="$run/setup" bs=1 seek=$(($1)) conv=notrunc status=none
}

# setup FILE CMDLINE
setup() {
	cp "$1" "$run/setup"
	printf '%s\0' "$2" | dd of="$run/setup" bs=4096 seek=$((BOCHS_CMDLINE / 4096)) conv=notrunc status=none
}

# Bochs loads plain memory images only: the image's parts above 1 MiB, where the BIOS has nothing
emulator_bare() {
	local entry address
	read -r entry address < <(in_root --ro "$bare" /image --rw "$run" /out -- python3 -c '
import struct
image = open("/image", "rb").read()
entry, table = struct.unpack_from("<II", image, 24)
size, count = struct.unpack_from("<HH", image, 42)
parts = []
for i in range(count):
    kind, offset, _, address, length = struct.unpack_from("<5I", image, table + i * size)
    if kind == 1 and length > 0 and address >= 0x100000:
        parts.append((address, image[offset:offset + length]))
start = min(address for address, _ in parts)
memory = bytearray(max(address + len(part) for address, part in parts) - start)
for address, part in parts:
    memory[address - start:address - start + len(part)] = part
open("/out/image", "wb").write(memory)
print(entry, hex(start))')
	[ -n "$address" ] || die "can't read $bare"
	setup "$(entry boot)/multiboot" "$(basename "$bare")$host_cmdline"
	poke 0x400 "$entry"
	bochs "optramimage2: file=\"$run/image\", address=$address"
	bochs "isadebug: console=\"$run/stdout\""
	printf '%s' "$bochsrc" >"$run/bochsrc"
}

# emulator_linux VERSION CMDLINE
emulator_linux() {
	local initrd=$machine/initramfs/$1
	setup "$(entry boot)/$1.setup" "$2 tsc_early_khz=$((BOCHS_IPS / 1000)) intel_pstate=disable"
	# Linux, Documentation/arch/x86/boot.rst, "The Real-Mode Kernel Header"
	poke 0x21c "$(stat -c %s "$initrd")" # ramdisk_size
	bochs "optramimage2: file=/bed/boot/$1.kernel, address=$BOCHS_KERNEL"
	bochs "optramimage3: file=\"$initrd\", address=$BOCHS_INITRD"
	bochs "virtio: disk=/bed/image/root.img"
	# its output goes the same way as all other files
	: >"$run/stdout"
	: >"$run/stderr"
	ln "$run/stdout" "$run/stderr" "$machine/"
	printf '%s' "$bochsrc" >"$run/bochsrc"
}

# Has it ended by itself?
emulator_failed() {
	grep -q '>>PANIC<<' "$run/$EMULATOR_LOG"
}
