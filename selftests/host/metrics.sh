#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host with the module: Debian's Prometheus gets the figures of VMs from "vpmu serve", which has no
# more rights than vpmu-metrics.service gives it. Needs BUILD.

cd "$(dirname "$0")" || exit
. ../tap.sh
rawvm=$BUILD/programs/rawvm
vpmu=$BUILD/vpmu/vpmu
tmp=$(mktemp -d) || exit
database=127.0.0.1:9090
# What has to be escaped, and what would be another label or line if it weren't
name='a"b\c",vm="7"} 1'

# figures WHAT [ARGUMENT...]: what Prometheus, or the tool, says
figures() {
	python3 - "$vpmu" "$database" "$@" <<-'PYTHON'
	import json, subprocess, sys, urllib.parse, urllib.request

	vpmu, database, what, *arguments = sys.argv[1:]


	def ask(path, **query):
	    url = f"http://{database}/api/v1/{path}?{urllib.parse.urlencode(query)}"
	    with urllib.request.urlopen(url, timeout=60) as answer:
	        return json.load(answer)["data"]


	def query(expression):
	    return ask("query", query=expression)["result"]


	def series(result):
	    metric = dict(result["metric"])
	    for label in "instance", "job":
	        metric.pop(label, None)
	    return " ".join([metric.pop("__name__", "")] + [f"{k}={v}" for k, v in sorted(metric.items())])


	def database_has():
	    return {series(r): float(r["value"][1]) for r in query('{__name__=~"kvm_vpmu_.+"}')}


	def tool_has():
	    names = {"emulated": "emulated_instructions", "early": "early_interrupts", "reads": "msr_reads",
	             "writes": "msr_writes", "fast": "fast_accesses", "open": "open_entries", "evicted": "evictions",
	             "in_kvm": "overflows_in_kvm", "descheduled_tsc": "descheduled_ticks"}
	    figures = "exits overflows pmis rdpmcs borrowed gaps anomalies".split() + list(names)
	    vms = json.loads(subprocess.run([vpmu, "stat", "--json"], stdout=subprocess.PIPE, check=True).stdout)
	    has = {"kvm_vpmu_vms": len(vms)}
	    for vm in vms:
	        has[f"kvm_vpmu_vm_info freeze={vm['freeze']} name={vm['name']} pid={vm['pid']} tsc={vm['tsc']}"
	            f" vm={vm['id']}"] = 1
	        for vcpu in vm["vcpu"]:
	            labels = f"vcpu={vcpu['vcpu_id']} vm={vm['id']}"
	            for figure in figures:
	                has[f"kvm_vpmu_vcpu_{names.get(figure, figure)}_total {labels}"] = vcpu[figure]
	            for counter in vcpu["counter"]:
	                if counter["select"]:
	                    for time in "enabled", "running":
	                        has[f"kvm_vpmu_counter_{time}_seconds_total counter={counter['index']} {labels}"] = \
	                            float(f"{counter[time + '_ns'] // 10**9}.{counter[time + '_ns'] % 10**9:09}")
	    return has


	if what == "query":
	    print(*(f"{series(r)} {r['value'][1]}".strip() for r in query(*arguments)), sep="\n")
	elif what == "target":
	    target = ask("targets")["activeTargets"][0]
	    print(target["health"], target["lastError"])
	elif what == "kind":
	    for kind in ask("metadata", metric=arguments[0])[arguments[0]]:
	        print(kind["type"], kind["unit"])
	elif what == "differences":
	    # Of the host's, only how many VMs there are can be had from the tool twice.
	    expected, got = tool_has(), database_has()
	    host = {s for s in got if s.startswith(("kvm_vpmu_module_", "kvm_vpmu_physical_", "kvm_vpmu_register_"))}
	    for s in sorted((set(expected) | set(got)) - host):
	        if expected.get(s) != got.get(s):
	            print(f"{s}: {got.get(s)}, expected {expected.get(s)}")
	    print(f"# {len(expected)} series", file=sys.stderr)
	PYTHON
}

# becomes NAME EXPECTED FIGURES...: in time
becomes() {
	local name=$1 expected=$2 i got
	shift 2
	for ((i = 0; i < 60; i++)); do
		got=$(figures "$@" 2>"$tmp/error")
		[ "$got" != "$expected" ] || break
		sleep 1
	done
	is "$name" "$got" "$expected"
	[ "$got" = "$expected" ] || sed 's/^/# /' "$tmp/error"
}

# hold [ARGUMENT...]: a VM with a counter, whose figures stand still; it is the last one of vms
vms=()
mkfifo "$tmp/stdin" "$tmp/stdout"
hold() {
	"$rawvm" hold "$@" <>"$tmp/stdin" >"$tmp/stdout" &
	vms+=($!)
	read -r running <"$tmp/stdout"
	[ "$running" = running ] || note "rawvm says '$running'"
}

release() {
	kill "${vms[@]}"
	wait "${vms[@]}"
	vms=()
}

# what udev does
kvm_group() {
	chgrp 65533 /dev/kvm-vpmu
	chmod 660 /dev/kvm-vpmu
}

kvm_group
setpriv --reuid 65534 --regid 65534 --groups 65533 --no-new-privs --inh-caps=-all,+perfmon --ambient-caps=-all,+perfmon \
	--bounding-set=-all,+perfmon "$vpmu" serve --listen 0 2>"$tmp/said" &
server=$!
for ((i = 0; i < 50; i++)); do
	! grep -q listening "$tmp/said" || break
	sleep 0.2
done
target=$(sed -n 's|.*http://\(.*\)/metrics$|\1|p' "$tmp/said")

cat >"$tmp/prometheus.yml" <<END
global:
  scrape_interval: 3s
  scrape_timeout: 3s
scrape_configs:
  - job_name: kvm-vpmu
    static_configs:
      - targets: ["$target"]
END
start=$SECONDS
GOMAXPROCS=1 prometheus --config.file="$tmp/prometheus.yml" --storage.tsdb.path="$tmp/data" \
	--storage.tsdb.wal-segment-size=10MB --web.listen-address=$database --log.level=warn >"$tmp/prometheus" 2>&1 &
prometheus=$!
hold
hold -- -name "guest=${name//,/,,},debug-threads=on"
"$vpmu" stat --json >/dev/null

becomes "Prometheus: up" "up 1" query up
note "$((SECONDS - start)) s"
becomes "the target has no error" "up " target
becomes "all figures are those of vpmu stat --json" "" differences
sed 's/^/# /' "$tmp/error"
is "counters are counters, times are seconds" \
	"$(figures kind kvm_vpmu_counter_running_seconds),$(figures kind kvm_vpmu_vcpu_exits),$(figures kind kvm_vpmu_vm)" \
	"counter seconds,counter ,info "
id=$("$vpmu" list | awk -v pid="${vms[1]}" '$2 == pid { print substr($1, 2) }')
is "a VM by its name" \
	"$(figures query 'kvm_vpmu_vcpu_anomalies_total * on (instance, vm) group_left (name) kvm_vpmu_vm_info{name=~"a.*"}')" \
	"name=$name vcpu=0 vm=$id 0"
interface=$(sed -n 's/^#define KVM_VPMU_ABI[[:space:]]*//p' ../../include/uapi/linux/kvm_vpmu.h)
# A module that was built elsewhere than in its tree has none.
version=$(cat /sys/module/kvm_vpmu/version 2>/dev/null)
is "the module's interface and version" \
	"$(figures query 'kvm_vpmu_module_info' | sed 's/ hardware=.* interface/ interface/')" \
	"kvm_vpmu_module_info interface=$interface${version:+ version=$version} 1"
within "PMU MSRs written" "$(figures query 'kvm_vpmu_register_accesses_total{instruction="wrmsr"}' | awk '{ print $NF }')" \
	1 1000000000

# The module goes, and comes back. A look takes a moment, in which the module is in use.
release
for ((i = 0; i < 20; i++)); do
	! rmmod kvm_vpmu 2>"$tmp/error" || break
	sleep 0.5
done
is "the module can be unloaded" "$(grep -c '^kvm_vpmu ' /proc/modules)" 0
note "$((i + 1)) tries"
becomes "no module: down" "up 0" query up
becomes "no module: why" "down server returned HTTP status 503 Service Unavailable" target
becomes "no module: no figures" "" query '{__name__=~"kvm_vpmu_.+"}'
# Once for each reason: the device is gone, or going
within "no module: lines in the server's log" "$(grep -c 'no figures: .*is kvm_vpmu loaded' "$tmp/said")" 1 2
insmod "$BUILD/module/$(uname -r)/kvm_vpmu.ko"
kvm_group
becomes "the module is back: up" "up 1" query up
hold
becomes "figures of a VM that is new" "" differences
release

kill $server
wait $server
is "the server ends" $? 0
becomes "no server: down" "up 0" query up
kill $prometheus
wait $prometheus
is "what Prometheus complained of" "$(grep -v 'msg="Received an OS signal' "$tmp/prometheus" | head -n 3)" ""

# The unit, under systemd, which is the first process of a PID namespace here. So names of VMs are unknown to it.
said=/var/lib/vpmu-metrics.log
: >$said
sed "s|#BINDIR#|${vpmu%/*}|" ../../tools/packaging/vpmu-metrics.service >/etc/systemd/system/vpmu-metrics.service
mkdir /etc/systemd/system/vpmu-metrics.service.d
cat >/etc/systemd/system/vpmu-metrics.service.d/test.conf <<END
[Unit]
DefaultDependencies=no
[Service]
StandardError=append:$said
END
cat >/etc/systemd/system/test.target <<END
[Unit]
DefaultDependencies=no
Wants=vpmu-metrics.service
END

# service_says: status and number of VMs
service_says() {
	python3 - <<-'PYTHON'
	import urllib.request
	try:
	    with urllib.request.urlopen("http://127.0.0.1:18768/metrics", timeout=30) as answer:
	        lines = answer.read().decode().splitlines()
	    print(answer.status, *(line for line in lines if line.startswith("kvm_vpmu_vms ")))
	except OSError as error:
	    print(error)
	PYTHON
}

# udev_rule: what udev does, with the group that the unit names
udev_rule() {
	chgrp kvm /dev/kvm-vpmu
	chmod 660 /dev/kvm-vpmu
}

udev_rule
hold
unshare --pid --fork --mount --mount-proc env container=test /usr/lib/systemd/systemd --system --unit=test.target \
	--log-target=kmsg --show-status=no >"$tmp/systemd" 2>&1 </dev/null &
systemd=$!
for ((i = 0; i < 60; i++)); do
	! grep -q listening $said || break
	sleep 1
done
is "the unit: figures" "$(service_says)" "200 kvm_vpmu_vms 1"
service=$(pgrep -f "$vpmu serve --listen")
is "the unit: capabilities" "$(awk '/^CapEff/ { print $2 }' "/proc/$service/status")" 0000004000000000
within "the unit: user" "$(stat -c %u "/proc/$service")" 1000 65533
release
for ((i = 0; i < 20; i++)); do
	! rmmod kvm_vpmu 2>"$tmp/error" || break
	sleep 0.5
done
sleep 1.1
is "the unit: no module" "$(service_says)" "HTTP Error 503: Service Unavailable"
insmod "$BUILD/module/$(uname -r)/kvm_vpmu.ko"
udev_rule
sleep 1.1
is "the unit: the module is back" "$(service_says)" "200 kvm_vpmu_vms 0"
kill "$service"
for ((i = 0; i < 20; i++)); do
	! dmesg | grep -q 'vpmu-metrics.service: Deactivated' || break
	sleep 0.5
done
is "the unit: it ends well" "$(dmesg | grep -oE 'vpmu-metrics.service: (Deactivated successfully|Failed|Main process.*)')" \
	"vpmu-metrics.service: Deactivated successfully"
is "the unit: what the service said" "$(grep -cvE 'listening at|no figures: .*is kvm_vpmu loaded|figures again' $said)" 0
sed 's/^/# /' $said
kill -KILL "$(pgrep -P $systemd)"
wait $systemd 2>/dev/null
rm -r "$tmp"
finish
