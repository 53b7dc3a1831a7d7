#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host, with the patched QEMU (BUILD/vmm): libvirt starts what docs/qemu.md shows. Needs BUILD.
# libvirt's QEMU driver runs within virt-qemu-run, not as a daemon; all that it does to start a VM is the same.

. "$(dirname "$0")/../tap.sh"
docs=$(dirname "$0")/../../docs/qemu.md
# where the tests are installed
[ -e "$docs" ] || docs=$(dirname "$0")/qemu.md
dir=$(mktemp -d)

# As Debian's and our udev rules have them
chgrp kvm /dev/kvm /dev/kvm-vpmu
chmod 660 /dev/kvm /dev/kvm-vpmu

# The domain with what docs/qemu.md adds to it (with a freeze mode that isn't the default), and a guest that counts
# for ever and says so (the bare-metal suite's "steady")
domain() {
	cat <<-EOF
		<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
		  <name>guest</name>
		  <memory unit='MiB'>64</memory>
		  <vcpu>1</vcpu>
		  <os>
		    <type arch='x86_64' machine='q35'>hvm</type>
		    <kernel>$dir/pmu.elf</kernel>
		    <cmdline>steady</cmdline>
		  </os>
		  <devices>
		    <emulator>$dir/qemu</emulator>
		    <controller type='usb' model='none'/>
		    <memballoon model='none'/>
		  </devices>
	EOF
	sed -n "/<domain type=/,/<\/domain>/p" "$docs" | sed '/<domain/d; /\.\.\.$/d' | sed "
		s/hybrid/guest/
		/<cpu/s/\/>/><feature policy='disable' name='svm'\/><\/cpu>/
		s/^ *<\/qemu:commandline>/<qemu:arg value='-debugcon'\/><qemu:arg value='file:\/dev\/shm\/out'\/>&/"
}

# run_domain: with all that is libvirt's in a folder of its own
run_domain() {
	virt-qemu-run -r "$dir/root" "$dir/domain.xml" >"$dir/run" 2>&1
}

# QEMU's user has to get there.
chmod 755 "$dir"
mkdir -p "$dir/root/etc" "$dir/root/log/qemu"
cp "$BUILD/bare/pmu.elf" "$dir/"
cp "$BUILD/vmm/qemu-system-x86_64" "$dir/qemu.real"
# Debian's QEMU knows these folders by itself.
printf '#!/bin/sh\nexec %s -L /usr/share/seabios -L /usr/share/qemu "$@"\n' "$dir/qemu.real" >"$dir/qemu"
chmod 755 "$dir"/qemu*
domain >"$dir/domain.xml"

virt-xml-validate "$dir/domain.xml" domain >"$dir/validated" 2>&1
is "the domain is valid" $? 0
sed 's/^/# /' "$dir/validated"

# no virtlogd here
echo 'stdio_handler = "file"' >"$dir/root/etc/qemu.conf"
run_domain
is "without the device it doesn't start" $? 1
is "and says so" "$(grep -c "/dev/kvm-vpmu" "$dir/run")" 1
sed 's/^/# /' "$dir/run"

# What docs/qemu.md adds to qemu.conf
sed -n '/^    cgroup_device_acl/,/^    \]/p' "$docs" >>"$dir/root/etc/qemu.conf"
run_domain &
out=''
for ((n = 0; n < 1800; n++)); do
	pid=$(pgrep -f "^$dir/qemu.real .*-name guest=guest") && out=/proc/$pid/root/dev/shm/out
	! grep -q 'each round' "$out" 2>/dev/null || [ "$(tr -cd . <"$out" | wc -c)" -lt 200 ] || break
	kill -0 $! 2>/dev/null || break
	sleep 0.1
done
within "with it the guest counts, for rounds" "$(tr -cd . <"$out" | wc -c)" 200 1000000000
is "of which wrong" "$(grep -c wrong "$out")" 0
is "in the freeze mode of the domain" "$("$BUILD/programs/figures" vcpus | grep -o 'freeze [0-9]*')" "freeze 1"
kill $!
wait
sed 's/^/# /' "$dir/run"

rm -rf "$dir"
finish
