#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""From what tools/bench/exits and guests printed: bench/results.json, and docs/benchmarks.md with its plots.

FILEs have lines "KERNEL PEER OPERATION FIGURE VALUE".
"""
import argparse
import json

PEERS = {
    "native": "no VM",
    "none": "no vPMU",
    "perf": "KVM's, on perf events",
    "mediated": "KVM's, mediated",
    "hybrid": "kvm_vpmu, `hybrid`",
    "guest": "kvm_vpmu, `guest`",
    "vcpu": "kvm_vpmu, `vcpu`",
    "watched": "`hybrid`, NMI watchdog on",
    "watched_guest": "`guest`, NMI watchdog on",
}
ACCESSES = {
    "rdmsr_counter": "RDMSR of a counter",
    "rdpmc": "RDPMC",
    "wrmsr_counter": "WRMSR to a counter",
    "wrmsr_select": "WRMSR to an event select, unchanged",
    "toggle_select": "WRMSR to an event select, off or on",
    "toggle_all": "WRMSR to global control, all off or on",
    "off_rdmsr_counter": "RDMSR of a counter, all off",
    "off_wrmsr_counter": "WRMSR to a counter, all off",
}
MSR_EXITS = {
    "rdmsr": "RDMSR of a constant",
    "wrmsr": "WRMSR that KVM ignores",
    **ACCESSES,
}
# Cycles, and what else they may be: (default, lowest, highest). A world switch, both ways: 1,344 to 1,376 cycles were
# measured (linux-kernel, December 2020, discussion of "KVM: SVM: use vmsave/vmload for saving/restoring additional
# host state"). For the others no figure is published that could be taken over: the manuals say that WRMSR is
# serializing and RDPMC isn't, and microcoded instructions take tens to hundreds of cycles.
MODEL = {
    "instruction": (1, 0.25, 2),
    "exit": (1350, 700, 2000),
    "rdmsr": (100, 30, 300),
    "wrmsr": (100, 50, 400),
    "rdpmc": (40, 15, 100),
}
RATES = (400, 1000, 4000, 20000)
SWITCHES = 2000  # of tools/bench/work: two processes, 1,000 turns each
TURNS = (1, 2, 4, 8, 16, 32, 64)
COLOURS = {"none": "#999", "perf": "#d95f02", "mediated": "#7570b3",
           "hybrid": "#1b9e77", "guest": "#66c2a4", "vcpu": "#b2e2d2"}


def by_version(kernel):
    """AMD hosts first"""
    version, _, vendor = kernel.partition("-")
    return vendor, [int(n) for n in version.split(".")]


def host(kernel):
    version, _, vendor = kernel.partition("-")
    return "Linux %s" % version + (" on an Intel host" if vendor else "")


def read(names):
    """Of an operation that was measured more than once, the attempt in the middle; of two, the lesser one"""
    results = {}
    attempts = {}
    for name in names:
        with open(name, encoding="ascii") as lines:
            for line in lines:
                kernel, peer, operation, figure, value = line.split()
                those = attempts.setdefault((kernel, peer, operation), [{}])
                if figure in those[-1]:
                    those.append({})
                those[-1][figure] = float(value)
    for (kernel, peer, operation), those in attempts.items():
        whole = [a for a in those if len(a) == len(those[0])]
        whole.sort(key=lambda a: a.get("host_instructions", 0))
        results.setdefault(kernel, {}).setdefault(peer, {})[operation] = whole[(len(whole) - 1) // 2]
    return results


def cycles(figures, model):
    """Of the host's instructions, of VM exits, and of accesses, the guest's own included"""
    return (figures["host_instructions"] * model["instruction"] +
            (figures["exits"] + figures["user_exits"]) * model["exit"] +
            sum((figures[f] + figures["guest_" + f]) * model[f] for f in ("rdmsr", "wrmsr", "rdpmc")))


def minus(figures, others):
    return {f: figures[f] - others.get(f, 0) for f in figures}


def divided(figures, n):
    return {f: figures[f] / n for f in figures}


def table(head, rows):
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)] + ["| " + " | ".join(r) + " |" for r in rows]


def of(peers, operation):
    """The peers that have it, in their order"""
    return [p for p in PEERS if operation in peers.get(p, {})]


def rivals(peers, operation):
    return [p for p in ("perf", "mediated") if operation in peers.get(p, {})]


def costs(figures, model):
    return ["%.0f" % figures["host_instructions"], "%.1f" % figures["exits"],
            "%.1f / %.1f / %.1f" % (figures["rdmsr"], figures["wrmsr"], figures["rdpmc"]),
            "%.0f" % cycles(figures, model)]


COST_HEAD = ["host instructions", "VM exits", "RDMSR / WRMSR / RDPMC", "cycles by the model"]


def pmi(peers, peer):
    """From an overflow to the handler's first instruction"""
    return minus(peers[peer]["first_pmi"], peers[peer]["no_pmi"])


def pmi_table(peers, model):
    rows = []
    rate = bool(of(peers, "pmi"))
    for p in of(peers, "first_pmi"):
        if p == "vcpu":
            continue  # overflows in the host, too
        row = [PEERS[p]] + costs(pmi(peers, p), model)
        if rate:
            whole = cycles(peers[p]["pmi"], model) + peers[p]["pmi"]["guest_instructions"]
            row.append("%.0f" % (1e9 / whole))
        rows.append(row)
    return table([""] + COST_HEAD + ["PMIs in 10^9 cycles"] * rate, rows)


def turn(peers, peer, vms):
    """What a VM's turn costs more for the counters"""
    operation = "turns-%d" % vms
    return minus(peers[peer][operation], peers["none"][operation])


def turns_table(peers, model):
    shown = [p for p in of(peers, "turns-2") if p != "none"]
    rows = [[PEERS[p]] + costs(turn(peers, p, 2), model) + ["%.0f" % turn(peers, p, n)["host_instructions"] for n in TURNS]
            for p in shown]
    return table([""] + COST_HEAD + ["1 VM"] + ["%d VMs" % n for n in TURNS[1:]], rows)


def context_switch(peers, peer):
    return divided(minus(peers[peer]["events-4"], peers[peer]["events-0"]), SWITCHES)


def context_switch_table(peers, model):
    rows = []
    for p in of(peers, "events-4"):
        f = context_switch(peers, p)
        rows.append([PEERS[p]] + costs(f, model) + ["%.0f" % f["guest_instructions"]])
    return table([""] + COST_HEAD + ["guest instructions"], rows)


def rates(peers):
    """At which samples were taken"""
    return [r for r in RATES if "sample-%d" % r in peers["hybrid"]]


def overhead(peers, peer, what, rate):
    """Per cent"""
    base = peers[peer]["sample-0"]["ns"]
    return 100 * (peers[peer]["%s-%d" % (what, rate)]["ns"] / base - 1)


def overhead_table(peers):
    shown = of(peers, "sample-0")
    rows = []
    for what, text in (("sample", "one event"), ("multiplex", "12 events, multiplexed")):
        for rate in rates(peers):
            rows.append(["%d, %s" % (rate, text)] +
                        ["%.2f %% (%d)" % (overhead(peers, p, what, rate), peers[p]["%s-%d" % (what, rate)]["samples"])
                         for p in shown])
    return table(["samples per second"] + [PEERS[p] for p in shown], rows)


def sampling(peers, peer, what, rate):
    """What the host does more for a program and its perf record than for the program alone; with guest_instructions"""
    return minus(peers[peer]["cost-%s-%d" % (what, rate)], peers[peer]["cost-sample-0"])


def sampling_cycles(peers, peer, what, rate, model):
    """Of host and guest"""
    figures = sampling(peers, peer, what, rate)
    return cycles(figures, model) + figures["guest_instructions"] * model["instruction"]


def sampling_table(peers, model):
    shown = of(peers, "cost-sample-0")
    rows = []
    for what, text in (("sample", "one event"), ("multiplex", "12 events, multiplexed")):
        for rate in rates(peers):
            rows.append(["%d, %s" % (rate, text)] +
                        ["%.2f" % (sampling_cycles(peers, p, what, rate, model) / 1e6) for p in shown])
    return table(["samples per second"] + [PEERS[p] for p in shown], rows)


def programs(peers):
    return [o[len("count-"):] for o in peers["hybrid"] if o.startswith("count-")]


def count_error(peers, peer, program, event):
    """By how much all of a program's count is off; for the mediated vPMU that of user mode, as it hides the guest's registers
    from the emulator too"""
    f = peers[peer]["count-" + program]
    if peer == "mediated":
        return f[event + "_u"] - peers["hybrid"]["count-" + program][event + "_u"]
    return f[event + "_u"] + f[event + "_k"] - f["reference_" + event]


def accuracy_table(peers):
    shown = [p for p in of(peers, "count-mix") if p != "native"]
    rows = []
    for program in programs(peers):
        rows.append([program, "%d" % peers["hybrid"]["count-" + program]["reference_instructions"]] +
                    ["%+d, %+d" % tuple(count_error(peers, p, program, e) for e in ("instructions", "branches"))
                     for p in shown])
    return table(["", "instructions"] + [PEERS[p] for p in shown], rows)


def accesses(figures):
    return "%g / %g / %g" % (figures["rdmsr"], figures["wrmsr"], figures["rdpmc"])


def miscounted(figures, mode):
    """Instructions by which the first counter is off, of an iteration. In mode vcpu it counts KVM's as well."""
    if mode in ("none", "vcpu"):
        return ""
    return "%+g" % (figures["counter0"] - figures["guest_instructions"] - figures["emulated"])


def exit_table(peers):
    rows = []
    for p in of(peers, "cpuid"):
        f = peers[p]["cpuid"]
        rows.append([PEERS[p], "%g" % f["host_instructions"], accesses(f), miscounted(f, p)])
    return table(["", "host instructions", "RDMSR / WRMSR / RDPMC", "instructions counted wrong"], rows)


def access_table(peers):
    shown = [p for p in of(peers, "rdpmc") if p not in ("guest", "vcpu")]
    rows = [[text] + ["%g (%g)" % (peers[p][operation]["host_instructions"], peers[p][operation]["exits"]) for p in shown]
            for operation, text in MSR_EXITS.items()]
    return table(["host instructions (VM exits)"] + [PEERS[p] for p in shown], rows)


def bars_of_guests(peers, model):
    for what in ("instructions", "branches") if programs(peers) else ():
        worst = max(abs(count_error(peers, "hybrid", p, what)) for p in programs(peers))
        yield "%d programs: %s, largest error" % (len(programs(peers)), what), "0", "%d" % worst, worst == 0
    figure = context_switch(peers, "hybrid")["host_instructions"]
    best = min(context_switch(peers, p)["host_instructions"] for p in rivals(peers, "events-4"))
    yield "a guest's context switch: host instructions, against the better of KVM's", "<= 1", \
        "%.2f" % (figure / best), figure <= best
    for what, published in (("sample", 4.24), ("multiplex", 7.34)):
        for rate in [r for r in rates(peers) if r > 400]:
            figure, native = overhead(peers, "hybrid", what, rate), overhead(peers, "native", what, rate)
            name = "perf record, %s, %d per second" % ("plain" if what == "sample" else "12 events", rate)
            yield name + ": overhead, against mediated's published", "<= %g %%" % published, "%.2f %%" % figure, \
                figure <= published
            yield name + ": overhead, of the native one", "<= 1.5", "%.1f" % (figure / native), figure <= 1.5 * native
    if "mediated" in of(peers, "cost-sample-0"):
        for what, text, mode in (("sample", "plain", "hybrid"), ("multiplex", "12 events", "hybrid"),
                                 ("multiplex", "12 events", "guest")):
            for rate in rates(peers):
                figure, rival = (sampling_cycles(peers, p, what, rate, model) for p in (mode, "mediated"))
                yield "perf record, %s, %d per second, `%s`: cycles, against mediated's" % (text, rate, mode), "< 1", \
                    "%.3f" % (figure / rival), figure < rival
    # Beside the NMI watchdog there is no VM with the mediated vPMU: KVM_CREATE_VCPU fails.
    for watched, mode, measured in (("watched", "hybrid", ("sample", "multiplex")),
                                    ("watched_guest", "guest", ("multiplex",))):
        if not {"mediated", watched} <= set(of(peers, "cost-sample-0")):
            continue
        for what in measured:
            text = "plain" if what == "sample" else "12 events"
            for rate in rates(peers):
                figure, rival = (sampling_cycles(peers, p, what, rate, model) for p in (watched, "mediated"))
                yield "perf record, %s, %d per second, `%s`, NMI watchdog on: cycles, against mediated's without one" % \
                    (text, rate, mode), "<= 1.2", "%.3f" % (figure / rival), figure <= 1.2 * rival
    if 400 in rates(peers):
        figure = overhead(peers, "hybrid", "sample", 400)
        yield "perf record, plain, every 2.5 ms: overhead, against Du et al.'s", "<= 0.44 %", "%.2f %%" % figure, \
            figure <= 0.44


# The NMI, perf's writes of the control in amd_pmu_v2_handle_irq(), IRET
EXITS_OF_SAMPLE = 4


def sample_table(peers):
    """Instructions of one sample, at 4000 per second, and of VM exits that do nothing"""
    rows = []
    for p in of(peers, "sample-4000"):
        f = peers[p]["sample-4000"]
        rows.append([PEERS[p], "%.0f" % ((f["ns"] - peers[p]["sample-0"]["ns"]) / f["samples"])])
    cheapest = peers["none"]["cpuid"]["host_instructions"]
    rows.append(["%d VM exits that do nothing" % EXITS_OF_SAMPLE, "%.0f" % (EXITS_OF_SAMPLE * cheapest)])
    return table(["a sample", "instructions"], rows)


def bars(peers, model):
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
    figure = pmi(peers, "hybrid")["host_instructions"]
    best = min(pmi(peers, p)["host_instructions"] for p in rivals(peers, "first_pmi"))
    yield "a PMI, from overflow to handler: host instructions, against the better of KVM's", "< 1", \
        "%.2f" % (figure / best), figure < best
    figure, best = (min(sum(turn(peers, p, 2)[f] for f in ("rdmsr", "wrmsr", "rdpmc")) for p in ps)
                    for ps in (("hybrid",), rivals(peers, "turns-2")))
    yield "a VM's turn of two: accesses to PMU registers, against the better of KVM's", "< 1", \
        "%.2f" % (figure / best), figure < best
    few, many = turn(peers, "hybrid", 2)["host_instructions"], turn(peers, "hybrid", 64)["host_instructions"]
    yield "a VM's turn: 64 VMs against 2, host instructions", "<= 1.01", "%.3f" % (many / few), many <= 1.01 * few
    if "sample-0" in ours:
        yield from bars_of_guests(peers, model)


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


def read_model():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cost-model", default="", metavar="WHAT=CYCLES,...", help="other costs than these: " +
                        ", ".join("%s=%g" % (name, MODEL[name][0]) for name in MODEL))
    parser.add_argument("files", nargs="+", metavar="FILE")
    args = parser.parse_args()
    model = {name: MODEL[name][0] for name in MODEL}
    for setting in filter(None, args.cost_model.split(",")):
        name, _, value = setting.partition("=")
        if name not in MODEL:
            parser.error("no cost '%s'" % name)
        try:
            model[name] = float(value)
        except ValueError:
            parser.error("'%s' is no number of cycles" % value)
    return args.files, model


def sensitivity(peers, model):
    """The ratios ours : better of KVM's, by the model, with each cost at its lowest and highest"""
    what = [
        ("a VM exit", "cpuid", lambda p: peers[p]["cpuid"]),
        ("a PMI", "first_pmi", lambda p: pmi(peers, p)),
        ("a VM's turn of two", "turns-2", lambda p: turn(peers, p, 2)),
        ("a guest's context switch", "events-4", lambda p: context_switch(peers, p)),
    ]
    rows = []
    for name, operation, figures in what:
        others = rivals(peers, operation)
        if not others:
            continue

        def ratio(m, figures=figures, others=others):
            return cycles(figures("hybrid"), m) / min(cycles(figures(p), m) for p in others)

        row = [name, "%.2f" % ratio(model)]
        for cost, (_, low, high) in MODEL.items():
            row.append("%.2f to %.2f" % tuple(ratio({**model, cost: v}) for v in (low, high)))
        rows.append(row)
    return table(["ours : the better of KVM's"] + ["by the model"] +
                 ["%s %g to %g" % (cost, low, high) for cost, (_, low, high) in MODEL.items()], rows)


def main():
    files, model = read_model()
    results = read(files)
    kernels = sorted(results, key=by_version)
    with open("bench/results.json", "w", encoding="ascii") as f:
        json.dump({"cost_model": model, "results": results}, f, indent=1, sort_keys=True)
        f.write("\n")

    doc = ["<!-- SPDX-License-Identifier: GPL-2.0-or-later -->",
           "<!-- tools/bench/report.py writes this. -->",
           "# Side by side with KVM's own vPMUs", "",
           "`make bench` measures again, writes all figures to `bench/results.json`, and this. Everything runs on an *emulated*",
           "AMD host (`amd-zen4`, six counters, deterministic time, NMI watchdog off); the counts are the emulator's own. They",
           "say how much the host executes, not how long that takes: an instruction is not a WRMSR.", "",
           "The same on an *emulated* Intel host (`intel-v4`, which has what KVM's mediated vPMU demands; four general counters",
           "count). Its stock guests do less, as that emulator is slow: they sample a program of some 56 ms.", "",
           "Where *cycles* are given, they are of a cost model: " + ", ".join("%s %g" % (n, model[n]) for n in model) + ".",
           "`tools/bench/report.py` says where its constants come from, takes others (`--cost-model wrmsr=200,rdmsr=80`), and",
           "the table before the last tells what that changes. `tools/bench/profile` shows in which functions the instructions are.", "",
           "## A VM exit", "",
           "A guest executes CPUID in a loop, while all counters count. The last column is by how much a counter of",
           "instructions is off for each of them: CPUs of AMD count VMRUN for the guest. (CPUID never retires, but all of them add it.)", ""]
    for kernel in kernels:
        doc += [host(kernel) + ":", ""] + exit_table(results[kernel])
        doc += ["", "![host instructions for a VM exit](benchmarks/exit-%s.svg)" % kernel, ""]
        plot("exit-%s.svg" % kernel, "Host instructions for a VM exit, all counters active, " + host(kernel),
             [(PEERS[p].replace("`", ""), COLOURS[p], results[kernel][p]["cpuid"]["host_instructions"])
              for p in of(results[kernel], "cpuid")])
    doc += ["## Accesses to registers", "",
            "Of the same guest. KVM's mediated vPMU lets the guest have its counters, so that it can access them without a VM exit,",
            "and pays at every other one.", ""]
    for kernel in kernels:
        doc += [host(kernel) + ":", ""] + access_table(results[kernel]) + [""]
    doc += ["## An overflow's interrupt", "",
            "A counter of the same guest overflows in a loop: from there to the first instruction of its NMI handler. The last",
            "column is of a guest that does nothing but start the counter again and return from the handler. (Intel's CPUs mask",
            "the next PMI, which this guest can't undo.)", ""]
    for kernel in kernels:
        doc += [host(kernel) + ":", ""] + pmi_table(results[kernel], model) + [""]
    doc += ["## VMs that take turns", "",
            "Each executes some instructions, then it is another's turn, all counters of each counting. What their counters",
            "cost at each turn, of two VMs; and host instructions for 1 to 64.", ""]
    for kernel in kernels:
        doc += [host(kernel) + ":", ""] + turns_table(results[kernel], model) + [""]
    stock = [k for k in kernels if "sample-0" in results[k].get("hybrid", {})]
    doc += ["## Context switches in a guest", "",
            "Of a stock Debian guest: two processes, each with four events of its own; per switch, less the same without events.",
            "(Guests have no HPET here, as with virt-install and OpenStack: Linux leaves its timer running, for which QEMU works.)", ""]
    for kernel in stock:
        doc += [host(kernel) + ":", ""] + context_switch_table(results[kernel], model) + [""]
    doc += ["## `perf record` in a guest", "",
            "How much longer a computing program of some 280 ms takes, in instructions of guest and host (1 ns each), with the samples",
            "taken. One event: instructions. Twelve on six counters: six, twice. *No VM* is on the emulated host itself. In mode `hybrid` the",
            "guest's cycles go on while KVM works, so that sampling them at a high rate leads to more samples.", ""]
    for kernel in stock:
        doc += [host(kernel) + ":", ""] + overhead_table(results[kernel]) + [""]
    if any("watched" in results[k] for k in stock):
        doc += ["Beside the host's NMI watchdog, which has a counter, that is lent to the guest for each overflow's handler; if the guest",
                "runs six counters, also for each other stay in guest mode. With KVM's mediated vPMU there is no VM then",
                "(KVM_CREATE_VCPU fails with EBUSY).", ""]
    doc += ["The same by the cost model: how many more million cycles of guest and host. Without samples, the program takes some 2",
            "million besides its own instructions, and mostly less than 0.1 million more or less the next time.", ""]
    for kernel in stock:
        doc += [host(kernel) + ":", ""] + sampling_table(results[kernel], model) + [""]
    doc += ["## Accuracy", "",
            "`perf stat` of programs (`selftests/programs/workloads.c`) in the same guest: by how much instructions and branches are off, user",
            "and kernel mode together, against the emulator's reference of the same run. The mediated vPMU lets the guest have its",
            "registers, and the emulator sees them no more than KVM does: its column is user mode only, against kvm_vpmu's count, and",
            "good to some hundreds only, as a program needn't execute exactly the same in two guests.", ""]
    for kernel in [k for k in stock if programs(results[k])]:
        doc += [host(kernel) + ":", ""] + accuracy_table(results[kernel]) + [""]
    doc += ["## What the cost model's constants change", ""]
    for kernel in kernels:
        doc += [host(kernel) + ":", ""] + sensitivity(results[kernel], model) + [""]
    rows = [[kernel.replace("-intel", ", Intel"), what, bar, figure, "met" if met else "**missed**"]
            for kernel in kernels for what, bar, figure, met in bars(results[kernel], model)]
    doc += ["## Why bars are missed", "",
            "What a sample costs on an AMD host: perf's NMI handler in the guest turns global control off and on, reads the status,",
            "clears it, reads the counter, and writes it; with the NMI itself and IRET, by which the guest takes NMIs again, that is",
            "eight VM exits. Open registers save four of them. Even if the other four did nothing at all, they would take more than",
            "1.5 times what a whole sample takes without a VM. KVM's mediated vPMU has the NMI and IRET, too, and each costs more",
            "there.", "",
            "Twelve events at a high rate in mode `hybrid`: its cycles go on while KVM works, so there are up to twice as many",
            "samples, each no dearer than in mode `guest`, which takes as many as with KVM's vPMUs.", ""]
    for kernel in [k for k in stock if not by_version(k)[0]]:
        doc += [host(kernel) + ":", ""] + sample_table(results[kernel]) + [""]
    doc += ["What accesses cost, by `tools/bench/profile` on Linux 7.3, in instructions: KVM's VM exit and entry take some 770, and",
            "a WRMSR of an event select that changes nothing takes 180 more. One that switches the counter off takes another 180: the",
            "physical counter is stopped and read, and the guest's value brought up to date. One that switches the counter on takes 210:",
            "a free physical counter is found, the value that overflows together with the guest's is chosen, and the counter is",
            "started. Global control does that for each of six counters, at 1.5 physical accesses each. KVM's perf-event vPMU takes",
            "some ten times as many.", ""]
    doc += ["## Bars", ""] + table(["Linux", "", "bar", "", ""], rows)
    with open("docs/benchmarks.md", "w", encoding="ascii") as f:
        f.write("\n".join(doc) + "\n")


main()
