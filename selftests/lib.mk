# SPDX-License-Identifier: GPL-2.0-or-later
#
# Lists of tests, with the meaning that they have in the kernel's tools/testing/selftests/lib.mk:
#
#   TEST_PROGS               scripts that are run
#   TEST_GEN_PROGS           programs that are built and run
#   TEST_PROGS_EXTENDED, TEST_GEN_PROGS_EXTENDED
#                            the same, but not run: they want arguments, or a host prepared for them
#   TEST_FILES, TEST_GEN_FILES
#                            what these need
#
# Targets: all, run_tests, install (INSTALL_PATH=DIR), emit_tests, clean. O is where programs are built.

O ?= .
COLLECTION := $(notdir $(CURDIR))
GENERATED := $(addprefix $(O)/,$(TEST_GEN_PROGS) $(TEST_GEN_PROGS_EXTENDED) $(TEST_GEN_FILES))

all: $(GENERATED)

run_tests:
	$(MAKE) -C .. run_tests TARGETS=$(COLLECTION)

install: all
	$(if $(INSTALL_PATH),,$(error say where to: INSTALL_PATH=DIR))
	mkdir -p $(INSTALL_PATH)
	cp $(TEST_PROGS) $(TEST_PROGS_EXTENDED) $(TEST_FILES) $(wildcard settings) $(GENERATED) $(INSTALL_PATH)/

emit_tests:
	@printf '%s\n' $(addprefix $(COLLECTION):,$(TEST_GEN_PROGS) $(TEST_PROGS))

clean:
	rm -f $(GENERATED)

.PHONY: all run_tests install emit_tests clean
