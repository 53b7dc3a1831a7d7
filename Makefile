# SPDX-License-Identifier: GPL-2.0-or-later
#
# make             build the module for the running kernel (KDIR=... for another)
# make install     install it, and the tool vpmu; tools/packaging/install.mk has more of this
# make deb         Debian packages of both; make rpm, make arch: others' packages
# make demo        see it work on an emulated machine; no PMU, no KVM needed
# make check       the tests, on emulated machines
# make check-full  the same, and all of them on each host kernel
# make bench       measure it beside KVM's own vPMUs
# make bench-quick only its own VM exits, accesses and PMIs, against what they were
# make mutants     mistakes in the module that the tests have to notice; takes hours
# make unit        only those that need no machine, in a second (gcc, libcmocka-dev)
# make lint        style and static checks
# make testbed     build the emulated machines ahead of their use
# make clean       remove what was built here
# make clean-testbed  remove the emulated machines
#
# demo, checks and testbed need root and Debian 12 or 13; what they install is
# listed in tools/testbed/packages.

KDIR ?= /lib/modules/$(shell uname -r)/build
BED := tools/testbed

all:
	$(MAKE) -C $(KDIR) M=$(CURDIR)/kmod modules

clean:
	rm -rf build
	find kmod \( -name '*.o' -o -name '*.ko' -o -name '*.mod' -o -name '*.mod.c' \
		-o -name '.*.cmd' -o -name Module.symvers -o -name modules.order \) -delete

demo: prepared
	tools/demo

check: prepared
	tools/check

check-full: prepared
	tools/check --full

bench: prepared
	tools/bench/bench

bench-quick: prepared
	tools/check --full bench-quick $(addsuffix -bench-quick,$(filter-out 6.12,$(shell $(BED)/kernels 2>/dev/null)))

mutants: prepared
	selftests/mutants -j 2

unit:
	mkdir -p build/unit
	$(MAKE) -s -C selftests/unit O=$(CURDIR)/build/unit check

lint: prepared
	tools/lint

testbed: prepared
	$(BED)/build

prepared:
	$(BED)/setup

clean-testbed:
	$(BED)/clean

.PHONY: all clean demo check check-full bench bench-quick mutants unit lint testbed prepared clean-testbed

include tools/packaging/install.mk
