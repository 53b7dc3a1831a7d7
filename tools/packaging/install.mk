# SPDX-License-Identifier: GPL-2.0-or-later
#
# Installing; docs/install.md is about it. The Debian packages are made with these targets, too.
#
# make install       the module for KDIR's kernel, and all that follows but DKMS
# make install-dkms  the module's source for DKMS, which builds it for each kernel
# make install-conf  how udev and modprobe treat the module
# make install-tools the tool vpmu, its service for metrics, and headers for programs of your own
# make install-docs  this documentation, which packages have
# make uninstall     remove what these installed; uninstall-... a part of it
# make deb           the Debian packages, in build/deb
# make rpm           those for Fedora, RHEL and their like, in build/rpm
# make arch          those for Arch Linux, in build/arch

PREFIX ?= /usr/local
DESTDIR ?=
INSTALL ?= install
# Where udev, modprobe and systemd look: below /usr, and below /usr/local
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
DOCDIR ?= $(PREFIX)/share/doc/kvm-vpmu
UNITDIR ?= $(LIBDIR)/systemd/system

PACKAGING := tools/packaging
VERSION := $(shell $(PACKAGING)/version)
# kernel.release has another version in Debian 12's headers.
KVER ?= $(or $(shell sed -n 's/^.define UTS_RELEASE "\(.*\)"/\1/p' \
		$(KDIR)/include/generated/utsrelease.h 2>/dev/null),\
	$(error $(KDIR) has no kernel headers; name a kernel's by KDIR=..., or a kernel by KVER=...))
MODULE_DIR = $(DESTDIR)/lib/modules/$(KVER)/updates
MODULES = $(MODULE_DIR)/kvm_vpmu.ko $(MODULE_DIR)/kvm_vpmu_guest.ko
DKMS_SOURCE = $(DESTDIR)/usr/src/kvm-vpmu-$(VERSION)
HEADERS = include/uapi/linux/kvm_vpmu.h include/uapi/linux/kvm_vpmu_profile.h \
	include/uapi/linux/kvm_vpmu_probe.h
# Services, none of which is enabled by default
UNITS = vpmu-map@.service vpmu-metrics.service
TOOL = $(MAKE) -C tools/vpmu O=$(CURDIR)/build/tool VERSION=$(VERSION)
GUEST_MAP = $(MAKE) -C tools/guest-map O=$(CURDIR)/build/tool/guest-map
# For guests; on a host it's of no use.
GUEST_MAP_DIR = $(LIBDIR)/kvm-vpmu

install: install-module install-conf install-tools

# Symbols of the module's for a debugger would be ten times its size.
install-module: all
	$(INSTALL) -D -m 644 -t $(MODULE_DIR) kmod/kvm_vpmu.ko kmod/kvm_vpmu_guest.ko
	strip -g $(MODULES)
	$(if $(DESTDIR),,depmod $(KVER))

install-dkms: install-conf
	$(if $(DESTDIR),,$(PACKAGING)/dkms-install --check)
	rm -rf $(DKMS_SOURCE)
	cd kmod && find . \( -name '*.[chS]' -o -name '*.mk' -o -name Kbuild \) ! -name '*.mod.c' \
		-exec $(INSTALL) -D -m 644 {} $(abspath $(DKMS_SOURCE))/kmod/{} \;
	$(INSTALL) -D -m 644 -t $(DKMS_SOURCE)/include/uapi/linux $(HEADERS)
	sed 's/#MODULE_VERSION#/$(VERSION)/' $(PACKAGING)/dkms.conf >$(DKMS_SOURCE)/dkms.conf
	$(if $(DESTDIR),,$(PACKAGING)/dkms-install $(VERSION) $(KVER))

install-conf:
	$(INSTALL) -D -m 644 $(PACKAGING)/60-kvm-vpmu.rules $(DESTDIR)$(LIBDIR)/udev/rules.d/60-kvm-vpmu.rules
	$(INSTALL) -D -m 644 $(PACKAGING)/modprobe.conf $(DESTDIR)$(LIBDIR)/modprobe.d/kvm-vpmu.conf

tool:
	mkdir -p build/tool
	$(TOOL)
	$(GUEST_MAP)

install-tools: tool
	$(TOOL) install DESTDIR=$(abspath $(DESTDIR)) PREFIX=$(PREFIX)
	$(INSTALL) -D -m 755 -t $(DESTDIR)$(GUEST_MAP_DIR) build/tool/guest-map/vpmu-guest-map
	$(INSTALL) -D -m 644 -t $(DESTDIR)$(INCLUDEDIR)/linux $(HEADERS)
	$(INSTALL) -d $(DESTDIR)$(UNITDIR)
	for unit in $(UNITS); do \
		sed 's|#BINDIR#|$(PREFIX)/bin|' $(PACKAGING)/$$unit >$(DESTDIR)$(UNITDIR)/$$unit && \
		chmod 644 $(DESTDIR)$(UNITDIR)/$$unit || exit 1; \
	done

# Folders as they are here, as the pages link to each other.
install-docs:
	find ./*.md MAINTAINERS LICENSES/README docs tools/testbed/README.md tools/testbed/bare/README.md -type f \
		-exec $(INSTALL) -D -m 644 {} $(DESTDIR)$(DOCDIR)/{} \;

uninstall: uninstall-module uninstall-dkms uninstall-conf uninstall-tools uninstall-docs

uninstall-module:
	rm -f $(MODULES)
	rmdir $(MODULE_DIR) 2>/dev/null || true
	$(if $(DESTDIR),,[ ! -d /lib/modules/$(KVER) ] || depmod $(KVER))

uninstall-dkms:
	$(if $(DESTDIR),rm -rf $(DKMS_SOURCE),$(PACKAGING)/dkms-install --remove $(VERSION))

uninstall-conf:
	rm -f $(DESTDIR)$(LIBDIR)/udev/rules.d/60-kvm-vpmu.rules $(DESTDIR)$(LIBDIR)/modprobe.d/kvm-vpmu.conf

uninstall-tools:
	rm -f $(DESTDIR)$(PREFIX)/bin/vpmu $(DESTDIR)$(PREFIX)/share/man/man1/vpmu.1 \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions/vpmu \
		$(addprefix $(DESTDIR)$(UNITDIR)/,$(UNITS)) \
		$(HEADERS:include/uapi/%=$(DESTDIR)$(INCLUDEDIR)/%)
	rm -rf $(DESTDIR)$(GUEST_MAP_DIR)

uninstall-docs:
	rm -rf $(DESTDIR)$(DOCDIR)

deb rpm arch: prepared
	$(PACKAGING)/build $@

.PHONY: install install-module install-dkms install-conf install-tools install-docs tool
.PHONY: uninstall uninstall-module uninstall-dkms uninstall-conf uninstall-tools uninstall-docs deb rpm arch
