// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The tool without a device, for tests of all of it.  VPMU_FAKE says what it
 * finds: "absent", "denied", "old", "new", "broken", "no-tsc", "others" or "not-mine" (no
 * capability to look, or to set), or VMs, as "ID:PID:VCPUS[:WHAT]" with blanks between.  WHAT
 * is "ended", "ends" after some looks, or "fails" to be set.  "@FILE" is the contents of FILE
 * each time that the device is opened.  VPMU_FAKE_MODULE is the module's folder.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "module.h"

static const char *what_to_be(void)
{
	static char text[4096];
	const char *what = getenv("VPMU_FAKE");
	FILE *f;

	if (!what || *what != '@')
		return what;
	f = fopen(what + 1, "r");
	if (!f)
		return NULL;
	text[fread(text, 1, sizeof(text) - 1, f)] = 0;
	text[strcspn(text, "\n")] = 0;
	fclose(f);
	return text;
}

int device_connect(struct device *dev)
{
	const char *what = what_to_be();
	struct fake *fake;
	char *list, *word, *rest;

	if (!what || !strcmp(what, "absent"))
		return -ENOENT;
	if (!strcmp(what, "denied"))
		return -EACCES;
	fake = calloc(1, sizeof(*fake));
	fake_init(fake, dev, 0);
	if (!strcmp(what, "old"))
		fake->info.abi = 0;
	if (!strcmp(what, "new"))
		fake->info.abi = 1000;
	if (!strcmp(what, "broken"))
		fake->error = -EIO;
	if (!strcmp(what, "others"))
		fake->error = -EPERM;
	list = strdup(what);
	for (word = strtok_r(list, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		struct kvm_vpmu_vm *vm = &fake->vm[fake->vms];
		unsigned long long id;
		char tail[8] = "";

		if (!strcmp(word, "no-tsc"))
			fake->set_error = -EOPNOTSUPP;
		if (!strcmp(word, "not-mine"))
			fake->set_error = -EPERM;
		if (fake->vms == FAKE_VMS ||
		    sscanf(word, "%llu:%d:%u:%7s", &id, &vm->pid, &vm->vcpus, tail) < 3)
			continue;
		vm->id = id;
		fake->ended[fake->vms] = !strcmp(tail, "ended");
		fake->ends[fake->vms] = strcmp(tail, "ends") ? 0 : 5;
		fake->set_errors[fake->vms] = strcmp(tail, "fails") ? 0 : -EIO;
		fake->vms++;
	}
	free(list);
	return 0;
}

/* What the command would find */
int device_inherit(struct device *dev)
{
	const struct fake *fake = dev->data;

	setenv("FAKE_ATTACH", fake->attach.fd != -1 ? "?" :
	       fake->attach.attach == KVM_VPMU_ATTACH_YES ? "yes" :
	       fake->attach.attach == KVM_VPMU_ATTACH_NO ? "no" : "default", 1);
	return 0;
}

const char *device_module(const struct device *dev)
{
	const char *module = getenv("VPMU_FAKE_MODULE");

	(void)dev;
	return module ? module : "/nonexistent";
}

int device_set_parameter(struct device *dev, const char *name, const char *value)
{
	const struct fake *fake = dev->data;

	return fake->set_error ? fake->set_error :
	       module_set_parameter(device_module(dev), name, value);
}

void device_disconnect(struct device *dev)
{
	free(dev->data);
}
