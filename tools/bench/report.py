#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""From what tools/bench/exits printed: bench/results.json, and docs/benchmarks.md with its plots.

report.py FILE...: lines "KERNEL PEER OPERATION FIGURE VALUE".
"""
import json
import sys

PEERS = {
    "none": "no vPMU",
    "perf": "KVM's, on perf events",
    "mediated": "KVM's, mediated",
    "hybrid": "kvm_vpmu, `hybrid`",
    "guest": "kvm_vpmu, `guest`",
    "vcpu": "kvm_vpmu, `vcpu`",
}
ACCESSES = {
    "rdmsr_counter": "RDMSR of a counter",
    "rdpmc": "RDPMC",
    "wrmsr_counter": "WRMSR to a counter",
    "wrmsr_select": "WRMSR to an event select, unchanged",
    "toggle_select": "WRMSR to an event select, off or on",
    "toggle_all": "WRMSR to PerfMonV2's control, all off or on",
}
MSR_EXITS = {
    "rdmsr": "RDMSR of a constant",
    "wrmsr": "WRMSR that KVM ignores",
    **ACCESSES,
}
COLOURS = {"none": "#999", "perf": "#d95f02", "mediated": "#7570b3",
           "hybrid": "#1b9e77", "guest": "#66c2a4", "vcpu": "#b2e2d2"}


def read(names):
    results = {}
    for name in names:
        with open(name, encoding="ascii") as lines:
            for line in lines:
                kernel, peer, operation, figure, value = line.split()
                results.setdefault(kernel, {}).setdefault(peer, {}).setdefault(operation, {})[figure] = float(value)
    return results


def accesses(figures):
    return "%g / %g / %g" % (figures["rdmsr"], figures["wrmsr"], figures["rdpmc"])


def miscounted(figures, mode):
    """Instructions by which the first counter is off, of an iteration. In mode vcpu it counts KVM's as well."""
    if mode in ("none", "vcpu"):
        return ""
    return "%+g" % (figures["counter0"] - figures["guest_instructions"] - figures["emulated"])


def exit_table(peers):
    rows = ["| | host instructions | RDMSR / WRMSR / RDPMC | instructions counted wrong |", "|---|---|---|---|"]
    for peer, text in PEERS.items():
        if peer in peers:
            f = peers[peer]["cpuid"]
            rows.append("| %s | %g | %s | %s |" % (text, f["host_instructions"], accesses(f), miscounted(f, peer)))
    return rows


def access_table(peers):
    shown = [p for p in PEERS if p in peers and p not in ("none", "guest", "vcpu")]
    rows = ["| host instructions (VM exits) | " + " | ".join(PEERS[p] for p in shown) + " |",
            "|---|" + "---|" * len(shown)]
    for operation, text in MSR_EXITS.items():
        cells = ["%g (%g)" % (peers[p][operation]["host_instructions"], peers[p][operation]["exits"]) for p in shown]
        rows.append("| %s | %s |" % (text, " | ".join(cells)))
    return rows


def bars(peers):
    """(what, bar, figure, met)"""
    ours, none = peers["hybrid"], peers["none"]

    def cost(p, operation):
        return p[operation]["host_instructions"]

    more = cost(ours, "cpuid") - cost(none, "cpuid")
    msrs = sum(ours["cpuid"][f] for f in ("rdmsr", "wrmsr", "rdpmc"))
    yield "a VM exit: accesses to PMU registers", "0", "%g" % msrs, msrs == 0
    yield "a VM exit: instructions more than without a vPMU", "<= 40", "%g" % more, more <= 40
    for operation, text in ACCESSES.items():
        ratio = cost(ours, operation) / cost(peers["perf"], operation)
        yield text + ": of the perf-event vPMU's", "<= 1/5", "%.2f" % ratio, ratio <= 0.2
    for operation, text in ACCESSES.items():
        cheapest = cost(none, "wrmsr" if operation[0] in "wt" else "rdmsr")
        ratio = cost(ours, operation) / cheapest
        yield text + ": of the cheapest trapped access", "<= 1.2", "%.2f" % ratio, ratio <= 1.2


def plot(name, title, values):
    """Horizontal bars: values are (label, colour, number)."""
    height, top, left, width = 22, 34, 260, 420
    largest = max(v for _, _, v in values)
    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">'
           % (left + width + 80, top + height * len(values) + 8),
           "<!-- SPDX-License-Identifier: GPL-2.0-or-later -->",
           '<rect width="100%" height="100%" fill="#fff"/>',
           '<text x="8" y="20" font-weight="bold">%s</text>' % title]
    for i, (label, colour, value) in enumerate(values):
        y = top + height * i
        length = max(1, width * value / largest)
        out.append('<text x="%d" y="%d" text-anchor="end">%s</text>' % (left - 8, y + 15, label))
        out.append('<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>' % (left, y + 3, length, height - 6, colour))
        out.append('<text x="%.1f" y="%d">%g</text>' % (left + length + 6, y + 15, value))
    out.append("</svg>")
    with open("docs/benchmarks/" + name, "w", encoding="ascii") as f:
        f.write("\n".join(out) + "\n")


def main():
    results = read(sys.argv[1:])
    kernels = sorted(results, key=lambda k: [int(n) for n in k.split(".")])
    with open("bench/results.json", "w", encoding="ascii") as f:
        json.dump({"exits": results}, f, indent=1, sort_keys=True)
        f.write("\n")

    doc = ["<!-- SPDX-License-Identifier: GPL-2.0-or-later -->",
           "<!-- tools/bench/report.py writes this. -->",
           "# Side by side with KVM's own vPMUs", "",
           "`make bench` measures again, writes all figures to `bench/results.json`, and this. Everything runs on an *emulated*",
           "AMD host (`amd-zen4`, six counters, deterministic time, NMI watchdog off); the counts are the emulator's own. They",
           "say how much the host executes, not how long that takes: an instruction is not a WRMSR.", "",
           "So far this has VM exits and accesses to the PMU's registers only.", "",
           "## A VM exit", "",
           "A guest executes CPUID in a loop, while all six counters count. The last column is by how much a counter of",
           "instructions is off for each of them: CPUs of AMD count VMRUN for the guest. (CPUID never retires, but all of them add it.)", ""]
    for kernel in kernels:
        doc += ["Linux %s:" % kernel, ""] + exit_table(results[kernel])
        doc += ["", "![host instructions for a VM exit](benchmarks/exit-%s.svg)" % kernel, ""]
        plot("exit-%s.svg" % kernel, "Host instructions for a VM exit, all counters active, Linux %s" % kernel,
             [(PEERS[p].replace("`", ""), COLOURS[p], results[kernel][p]["cpuid"]["host_instructions"])
              for p in PEERS if p in results[kernel]])
    doc += ["## Accesses to registers", "",
            "Of the same guest. KVM's mediated vPMU lets the guest have its counters, so that it can access them without a VM exit,",
            "and pays at every other one.", ""]
    for kernel in kernels:
        doc += ["Linux %s:" % kernel, ""] + access_table(results[kernel]) + [""]
    doc += ["## Bars", "", "| Linux | | bar | | |", "|---|---|---|---|---|"]
    for kernel in kernels:
        doc += ["| %s | %s | %s | %s | %s |" % (kernel, what, bar, figure, "met" if met else "**missed**")
                for what, bar, figure, met in bars(results[kernel])]
    with open("docs/benchmarks.md", "w", encoding="ascii") as f:
        f.write("\n".join(doc) + "\n")


main()
