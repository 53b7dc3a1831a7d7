# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The bench's cache: a folder of finished, never changed results, each named by its step and by a
# hash of everything that went into it. A result is built under a temporary name and renamed when
# complete, so what has its final name is whole, and runs only ever read.

BED=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
PROJECT=$(cd "$BED/../.." && pwd -P)
CACHE=${KVM_VPMU_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/kvm-vpmu}
SUITE=trixie
# The kernels of hosts and guests, each with the suite that has it. The first is the default, which
# the mirror must have. Backports drop a kernel for the next one: the bench goes on without it.
KERNELS='6.12:trixie 6.1:bookworm 7.2:trixie-backports 7.3:trixie-backports'
# Those that Debian has besides: PREEMPT_RT, cloud flavours, and what backports had before. They are there
# with KVM_VPMU_KERNELS=all; other words in it replace KERNELS. The suite "built" is no suite of Debian's: such
# a kernel, 6.12-debug for instance, is built from the source of 6.12 with debug/debug.config.
MORE_KERNELS='6.12-rt:trixie 6.12-cloud:trixie 7.3-rt:trixie-backports 7.3-cloud:trixie-backports
	6.16:trixie-backports 6.17:trixie-backports 6.18:trixie-backports 6.19:trixie-backports
	7.0:trixie-backports 7.1:trixie-backports'
case ${KVM_VPMU_KERNELS:-} in
all) ;;
*) KERNELS=${KVM_VPMU_KERNELS:-$KERNELS} MORE_KERNELS='' ;;
esac

# The statuses that COMMAND's own can't be told from by number; a message always goes with them.
# shellcheck disable=SC2034 # for those that source this
{
	ST_KERNEL=123
	ST_TIMEOUT=124
	ST_BENCH=125
}

say() {
	echo "${0##*/}: $*" >&2
}

die() {
	say "$@"
	exit "$ST_BENCH"
}

# Each argument quoted for any shell, with a space before it
quote() {
	local word mark="'" quoted="'\\''"
	for word; do
		printf " '%s'" "${word//$mark/$quoted}"
	done
}

# What a list file names, one per line
list() {
	sed 's/#.*//; s/[[:space:]]//g; /^$/d' "$1"
}

key_of() {
	sha256sum | cut -c1-16
}

check_cache() {
	case $CACHE in
	/*/*) ;;
	*) die "KVM_VPMU_CACHE must be an absolute path below some directory, not '$CACHE'" ;;
	esac
}

cache_dir() {
	check_cache
	mkdir -p "$CACHE/tmp" "$CACHE/log" || die "can't make the cache folder $CACHE"
	CACHE=$(cd "$CACHE" && pwd -P)
}

# ---- what the build machine must have

missing_packages() {
	local package
	for package in $(list "$BED/packages"); do
		dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii' || echo "$package"
	done
}

# Debian 12's first keyring didn't know Debian 13's keys yet
keyring_is_old() {
	! ls /usr/share/keyrings/debian-archive-"$SUITE"-* >/dev/null 2>&1
}

check_machine() {
	local missing
	[ "$(id -u)" = 0 ] || die "must run as root (mounts, chroot)"
	[ "$(uname -m)" = x86_64 ] || die "needs an x86-64 build machine"
	missing=$(missing_packages | tr '\n' ' ')
	[ -z "$missing" ] || die "missing packages: $missing- run $BED/setup first"
	unshare --mount true 2>/dev/null || die "this machine doesn't allow mount namespaces (CAP_SYS_ADMIN)"
}

# The machine's own Debian mirror. Other archives and the security one are no mirror of $SUITE.
mirror() {
	# shellcheck disable=SC2016 # apt expands these
	apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(COMPONENT)|$(REPO_URI)' 'Created-By: Packages' |
		sed -n 's/^Debian|Debian|main|//p' | head -n 1
}

# ---- the steps: title_X what is shown; key_X a hash of what goes in; step_X builds into $1

STEPS='root kernel image qemu bochs boot vmm unpatched initramfs module testmodules checkpatch kselftests pfm4'

is_step() {
	[[ " $STEPS " = *" $1 "* ]]
}

in_root() {
	local root
	root=$(entry root)
	unshare --mount --propagation private -- "$BED/ns" "$root" "$@"
}

# The suites besides $SUITE that kernels come from
kernel_suites() {
	local kernel
	for kernel in $KERNELS $MORE_KERNELS; do
		echo "${kernel#*:}"
	done | grep -vx -e "$SUITE" -e built | sort -u
}

# A script for the root: install the newest of each kernel and its headers, without an initramfs, and
# without the drivers that take most of the place and that no emulated machine has.
#
# A mirror's index may name packages that are gone from its pool: the newest that can be fetched counts.
# Of earlier kernels of backports the index has the image only, and the pool the rest.
install_kernels() {
	local kernel
	echo "mirror='$1' default=${KERNELS%%:*}"
	for kernel in $KERNELS $MORE_KERNELS; do
		[ "${kernel#*:}" = built ] || echo "kernels=\"\${kernels:-} ${kernel%%:*}\""
	done
	cat <<-'EOF'
		export INITRD=No DEBIAN_FRONTEND=noninteractive
		# What a backported kernel needs is backported too, but apt wouldn't take it by itself.
		cat >/etc/apt/preferences.d/kernels <<-'PIN'
			Package: linux-base
			Pin: release n=*-backports
			Pin-Priority: 600
		PIN
		# versions NUMBER [FLAVOUR-]: its packages' versions, the newest first
		versions() {
			apt-cache pkgnames "linux-image-$1." | sort -rV |
				sed -nE "s/^linux-image-([0-9]+\.[0-9]+\.[0-9]+(-[0-9]+|\+deb[0-9]+)?-$2amd64)\$/\1/p"
		}
		# from_pool VERSION: what no index lists, into the folder pool
		from_pool() {
			abi=${1%-amd64}
			version=$(apt-cache show "linux-image-$1" | sed -n 's/^Version: //p' | head -n 1)
			for p in "linux-headers-$1 amd64" "linux-headers-$abi-common all" "linux-kbuild-$abi amd64" \
				"linux-base-$1 amd64" "linux-modules-$1 amd64"; do
				f=${p% *}_${version}_${p#* }.deb
				/usr/lib/apt/apt-helper download-file "${mirror%/}/pool/main/l/linux/$f" "/tmp/pool/$f" ||
					rm -f "/tmp/pool/$f"
			done
			[ -e "/tmp/pool/linux-headers-${1}_${version}_amd64.deb" ]
		}
		install() {
			apt-get -q -y --no-install-recommends "$@"
		}
		install_kernel() {
			flavour=${1#"${1%-*}"}
			flavour=${flavour#-}
			for v in $(versions "${1%-*}" "${flavour:+$flavour-}"); do
				set -- "linux-image-$v" "linux-headers-$v"
				if install --download-only install "$@"; then
					install install "$@"
					return
				fi
				mkdir /tmp/pool
				if from_pool "$v" && install install "linux-image-$v" /tmp/pool/*.deb; then
					rm -r /tmp/pool
					return
				fi
				rm -r /tmp/pool
			done
			return 1
		}
		for k in $kernels; do
			if ! install_kernel "$k"; then
				echo "left out: the mirror has no kernel $k"
				[ "$k" != "$default" ] || exit 1
			fi
		done
		for v in $(ls /lib/modules); do
			for d in gpu media infiniband staging net/ethernet net/wireless; do
				rm -rf "/lib/modules/$v/kernel/drivers/$d"
			done
			rm -rf "/lib/modules/$v/kernel/sound"
			depmod "$v"
		done
	EOF
}

title_root() { echo "Making the Debian $SUITE root"; }
key_root() {
	echo "$(key_packages) $KERNELS $MORE_KERNELS $(declare -f step_root install_kernels) $(built_kernels | sed 's|.*/||')" | key_of
}
# What is in the root but for kernels: compilers and libraries
key_packages() {
	{
		echo "$SUITE"
		list "$BED/root-packages" | sort
	} | key_of
}
step_root() {
	local out=$1 mirror kernel built=()
	mirror=$(mirror)
	if [ -z "$mirror" ]; then
		echo "error: apt knows no Debian mirror yet: run $BED/setup (or apt-get update)"
		return 1
	fi
	if keyring_is_old; then
		echo "error: debian-archive-keyring is too old to know $SUITE's keys: run $BED/setup to upgrade it"
		return 1
	fi
	# Proxies and the like of this machine hold for the root's downloads too.
	apt-config dump --format '%F "%v";%n' Acquire |
		grep -E '^Acquire::(https?::|Retries|Check-|ForceIPv)' >"$out.apt" || true
	install_kernels "$mirror" >"$out.kernels"
	for kernel in $(built_kernels); do
		built+=(--customize-hook="tar-in '$kernel/kernel.tar' /")
	done
	# shellcheck disable=SC2016 # the hook's own $1
	mmdebstrap --variant=apt --format=directory --aptopt="$out.apt" \
		--include="$(list "$BED/root-packages" | paste -sd,)" \
		--customize-hook='chroot "$1" sh -c "cd /usr/src && apt-get source --download-only qemu"' \
		--customize-hook="chroot \"\$1\" sh -eu <'$out.kernels'" "${built[@]}" \
		"$SUITE" "$out" "deb $mirror $SUITE main" "deb-src $mirror $SUITE main" \
		"$(kernel_suites | sed "s|.*|deb $mirror & main|")"
	rm -f "$out.apt" "$out.kernels"
}

BUILD_KERNEL=${BUILD_KERNEL:-6.12-debug}
# A kernel of the bench's own: BUILD_KERNEL names it. It is built in the root with Debian's
# kernels, and is unpacked into that with the suite "built".
title_kernel() { echo "Building the kernel $BUILD_KERNEL"; }
key_kernel() {
	{
		echo "$(key_packages) $BUILD_KERNEL $(declare -f step_kernel kernel_source)"
		cat "$BED/debug/common.config" "$BED/debug/${BUILD_KERNEL#*-}.config"
	} | key_of
}
step_kernel() {
	local out=$1 source=$1.source
	kernel_source "${BUILD_KERNEL%%-*}" "$source" 1 "*"
	mkdir -p "$out" "$CACHE/ccache-kernel"
	# shellcheck disable=SC2016 # expands in the root
	in_root --rw "$source" /source --rw "$out" /out --ro "$BED/debug" /debug --rw "$CACHE/ccache-kernel" /ccache -- \
		env CCACHE_DIR=/ccache CCACHE_MAXSIZE=2G flavour="${BUILD_KERNEL#*-}" sh -euc '
		cd /source
		make -s tinyconfig
		./scripts/kconfig/merge_config.sh -m .config /debug/common.config "/debug/$flavour.config" >/dev/null
		make -s olddefconfig
		missing=""
		for option in $(grep -h "^CONFIG_" /debug/common.config "/debug/$flavour.config"); do
			case $option in
			*=n) ! grep -q "^${option%n}" .config ;;
			*) grep -qxF "$option" .config ;;
			esac || missing="$missing $option"
		done
		[ -z "$missing" ] || {
			echo "error: not as asked for:$missing"
			exit 1
		}
		make -s -j"$(nproc)" CC="ccache gcc" bzImage modules
		release=$(make -s kernelrelease)
		tree=/out/tree
		headers=/usr/src/linux-headers-$release
		mkdir -p "$tree/boot" "$tree/usr/lib/modules/$release"
		make -s INSTALL_MOD_PATH="$tree/usr" modules_install
		make -s run-command KBUILD_RUN_COMMAND="\${srctree}/scripts/package/install-extmod-build $tree$headers"
		rm -f "$tree/usr/lib/modules/$release/build"
		ln -s "$headers" "$tree/usr/lib/modules/$release/build"
		cp arch/x86/boot/bzImage "$tree/boot/vmlinuz-$release"
		cp System.map "$tree/boot/System.map-$release"
		cp .config "$tree/boot/config-$release"
		# No folders: /lib and the like of the root stay as they are.
		cd "$tree"
		find . ! -type d | tar -c --owner=0 --group=0 --no-recursion -f /out/kernel.tar -T -
		rm -rf "$tree"
	'
	rm -rf "$source"
}

# Where they are, or are going to be
built_kernels() {
	local kernel
	for kernel in $KERNELS $MORE_KERNELS; do
		[ "${kernel#*:}" != built ] || echo "$CACHE/kernel-$(BUILD_KERNEL=${kernel%%:*} key_kernel)"
	done
}

# The root once more, as one file: a machine's own file system asks its host for blocks, with read-ahead,
# where 9p asks for each name, and in a guest each question passes two emulated machines.
title_image() { echo "Making the machines' disk"; }
key_image() {
	echo "$(key_root) $(declare -f step_image)" | key_of
}
step_image() {
	local out=$1
	mkdir -p "$out"
	in_root --ro "$(entry root)" /bed/root --rw "$out" /out -- \
		mkfs.erofs --quiet -x-1 -T0 --exclude-regex='^usr/src/.*\.tar\..*' /out/root.img /bed/root
}

# The source package has no firmware; its build system asks for the files all the same.
QEMU_EMPTY='aarch64-code arm-code arm-vars i386-code i386-secure-code i386-vars loongarch64-code
	loongarch64-vars riscv-code riscv-vars x86_64-code x86_64-secure-code'
QEMU_CONFIGURE='--target-list=x86_64-softmmu --without-default-features --enable-system --enable-tcg
	--enable-kvm --enable-virtfs --enable-attr --enable-cap-ng --enable-vhost-user --enable-pixman --enable-fdt=system
	--disable-install-blobs --without-default-devices --with-devices-x86_64=bench'
# A third less to compile, and of what a patch to target/i386 touches three quarters less
QEMU_DEVICES='Q35 ISA_DEBUG VIRTIO_PCI VIRTIO_BLK VIRTIO_9P VIRTIO_SERIAL VIRTIO_NET VHOST_USER_FS'

# qemu_patches SERIES
qemu_patches() {
	find "$PROJECT/qemu-patch/$1" -maxdepth 1 -name '*.patch' 2>/dev/null | LC_ALL=C sort || true
}

# build_qemu OUT [PATCH]...
build_qemu() {
	local out=$1 build=$1.build
	shift
	mkdir -p "$build/patches" "$CACHE/ccache" "$out"
	[ $# -eq 0 ] || cp "$@" "$build/patches/"
	# The same build path each time: with it, a changed patch recompiles only what it touches.
	# shellcheck disable=SC2016 # expands in the root
	in_root --rw "$build" /build --rw "$CACHE/ccache" /ccache --rw "$out" /out -- \
		env EMPTY="$QEMU_EMPTY" CONFIGURE="$QEMU_CONFIGURE" DEVICES="$QEMU_DEVICES" \
		CCACHE_DIR=/ccache CCACHE_MAXSIZE=1G sh -euc '
		cd /build
		mkdir src
		tar -xf /usr/src/qemu_*.orig.tar.xz -C src --strip-components=1
		for f in $EMPTY; do
			: >"src/pc-bios/edk2-$f.fd.bz2"
		done
		for d in $DEVICES; do
			echo "CONFIG_$d=y"
		done >src/configs/devices/x86_64-softmmu/bench.mak
		for p in patches/*.patch; do
			[ -e "$p" ] || continue
			echo "patch: ${p##*/}"
			patch -d src -p1 --forward --no-backup-if-mismatch <"$p"
		done
		mkdir b
		cd b
		../src/configure --cc="ccache gcc" $CONFIGURE
		ninja qemu-system-x86_64
		strip -g -o /out/qemu-system-x86_64 qemu-system-x86_64
	'
	rm -rf "$build"
}

key_patched() {
	local patch
	{
		key_unpatched
		qemu_patches "$1" | while read -r patch; do
			echo "${patch##*/}"
			cat "$patch"
		done
	} | key_of
}

step_patched() {
	local patches
	mapfile -t patches < <(qemu_patches "$1")
	build_qemu "$2" "${patches[@]}"
}

title_qemu() { echo "Building the emulator"; }
key_qemu() { key_patched tcg; }
step_qemu() { step_patched tcg "$1"; }

# For guests: QEMU that knows of the module
title_vmm() { echo "Building QEMU for guests"; }
key_vmm() { key_patched kvm-10.0; }
step_vmm() { step_patched kvm-10.0 "$1"; }

# What the patches are compared with (speed)
title_unpatched() { echo "Building the emulator without patches"; }
key_unpatched() {
	echo "$(key_packages) $QEMU_CONFIGURE $QEMU_DEVICES $(declare -f build_qemu)" | key_of
}
step_unpatched() { build_qemu "$1"; }

# Of the package only the upstream part is wanted, and mirrors have it even where they miss the rest.
BOCHS_SOURCE=pool/main/b/bochs/bochs_3.0+dfsg.orig.tar.xz
BOCHS_SHA256=78f6c73d4a6472d5130a87ab9dc306d02c7c71ed8e25b3a8ef642e2a7acd282b
BOCHS_CONFIGURE='--with-nogui --enable-cpu-level=6 --enable-x86-64 --enable-smp --enable-vmx=2 --enable-cet
	--enable-avx --enable-evex --enable-amx --enable-uintr --enable-protection-keys --enable-memtype
	--enable-repeat-speedups --enable-fast-function-calls --enable-handlers-chaining
	--enable-trace-linking --disable-large-ramfile --disable-cdrom --disable-readline
	--disable-docbook --disable-xpm'

bochs_patches() {
	find "$BED/bochs-patch" -maxdepth 1 -name '*.patch' 2>/dev/null | LC_ALL=C sort || true
}

title_bochs() { echo "Building the Intel hosts' emulator"; }
key_bochs() {
	local patch
	{
		echo "$(key_packages) $BOCHS_SHA256 $BOCHS_CONFIGURE $(declare -f step_bochs)"
		bochs_patches | while read -r patch; do
			echo "${patch##*/}"
			cat "$patch"
		done
	} | key_of
}
step_bochs() {
	local out=$1 build=$1.build mirror patches
	mirror=$(mirror)
	mkdir -p "$build/patches" "$CACHE/ccache" "$out"
	mapfile -t patches < <(bochs_patches)
	[ ${#patches[@]} -eq 0 ] || cp "${patches[@]}" "$build/patches/"
	/usr/lib/apt/apt-helper download-file "${mirror%/}/$BOCHS_SOURCE" "$build/source.tar.xz" \
		"SHA256:$BOCHS_SHA256"
	# shellcheck disable=SC2016 # expands in the root
	in_root --rw "$build" /build --rw "$CACHE/ccache" /ccache --rw "$out" /out -- \
		env CONFIGURE="$BOCHS_CONFIGURE" CCACHE_DIR=/ccache CCACHE_MAXSIZE=1G sh -euc '
		cd /build
		mkdir src b
		tar -xf source.tar.xz -C src --strip-components=1
		for p in patches/*.patch; do
			[ -e "$p" ] || continue
			echo "patch: ${p##*/}"
			patch -d src -p1 --forward --no-backup-if-mismatch <"$p"
		done
		cd b
		../src/configure CC="ccache gcc" CXX="ccache g++" CXXFLAGS="-O3 -g1" $CONFIGURE
		make -j"$(nproc)" bochs
		strip -g -o /out/bochs bochs
	'
	rm -rf "$build"
}

# What Bochs finds in memory and as its VGA BIOS. A kernel's file is its real-mode part, which gets the
# fields of its header that are the same for all runs, and the rest.
title_boot() { echo "Making the Intel hosts' boot code"; }
key_boot() {
	{
		echo "$(key_root) $(declare -f step_boot)"
		cat "$BED/bochs/"*.S
	} | key_of
}
step_boot() {
	local out=$1
	mkdir -p "$out"
	# shellcheck disable=SC2016 # expands in the root
	in_root --ro "$BED/bochs" /bochs --rw "$out" /out -- sh -euc '
		for name in rom multiboot; do
			gcc -m32 -c -o "/tmp/$name.o" "/bochs/$name.S"
			ld -m elf_i386 -Ttext 0 --oformat binary -o "/out/$name" "/tmp/$name.o"
		done
		python3 - <<-"EOF"
			import glob, struct

			# A ROM is whole blocks, and the sum of its bytes is 0.
			with open("/out/rom", "rb+") as f:
			    rom = f.read().ljust(511, b"\0")
			    f.seek(0)
			    f.write(rom + bytes([-sum(rom) & 255]))

			# Linux, Documentation/arch/x86/boot.rst, "The Real-Mode Kernel Header"
			for path in glob.glob("/boot/vmlinuz-*"):
			    with open(path, "rb") as f:
			        image = f.read()
			    size = (image[0x1f1] + 1) * 512
			    setup = bytearray(image[:size])
			    setup[0x210] = 0xff                            # type_of_loader: unknown
			    setup[0x211] |= 0x80                           # loadflags: CAN_USE_HEAP
			    struct.pack_into("<I", setup, 0x218, 0x8000000)  # ramdisk_image
			    struct.pack_into("<H", setup, 0x224, 0xde00)   # heap_end_ptr
			    struct.pack_into("<I", setup, 0x228, 0x30000)  # cmd_line_ptr
			    name = "/out/" + path[len("/boot/vmlinuz-"):]
			    with open(name + ".setup", "wb") as f:
			        f.write(setup)
			    with open(name + ".kernel", "wb") as f:
			        f.write(image[size:])
		EOF
	'
}

# The full version of the root's kernel for a short one (6.12, 6.12-rt)
kernel_version() {
	local dir flavour=${1#"${1%-*}"}
	for dir in "$(entry root)/lib/modules/${1%-*}".*"$flavour-amd64"; do
		[ -n "$flavour" ] || [[ ! $dir =~ -[a-z]+-amd64$ ]] || continue
		[ -d "$dir" ] && echo "${dir##*/}"
	done | sort -V | tail -n 1
}

# Each kernel the root has gets an initramfs: a guest may run another one than its host.
title_initramfs() { echo "Making the initramfs"; }
key_initramfs() {
	{
		echo "$(key_root) $(declare -f step_initramfs)"
		cat "$BED/machine/"{early-init,init,trouble,vpmu-guest}
	} | key_of
}
step_initramfs() {
	local out=$1
	mkdir -p "$out"
	# Modules go in uncompressed: unpacking xz under emulation takes longer than reading it.
	# shellcheck disable=SC2016 # expands in the root
	in_root --ro "$BED/machine" /machine --rw "$out" /out -- sh -euc '
		for v in $(ls /lib/modules); do
			rm -rf /tmp/i
			for d in bin bed modules dev lower rw new; do
				mkdir -p "/tmp/i/$d"
			done
			cp /bin/busybox /tmp/i/bin/
			install -m 755 /machine/early-init /tmp/i/init
			install -m 755 /machine/init /machine/vpmu-guest /machine/trouble /tmp/i/bed/
			case $v in
			*-cloud-*) share=virtiofs ;;
			*) share="9p 9pnet_virtio" ;;
			esac
			: >/tmp/i/modules/order
			for m in virtio_pci virtio_blk virtio_console erofs $share overlay; do
				modprobe -S "$v" --show-depends "$m"
			done | sed -n "s/^insmod //p" | awk "!seen[\$1]++ { print \$1 }" | while read -r ko; do
				name=$(basename "${ko%.xz}")
				case $ko in
				*.xz) xz -dc "$ko" ;;
				*) cat "$ko" ;;
				esac >"/tmp/i/modules/$name"
				echo "$name" >>/tmp/i/modules/order
			done
			(cd /tmp/i && find . | cpio -o -H newc --quiet) >"/out/$v"
		done
	'
}

# Build a copy of the sources, and name the result by what the copy holds: the tree may change meanwhile.
module_sources() {
	(
		cd "$PROJECT"
		for dir in kmod include; do
			[ ! -d "$dir" ] || find "$dir" -type f ! -name '*.o' ! -name '*.ko' ! -name '*.mod' \
				! -name '*.mod.c' ! -name '.*' ! -name modules.order ! -name Module.symvers -print0
		done | LC_ALL=C sort -z
	)
}

title_module() { echo "Building kvm_vpmu.ko"; }
key_module() {
	{
		echo "$(key_root) $(declare -f step_module) $FOR_EACH_KERNEL"
		module_sources | (cd "$PROJECT" && xargs -0 -r sha256sum)
	} | key_of
}
step_module() {
	local out=$1 build=$1.build
	if [ ! -e "$PROJECT/kmod/Kbuild" ] && [ ! -e "$PROJECT/kmod/Makefile" ]; then
		echo "error: $PROJECT/kmod has no module to build (--no-module runs without)"
		return 1
	fi
	mkdir -p "$build" "$CACHE/ccache" "$out"
	module_sources | (cd "$PROJECT" && xargs -0 -r cp --parents -t "$build")
	# shellcheck disable=SC2016 # expands in the root
	in_root --rw "$build" /build --rw "$CACHE/ccache" /ccache --rw "$out" /out -- sh -euc "$FOR_EACH_KERNEL"'
		build() {
			cp -r /build "/tmp/$1"
			make -s -C "/usr/src/linux-headers-$1" M="/tmp/$1/kmod" modules
			mkdir "/out/$1"
			cp "/tmp/$1/kmod/kvm_vpmu.ko" "/tmp/$1/kmod/kvm_vpmu_guest.ko" "/out/$1/"
		}
		for_each_kernel build
	'
	rm -rf "$build"
}

# A function for scripts in the root: run FUNCTION KERNEL for all kernels at once, or for those only whose
# version begins with KVM_VPMU_MODULES. What a compiler made before comes from /ccache.
# shellcheck disable=SC2016 # expands there
FOR_EACH_KERNEL="only='${KVM_VPMU_MODULES:-}'"'
	export CCACHE_DIR=/ccache CCACHE_MAXSIZE=1G PATH="/usr/lib/ccache:$PATH"
	for_each_kernel() {
		pids=
		for v in $(ls /lib/modules); do
			case $v in
			"$only"*) ;;
			*) continue ;;
			esac
			"$1" "$v" &
			pids="$pids $!"
		done
		for pid in $pids; do
			wait "$pid"
		done
	}
'

# The module, and others, as tests load them
title_testmodules() { echo "Building modules for tests"; }
key_testmodules() {
	{
		key_module
		declare -f step_testmodules
		cat "$PROJECT/selftests/modules/"*
	} | key_of
}
step_testmodules() {
	local out=$1 build=$1.build
	mkdir -p "$build" "$CACHE/ccache" "$out"
	module_sources | (cd "$PROJECT" && xargs -0 -r cp --parents -t "$build")
	cp -r "$PROJECT/selftests/modules" "$build/"
	# shellcheck disable=SC2016 # expands in the root
	in_root --rw "$build" /build --rw "$CACHE/ccache" /ccache --rw "$out" /out -- sh -euc "$FOR_EACH_KERNEL"'
		# variant KERNEL NAME SOURCE [FLAGS]
		variant() {
			mkdir -p "/tmp/$1/$2"
			cp -r /build/include "/tmp/$1/"
			cp -r "/build/$3/." "/tmp/$1/$2"
			make -s -C "/usr/src/linux-headers-$1" M="/tmp/$1/$2" KCFLAGS="${4:-}" modules
			mkdir -p "/out/$2/$1"
			strip -g "/tmp/$1/$2"/*.ko
			cp "/tmp/$1/$2"/*.ko "/tmp/$1/$2/modules.order" "/out/$2/$1/"
		}
		build() {
			variant "$1" modules modules
			variant "$1" module kmod
			# thinks that it was built for a kernel later than any that was seen
			variant "$1" unknown kmod -DCOMPAT_KERNEL=0x080000
			# expects structures that no kernel has
			variant "$1" shifted kmod -DCOMPAT_TEST_SHIFT
		}
		for_each_kernel build
	'
	rm -rf "$build"
}

# root_kernels LIST: those of KERNELS or MORE_KERNELS that the root has, in short (6.12), in that order
root_kernels() {
	local kernel
	for kernel in $1; do
		[ -z "$(kernel_version "${kernel%%:*}")" ] || echo "${kernel%%:*}"
	done
}

# The newest of KERNELS, which needn't be the default
newest_kernel() {
	root_kernels "$KERNELS" | sort -V | tail -n 1
}

# kernel_source KERNEL OUT STRIP PATTERN...: what matches of that kernel's source, into OUT, without the
# first STRIP parts of its names
kernel_source() {
	local kernel=$1 out=$2 build=$2.build
	shift 2
	mkdir -p "$out" "$build/lists/partial" "$build/archives/partial"
	# shellcheck disable=SC2016 # expands in the root
	in_root --rw "$build/lists" /var/lib/apt/lists --rw "$build/archives" /var/cache/apt \
		--ro /etc/resolv.conf /etc/resolv.conf --rw "$build" /build --rw "$out" /out -- \
		env kernel="$kernel" sh -euc '
		strip=$1
		shift
		apt-get -q update
		cd /build
		# apt would drop to a user that may not write here
		apt-get -q -o APT::Sandbox::User=root download "linux-source-$kernel"
		dpkg-deb --fsys-tarfile linux-source-*.deb | tar -xO --wildcards "*/linux-source-*.tar.xz" |
			xz -dc -T0 | tar -x -C /out --strip-components="$strip" --wildcards \
			--no-wildcards-match-slash "$@"
	' sh "$@"
	rm -rf "$build"
}

# checkpatch comes with the kernel's source.
title_checkpatch() { echo "Fetching checkpatch"; }
key_checkpatch() {
	echo "$(key_root) $(declare -f step_checkpatch kernel_source)" | key_of
}
step_checkpatch() {
	kernel_source "${KERNELS%%:*}" "$1" 2 "*/scripts/checkpatch.pl" "*/scripts/spelling.txt" \
		"*/scripts/const_structs.checkpatch"
}

# The kernel's own tests of KVM's PMU: the newest, for all kernels of hosts. Older ones want events to
# count that the CPU doesn't have. They need the headers of their kernel.
title_kselftests() { echo "Building the kernel's own tests"; }
key_kselftests() {
	echo "$(key_root) $(declare -f step_kselftests kernel_source newest_kernel root_kernels)" | key_of
}
step_kselftests() {
	local out=$1 source=$1.source
	kernel_source "$(newest_kernel)" "$source" 1 "*/Makefile" "*/scripts" "*/include/uapi" \
		"*/arch/x86/Makefile*" "*/arch/x86/include/uapi" "*/arch/x86/include/asm/Kbuild" \
		"*/arch/x86/tools" "*/arch/x86/entry/syscalls" "*/tools/testing/selftests" "*/tools/include" \
		"*/tools/arch/x86/include" "*/tools/build" "*/tools/scripts" "*/tools/lib/rbtree.c" \
		"*/include/linux/pci_ids.h" "*/drivers/dma/*/*.h" "*/drivers/net/ethernet/intel/igb/*.h"
	mkdir -p "$out"
	# shellcheck disable=SC2016 # expands in the root
	in_root --rw "$source" /source --rw "$out" /out -- sh -euc '
		make -s -C /source headers
		cd /source/tools/testing/selftests/kvm
		# Linux before 6.14 has another name for the folder.
		arch=x86
		[ -d x86 ] || arch=x86_64
		for test in pmu_event_filter_test pmu_counters_test; do
			make -s -j "$(nproc)" OUTPUT=/tmp/tests "/tmp/tests/$arch/$test"
			cp "/tmp/tests/$arch/$test" /out/
		done
	'
	rm -rf "$source"
}

# The examples of libpfm4 are tools that count; Debian has them in the source package only. Any suite's
# will do, a mirror may lack the newest one's. They get the library of the root.
title_pfm4() { echo "Building libpfm4's examples"; }
key_pfm4() {
	echo "$(key_packages) $(declare -f step_pfm4)" | key_of
}
step_pfm4() {
	local out=$1 build=$1.build
	mkdir -p "$out" "$build/lists/partial" "$build/archives/partial"
	# shellcheck disable=SC2016 # expands in the root
	in_root --rw "$build/lists" /var/lib/apt/lists --rw "$build/archives" /var/cache/apt \
		--ro /etc/resolv.conf /etc/resolv.conf --rw "$build" /build --rw "$out" /out -- sh -euc '
		cd /build
		sed -n "s/^deb-src/deb/; s/^deb /deb-src /p" /etc/apt/sources.list | sort -u >sources
		# apt would drop to a user that may not write here
		apt="-q -o Dir::Etc::SourceList=/build/sources -o APT::Sandbox::User=root"
		apt-get $apt update
		for v in $(apt-cache $apt showsrc libpfm4 | sed -n "s/^Version: //p" | sort -rVu); do
			if apt-get $apt source --download-only "libpfm4=$v"; then
				break
			fi
		done
		tar -xf libpfm4_*.orig.tar.*
		cd libpfm-*/perf_examples
		make PFMLIB=/usr/lib/x86_64-linux-gnu/libpfm.a
		install -s -t /out $(find . -maxdepth 1 -type f -perm /100 ! -name "*.c")
	'
	rm -rf "$build"
}

# ---- building what is missing

# The place of a step's result for the inputs as they are now
entry() {
	local var=ENTRY_$1
	# A run sees one state of the sources, even when they change under it.
	[ -n "${!var:-}" ] || printf -v "$var" '%s' "$CACHE/$1-$("key_$1")"
	echo "${!var}"
}

# Build those of the steps that are missing. Must be called plainly, never in a condition: there bash
# would ignore set -e in the steps.
ensure() {
	local step kernel missing=() done=0 held
	for step in "$@"; do
		entry "$step" >/dev/null
		printf -v "ENTRY_$step" '%s' "$(entry "$step")"
		[ -e "$(entry "$step")" ] || missing+=("$step")
	done
	# Built in another root: before this one's lock is taken
	if [[ " ${missing[*]} " = *" root "* ]]; then
		for kernel in $KERNELS $MORE_KERNELS; do
			[ "${kernel#*:}" != built ] ||
				KVM_VPMU_KERNELS='' BUILD_KERNEL=${kernel%%:*} "$BED/build" root kernel || exit
		done
	fi
	for step in "${missing[@]}"; do
		done=$((done + 1))
		exec 8>"$CACHE/tmp/$step.lock"
		if ! flock -n 8; then
			say "waiting for another one: $("title_$step")"
			flock 8
		fi
		# Whoever holds the lock is the only builder: what lies here is of one that was killed.
		rm -rf "$CACHE/tmp/$step"-*
		[ -e "$(entry "$step")" ] || build_step "$step" "[$done/${#missing[@]}]"
		exec 8>&-
	done
	for step in "$@"; do
		touch -c "$(entry "$step")"
		# Held until this process and its machines end: nobody removes what is in use.
		exec {held}<"$(entry "$step")"
		flock -s "$held"
	done
}

build_step() {
	local step=$1 mark=$2 to tmp log title pid start=$SECONDS shown=0 size=0
	to=$(entry "$step")
	tmp=$CACHE/tmp/${to##*/}
	log=$CACHE/log/$step.log
	title=$("title_$step")
	(
		set -euo pipefail
		"step_$step" "$tmp"
	) >"$log" 2>&1 </dev/null 8>&- &
	pid=$!
	# shellcheck disable=SC2064 # this step's process
	trap "kill $pid 2>/dev/null; exit $ST_BENCH" INT TERM
	[ -t 2 ] || echo "$mark $title ..." >&2
	while kill -0 "$pid" 2>/dev/null; do
		if [ -t 2 ] && [ "$SECONDS" -ge "$shown" ]; then
			[ $((SECONDS - start)) -lt 3 ] || size=$(size_of "$tmp"*)
			printf '\r%s %s ... %d s, %s\033[K' "$mark" "$title" $((SECONDS - start)) "$size" >&2
			shown=$((SECONDS + 2))
		fi
		sleep 0.2
	done
	trap - INT TERM
	if ! wait "$pid"; then
		[ ! -t 2 ] || echo >&2
		say "$title failed, the end of $log:"
		tail -n 25 "$log" >&2
		exit "$ST_BENCH"
	fi
	mv "$tmp" "$to"
	[ ! -t 2 ] || printf '\r' >&2
	printf '%s %s ... %d s, %s' "$mark" "$title" $((SECONDS - start)) "$(size_of "$to")" >&2
	[ ! -t 2 ] || printf '\033[K' >&2
	echo >&2
	forget_old "$step"
}

size_of() {
	du -scm "$@" 2>/dev/null | sed -n '$s/[^0-9].*/ MB/p'
}

# Keep the two results of a step that were used last, those used today (several checkouts may share
# the cache), and any that somebody holds.
forget_old() {
	local old
	# shellcheck disable=SC2012 # names are our own
	ls -1dt "$CACHE/$1"-* | tail -n +3 | while read -r old; do
		[ -z "$(find "$old" -maxdepth 0 -mmin +1440)" ] || flock -n "$old" rm -rf "$old" || true
	done
}
