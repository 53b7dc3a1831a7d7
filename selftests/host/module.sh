#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host: what the module says and leaves behind where it can't work, and that it
# comes and goes cleanly where it can. Needs BUILD, the folder of built tests; the argument says how often.

cd "$(dirname "$0")" || exit
. ../tap.sh
. ./refused.sh
rawvm=$BUILD/programs/rawvm
module=$BUILD/module/$(uname -r)/kvm_vpmu.ko
times=${1:-100}

# One function that the module hooks by a stub of its own, and one that it redirects
for symbol in kvm_pmu_get_msr kvm_pmu_refresh; do
	insmod "$BUILD/modules/$(uname -r)/taker.ko" symbol=$symbol || exit
	refused "$symbol, taken by somebody else" "Device or resource busy" "$symbol is taken" "$module"
	rmmod taker
done

symbol=svm_get_cpl
[ $kvm = kvm_amd ] || symbol=vmx_get_cpl
modprobe -r $kvm
mkdir -p /run/modprobe.d
echo "install $kvm /bin/false" >/run/modprobe.d/none.conf
kvm_users='' refused "$kvm can't be loaded" "Unknown symbol in module" \
	"$symbol not found" "$module"
rm /run/modprobe.d/none.conf
insmod "$module"
is "insmod loads $kvm" "$(grep -c "^$kvm " /proc/modules)" 1
rmmod $kvm 2>/dev/null
is "$kvm stays as long as the module" "$(grep -c "^$kvm " /proc/modules)" 1
rmmod kvm_vpmu

modprobe -r $kvm kvm
modprobe kvm enable_pmu=0
modprobe $kvm
refused "KVM without a vPMU" "No such device" "enable_pmu=0" "$module"
modprobe -r $kvm kvm
modprobe $kvm

refused "a version that is none" "Invalid parameters" "intel_version" "$module" intel_version=7

# A kernel that no test has seen: refused, but where the owner says otherwise
unknown=$BUILD/unknown/$(uname -r)/kvm_vpmu.ko
refused "an unknown kernel" "Operation not supported" "allow_untested=1" "$unknown"
dmesg -C
insmod "$unknown" allow_untested=1
is "an unknown kernel, allowed: it warns" "$(dmesg | grep -c 'no test has seen kernel')" 1
is "an unknown kernel, allowed: exact" "$("$rawvm" count 1000)" 2004
rmmod kvm_vpmu

# Linux 6.1 leaves the global control as it is until host perf has an event on a CPU.
if grep -q perfmon_v2 /proc/cpuinfo; then
	modprobe msr
	insmod "$module"
	printf '\0\0\0\0\0\0\0\0' | dd of=/dev/cpu/0/msr bs=8 oflag=seek_bytes seek=$((0xc0000301)) status=none
	is "a CPU that host perf didn't use yet: exact" "$(taskset -c 0 "$rawvm" count 1000)" 2004
	rmmod kvm_vpmu
fi

# A kernel without one of the functions that the module needs: the module that looks for another name.
# All kernels have the same but for the vendor's; a host where the module is loaded a few times has these only.
needed="kvm_pmu_get_msr"
if [ $kvm = kvm_amd ]; then
	needed+=" svm_get_cpl svm_get_exit_info svm_vcpu_run enter_svm_guest_mode nested_svm_vmexit"
else
	needed+=" vmx_get_exit_info vmx_vcpu_run nested_vmx_enter_non_root_mode perf_guest_get_msrs perf_events_lapic_init"
	grep -q ' vmx_get_cpl_no_cache' /proc/kallsyms || needed+=" vmx_get_cpl"
fi
[ "$times" -le 5 ] || needed+=" __module_address kallsyms_lookup_name kvm_msr_allowed file_is_kvm kvm_pmu_deliver_pmi
	kvm_pmu_is_valid_msr kvm_pmu_set_msr kvm_pmu_rdpmc kvm_pmu_handle_event kvm_arch_vcpu_load
	kvm_arch_vcpu_put x86_pmu_start x86_pmu_stop x86_perf_event_set_period perf_event_nmi_handler kvm_vcpu_halt
	kvm_vcpu_reset kvm_arch_destroy_vm kvm_vcpu_ioctl_set_cpuid kvm_vcpu_ioctl_set_cpuid2
	kvm_vcpu_ioctl_get_cpuid2 kvm_pmu_refresh kvm_pmu_destroy kvm_arch_vcpu_create
	kvm_skip_emulated_instruction"
for symbol in $needed; do
	LC_ALL=C sed "s/\(^\|[^[:alnum:]_]\)$symbol\x00/\1${symbol%?}Q\x00/g" "$module" >/tmp/renamed.ko
	refused "no $symbol" "Unknown symbol in module" "${symbol%?}Q not found" /tmp/renamed.ko
done
rm -f /tmp/renamed.ko

# Structures that aren't what the module expects: what depends on them is off, and the module says so.
dmesg -C
insmod "$BUILD/shifted/$(uname -r)/kvm_vpmu.ko"
is "another cpu_hw_events: it says so" "$(dmesg | grep -c "cpu_hw_events isn't as expected")" 1
is "another cpu_hw_events: exact" "$("$rawvm" count 1000)" 2004
if [ $kvm = kvm_amd ]; then
	is "another struct vcpu_svm: it says so" "$(dmesg | grep -c "vcpu_svm isn't laid out as expected")" 1
fi
"$BUILD/kvm/event_filter" >/dev/null 2>&1
wrong=$?
case $(dmesg | grep -c "event filter isn't laid out as expected") in
0) is "KVM's event filter is public" "$wrong" 0 ;;
*) is "another event filter: its VMs count nothing" "$wrong" 1 ;;
esac
rmmod kvm_vpmu

# A CPU that counts VM entries, which AMD's are measured for: not by entries that fail
if [ $kvm = kvm_amd ]; then
	dmesg -C
	insmod "$module"
	is "entries fail" "$("$rawvm" invalid)" "exit reason 9"
	is "they measure nothing" "$(dmesg | grep -c "VM entries")" 0
	is "a counter that runs at the first one: exact" "$("$rawvm" restored 1000)" 2003
	is "entries that don't fail do" "$(dmesg | grep "VM entries" | sed 's/.*kvm_vpmu: //')" \
		"this CPU counts VM entries, as measured"
	rmmod kvm_vpmu
fi

# A VM holds the module.
insmod "$module" || exit
coproc "$rawvm" hold
# shellcheck disable=SC2154 # by coproc
read -r running <&"${COPROC[0]}"
is "a VM runs" "$running" running
rmmod kvm_vpmu 2>/dev/null
is "rmmod while it does: refused" "$(grep -c '^kvm_vpmu ' /proc/modules)" 1
eval "exec ${COPROC[1]}>&-"
# shellcheck disable=SC2154 # by coproc
wait "$COPROC_PID"
rmmod kvm_vpmu
is "rmmod after it ended" "$(grep -c '^kvm_vpmu ' /proc/modules)" 0

# A VM that was made before, and gets another vCPU: all of its vCPUs have the same PMU.
coproc "$rawvm" hold
read -r running <&"${COPROC[0]}"
insmod "$module" || exit
echo -n + >&"${COPROC[1]}"
read -r running <&"${COPROC[0]}"
is "a VM of before gets another vCPU" "$running" "1 more"
is "the VM keeps KVM's PMU" "$("$BUILD/vpmu/vpmu" list | tail -n +2 | wc -l)" 0
eval "exec ${COPROC[1]}>&-"
# shellcheck disable=SC2154 # by coproc
wait "$COPROC_PID"
rmmod kvm_vpmu

# Load, count, unload.
slab() {
	awk '/^kmalloc-(512|1k|2k) |^kmalloc-cg-(512|1k|2k) / { n += $2 * $4 } END { print n }' /proc/slabinfo
}
for _ in 1 2 3; do
	insmod "$module" && "$rawvm" count 10 >/dev/null && rmmod kvm_vpmu
done
before=$(slab)
n=0
for ((i = 0; i < times; i++)); do
	insmod "$module" || break
	got=$("$rawvm" count 1000)
	rmmod kvm_vpmu || break
	[ "$got" = 2004 ] && n=$((n + 1))
done
is "$times times load, count exactly, unload" $n "$times"
is "no function is left hooked" "$(grep -c . /sys/kernel/tracing/enabled_functions)" 0
# Other users of these caches come and go; as many leaked objects of a vCPU would be twice this.
within "bytes of slab more than before" $(($(slab) - before)) -1000000 $((times * 500))

# A guest without a PMU, on a host whose perf is quiet: the module touches no PMU register.
insmod "$module" || exit
registers=(0xc0010200)
[ $kvm = kvm_amd ] || registers=(0xc3 0x4c1 0x188 0x309 0x38d 0x38e 0x38f 0x390 0x391)
is "no PMU: its registers" "$("$rawvm" --no-pmu probe "${registers[@]}" | paste -sd ' ')" \
	"$(printf '%s #GP\n' "${registers[@]}" | paste -sd ' ')"
"$rawvm" --no-pmu probe 0x10 >/dev/null
accesses() {
	"$BUILD/programs/figures" accesses
}
is "no PMU: accesses to PMU registers" "$(accesses)" "rdmsr 0 wrmsr 0 rdpmc 0"
"$rawvm" probe 0x10 >/dev/null
# On AMD's CPUs the first entries are measured, and these aren't the first any more.
before=$(accesses)
"$rawvm" probe 0x10 >/dev/null
is "counters off: accesses to PMU registers" "$(accesses)" "$before"
is "a running counter: exact" "$("$rawvm" count 100000)" 200004
case $(accesses) in
"$before") not_ok "a running counter: accesses are counted" ;;
*) ok "a running counter: accesses are counted" ;;
esac
is "rounds in one VM: exact" "$("$rawvm" --rounds 3 count 5000 | tr '\n' ' ')" "10004 10004 10004 "
rmmod kvm_vpmu

finish
