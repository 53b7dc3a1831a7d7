// SPDX-License-Identifier: GPL-2.0-or-later
/* vpmu record: profiles of all CPUs into a file. */
#include "cmd.h"

#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "names.h"
#include "profile.h"
#include "recording.h"
#include "remote_map.h"
#include "util.h"

/* Long options that have no short one */
enum { KEY_QGA = 256, KEY_MAP_PROGRAM };

/* vpmu-guest-map, from the folder that this program is in */
#define MAP_PROGRAM	"../lib/kvm-vpmu/vpmu-guest-map"

/* Between two looks at the rings */
#define PAUSE_MS	50

/* Of the interface's versions, the first with KVM_VPMU_PROFILE_WORDS */
#define ABI_WITH_WORDS	12

/**
 * struct record_options - vpmu record
 * @event: what to sample, as libpfm4 or perf name it
 * @frequency: samples per second; 0 with @period
 * @period: events from one to the next; 0 with @frequency
 * @stacks: with call graphs of guests
 * @records: length of a CPU's ring
 * @file: where to
 * @vm: which VM's, as vm_find() takes them
 * @vms: how many; 0: all of the host
 * @qga: VM=SOCKET of each guest that is to be asked for its names
 * @qgas: how many
 * @map_program: vpmu-guest-map, for these guests; NULL: that of MAP_PROGRAM
 * @command: until that ends; NULL: until a signal
 */
struct record_options {
	const char *event;
	uint64_t frequency, period, records;
	bool stacks;
	const char *file;
	char **vm;
	size_t vms;
	char **qga;
	size_t qgas;
	const char *map_program;
	char **command;
};

/**
 * struct named_guest - a guest that is asked for its names
 * @id: number of its VM
 * @name: the VM's name; owned by the arguments
 * @map: what runs there; NULL: no more
 */
struct named_guest {
	uint64_t id;
	char *name;
	struct remote_map *map;
};

/**
 * struct recorder - a recording while it is made
 * @options: what to do
 * @dev: the device
 * @proc: where procfs is mounted
 * @profile: one for each CPU
 * @profiles: how many
 * @file: where to
 * @id: the numbers of @options->vm
 * @guest: guests that run vpmu-guest-map
 * @guests: how many
 * @signal_fd: signals that end the recording
 * @names: names of what was sampled
 * @vm: all VMs that have been seen
 * @begin: the beginning
 * @samples: how many there have been
 * @lost: for how many records there was no room
 * @error: errno of what couldn't be written; 0
 */
struct recorder {
	const struct record_options *options;
	struct device *dev;
	const char *proc;
	struct profile *profile;
	size_t profiles;
	FILE *file;
	uint64_t *id;
	struct named_guest *guest;
	size_t guests;
	int signal_fd;
	struct names *names;
	struct vm_list vm;
	struct moment begin;
	uint64_t samples, lost;
	int error;
};

/* ---- VMs */

static bool is_wanted(const struct recorder *rec, uint64_t vm)
{
	size_t i;

	for (i = 0; i < rec->options->vms; i++)
		if (rec->id[i] == vm)
			return true;
	return !rec->options->vms;
}

static enum status find_vms(struct recorder *rec)
{
	size_t i;

	rec->id = xrealloc(NULL, (rec->options->vms + 1) * sizeof(*rec->id));
	for (i = 0; i < rec->options->vms; i++) {
		struct vm vm;
		enum status status = vm_lookup(rec->dev, rec->proc, rec->options->vm[i], &vm,
					       stderr);

		if (status)
			return status;
		rec->id[i] = vm.info.id;
	}
	return STATUS_OK;
}

static struct vm *known(const struct recorder *rec, uint64_t id)
{
	size_t i;

	for (i = 0; i < rec->vm.count; i++)
		if (rec->vm.vm[i].info.id == id)
			return &rec->vm.vm[i];
	return NULL;
}

/*
 * VMs come and go: keep each that was there once.  What there is in debugfs of all vCPUs takes long:
 * it's read of those that are new, and of all at the end (@last).
 */
static void note_vms(struct recorder *rec, bool last)
{
	struct vm_list now;
	size_t i;

	if (vm_list_get(&now, rec->dev, rec->proc))
		return;
	for (i = 0; i < now.count; i++) {
		struct vm *vm = known(rec, now.vm[i].info.id);
		bool look = last || !vm;

		if (!vm) {
			rec->vm.vm = xrealloc(rec->vm.vm,
					      (rec->vm.count + 1) * sizeof(*rec->vm.vm));
			vm = &rec->vm.vm[rec->vm.count++];
			*vm = now.vm[i];
		}
		if (look && is_wanted(rec, vm->info.id))
			guest_clock_look(&vm->clock, GUEST_CLOCK_FOLDER, vm->info.pid);
	}
	vm_list_free(&now);
}

/* ---- names in guests */

/* @arg is VM=SOCKET; a VM's name may have a "=" in it. */
static enum status start_map(struct recorder *rec, const char *arg, const char *program)
{
	struct named_guest *guest = &rec->guest[rec->guests];
	const char *equals = strrchr(arg, '=');
	char *error;
	struct vm vm;
	enum status status;

	*guest = (struct named_guest){ .name = xasprintf("%.*s", (int)(equals - arg), arg) };
	rec->guests++;
	status = vm_lookup(rec->dev, rec->proc, guest->name, &vm, stderr);
	if (status)
		return status;
	guest->id = vm.info.id;
	guest->map = remote_map_start(equals + 1, program, &error);
	if (guest->map)
		return STATUS_OK;
	warnx("%s: %s", arg, error);
	free(error);
	return STATUS_ERROR;
}

static char *find_map_program(const struct record_options *options)
{
	char path[PATH_MAX] = "", *slash;

	if (options->map_program)
		return xasprintf("%s", options->map_program);
	if (readlink("/proc/self/exe", path, sizeof(path) - 1) < 0)
		return xasprintf("%s", MAP_PROGRAM);
	slash = strrchr(path, '/');
	return xasprintf("%.*s/%s", slash ? (int)(slash - path) : 0, path, MAP_PROGRAM);
}

static enum status start_maps(struct recorder *rec)
{
	char *program = find_map_program(rec->options);
	enum status status = STATUS_OK;
	size_t i;

	rec->guest = xrealloc(NULL, (rec->options->qgas + 1) * sizeof(*rec->guest));
	for (i = 0; i < rec->options->qgas && !status; i++)
		status = start_map(rec, rec->options->qga[i], program);
	free(program);
	return status;
}

/* A recording without some names is better than none. */
static void end_map(struct recorder *rec, struct named_guest *guest)
{
	struct recording_map map = { .vm = guest->id };
	char *error;

	if (!guest->map)
		return;
	remote_map_end(guest->map, &map.text, &map.size, &error);
	guest->map = NULL;
	if (!map.text) {
		warnx("%s: names are missing: %s", guest->name, error);
		free(error);
	} else if (rec->file && !recording_write_map(rec->file, &map) && !rec->error) {
		rec->error = errno;
	}
	free(map.text);
}

static void end_maps(struct recorder *rec)
{
	size_t i;

	for (i = 0; i < rec->guests; i++)
		end_map(rec, &rec->guest[i]);
}

static void free_guests(struct recorder *rec)
{
	size_t i;

	/* If there is no recording */
	end_maps(rec);
	for (i = 0; i < rec->guests; i++)
		free(rec->guest[i].name);
	free(rec->guest);
}

/* ---- the rings */

static void complain(int error, const struct record_options *options)
{
	switch (error) {
	case -EPERM:
		warnx("recording what the host and all VMs do needs CAP_PERFMON (run vpmu as root)");
		break;
	case -ENOENT:
	case -EOPNOTSUPP:
	case -EINVAL:
		warnx("this host doesn't count '%s': %s", options->event, strerror(-error));
		break;
	default:
		device_complain(error);
	}
}

static enum status open_profiles(struct recorder *rec)
{
	const struct record_options *options = rec->options;
	struct kvm_vpmu_profile what = {
		.flags = KVM_VPMU_PROFILE_SAMPLES | KVM_VPMU_PROFILE_SWITCHES |
			 KVM_VPMU_PROFILE_KVM_TIME,
		.period = options->period, .records = options->records, .fd = -1,
	};
	int cpus = get_nprocs_conf(), r;
	struct event_code code;
	char *why;

	if (!event_encode(options->event, &code, &why)) {
		warnx("%s", why);
		free(why);
		return STATUS_USAGE;
	}
	what.type = code.type;
	what.config = code.config;
	if (options->frequency) {
		what.flags |= KVM_VPMU_PROFILE_FREQUENCY;
		what.period = options->frequency;
	}
	if (options->stacks)
		what.flags |= KVM_VPMU_PROFILE_STACKS;
	if (options->stacks && rec->dev->info.abi >= ABI_WITH_WORDS)
		what.flags |= KVM_VPMU_PROFILE_WORDS;
	/* Of several VMs, the others' records are left out here. */
	if (options->vms == 1)
		what.vm = rec->id[0];
	rec->profile = xrealloc(NULL, cpus * sizeof(*rec->profile));
	for (what.cpu = 0; what.cpu < (unsigned int)cpus; what.cpu++) {
		r = profile_open(&rec->profile[rec->profiles], rec->dev, &what);
		if (!r)
			rec->profiles++;
		else if (r != -ENODEV) {
			complain(r, options);
			return STATUS_ERROR;
		}
	}
	return STATUS_OK;
}

static void close_profiles(struct recorder *rec)
{
	size_t i;

	for (i = 0; i < rec->profiles; i++)
		profile_close(&rec->profile[i]);
	rec->profiles = 0;
}

/* Write those of @count records that are wanted. */
static void write_records(struct recorder *rec, unsigned int cpu,
			  const struct kvm_vpmu_record *record, size_t count)
{
	struct kvm_vpmu_record *kept = xrealloc(NULL, count * sizeof(*kept));
	size_t i, n = 0;

	for (i = 0; i < count; i++) {
		const struct kvm_vpmu_record *r = &record[i];

		if (!is_wanted(rec, r->vm))
			continue;
		kept[n++] = *r;
		names_note(rec->names, r);
		rec->samples += r->type == KVM_VPMU_RECORD_SAMPLE;
	}
	if (n && !recording_write_records(rec->file, cpu, kept, n))
		rec->error = errno;
	free(kept);
}

static void read_ring(struct recorder *rec, struct profile *p)
{
	const struct kvm_vpmu_record *first;
	size_t count;

	while ((count = profile_peek(p, &first))) {
		write_records(rec, p->cpu, first, count);
		profile_release(p, count);
	}
}

static void read_rings(struct recorder *rec)
{
	size_t i;

	for (i = 0; i < rec->profiles; i++)
		read_ring(rec, &rec->profile[i]);
	/* Whoever kills this program has the recording up to here. */
	if (fflush(rec->file) && !rec->error)
		rec->error = errno;
}

static void count_lost(struct recorder *rec)
{
	size_t i;

	rec->lost = 0;
	for (i = 0; i < rec->profiles; i++)
		rec->lost += rec->profile[i].ring->lost;
}

/* vCPUs that are loaded, and stay so, have a record then. */
static void look_at_all(struct recorder *rec)
{
	struct kvm_vpmu_profile_count count;
	size_t i;

	for (i = 0; i < rec->profiles; i++)
		profile_count(&rec->profile[i], &count);
}

/* ---- the file */

static bool write_info(struct recorder *rec)
{
	const struct record_options *options = rec->options;
	struct json_object *info = json_object_new_object();
	struct utsname host;
	bool good;

	uname(&host);
	json_object_object_add(info, "vpmu", json_object_new_string(VERSION));
	json_object_object_add(info, "host", json_object_new_string(host.nodename));
	json_object_object_add(info, "kernel", json_object_new_string(host.release));
	json_object_object_add(info, "pmu", json_object_new_string(rec->dev->info.hardware));
	json_object_object_add(info, "event", json_object_new_string(options->event));
	json_object_object_add(info, options->frequency ? "frequency" : "period",
			       json_object_new_uint64(options->frequency ? options->frequency :
						      options->period));
	json_object_object_add(info, "call_graphs", json_object_new_boolean(options->stacks));
	json_object_object_add(info, "cpus", json_object_new_uint64(rec->profiles));
	json_object_object_add(info, "begin", moment_json(rec->begin));
	good = recording_write_json(rec->file, RECORDING_INFO, info);
	json_object_put(info);
	return good;
}

static struct json_object *cpu_json(const struct profile *p)
{
	struct json_object *object = json_object_new_object();
	struct kvm_vpmu_profile_count count = { };

	profile_count(p, &count);
	json_object_object_add(object, "cpu", json_object_new_int64(p->cpu));
	json_object_object_add(object, "count", json_object_new_uint64(count.value));
	json_object_object_add(object, "enabled_ns", json_object_new_uint64(count.enabled_ns));
	json_object_object_add(object, "running_ns", json_object_new_uint64(count.running_ns));
	json_object_object_add(object, "lost", json_object_new_uint64(p->ring->lost));
	json_object_object_add(object, "throttled", json_object_new_uint64(p->ring->throttled));
	return object;
}

static struct json_object *cpus_json(const struct recorder *rec)
{
	struct json_object *cpus = json_object_new_array();
	size_t i;

	for (i = 0; i < rec->profiles; i++)
		json_object_array_add(cpus, cpu_json(&rec->profile[i]));
	return cpus;
}

static struct json_object *recorded_vm_json(const struct vm *vm)
{
	struct json_object *object = vm_json(vm), *clock;

	if (!vm->clock.known)
		return object;
	clock = json_object_new_object();
	json_object_object_add(clock, "offset", json_object_new_uint64(vm->clock.offset));
	json_object_object_add(clock, "ratio", json_object_new_uint64(vm->clock.ratio));
	json_object_object_add(clock, "bits", json_object_new_int(vm->clock.bits));
	json_object_object_add(object, "clock", clock);
	return object;
}

/* Gives @cpus up. */
static bool write_end(struct recorder *rec, struct moment end, struct json_object *cpus)
{
	struct json_object *info = json_object_new_object(), *vms = json_object_new_array();
	bool good;
	size_t i;

	for (i = 0; i < rec->vm.count; i++)
		if (is_wanted(rec, rec->vm.vm[i].info.id))
			json_object_array_add(vms, recorded_vm_json(&rec->vm.vm[i]));
	json_object_object_add(info, "end", moment_json(end));
	json_object_object_add(info, "cpu", cpus);
	json_object_object_add(info, "vm", vms);
	json_object_object_add(info, "name", names_resolve(rec->names));
	good = recording_write_json(rec->file, RECORDING_END, info);
	json_object_put(info);
	return good;
}

/* ---- until the end */

static int signals(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return -1;
	fd = signalfd(-1, &set, SFD_CLOEXEC);
	return fd;
}

static pid_t start(char **command)
{
	pid_t pid = fork();

	if (!pid) {
		sigset_t none;

		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		_exit(run_exec(command));
	}
	return pid;
}

static void show_progress(const struct recorder *rec)
{
	static uint64_t shown;
	uint64_t seconds = (moment_now().ns - rec->begin.ns) / NS_PER_S;
	char samples[NUMBER_SIZE], missing[NUMBER_SIZE];

	if (!isatty(STDERR_FILENO) || seconds == shown)
		return;
	shown = seconds;
	fprintf(stderr, "\r%" PRIu64 " s, %s samples, %s lost ", seconds,
		format_count(samples, rec->samples), format_count(missing, rec->lost));
}

/* Has it ended?  Then *@status is its exit status, as shells have it. */
static bool has_ended(pid_t child, int *status)
{
	int how;

	if (!child || waitpid(child, &how, WNOHANG) != child)
		return false;
	*status = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
	return true;
}

/* Until the command ends, or a signal comes.  Return: the command's status. */
static int record(struct recorder *rec, pid_t child)
{
	struct pollfd wait = { .fd = rec->signal_fd, .events = POLLIN };
	unsigned int rounds = 0;
	int status = 0;

	while (!rec->error) {
		if (poll(&wait, 1, PAUSE_MS) > 0) {
			struct signalfd_siginfo info;

			if (read(rec->signal_fd, &info, sizeof(info)) != sizeof(info))
				break;
			if (info.ssi_signo != SIGCHLD || has_ended(child, &status))
				break;
		}
		read_rings(rec);
		if (rounds++ % (1000 / PAUSE_MS) == 0)
			note_vms(rec, false);
		count_lost(rec);
		show_progress(rec);
	}
	return status;
}

static void say_result(const struct recorder *rec)
{
	char samples[NUMBER_SIZE], missing[NUMBER_SIZE];

	if (isatty(STDERR_FILENO))
		fputc('\r', stderr);
	fprintf(stderr, "%s: %s samples%s\n", rec->options->file,
		format_count(samples, rec->samples), isatty(STDERR_FILENO) ? "           " : "");
	if (rec->lost)
		warnx("%s records are lost: try a lower --frequency or more --records",
		      format_count(missing, rec->lost));
}

static enum status record_all(struct recorder *rec)
{
	struct json_object *cpus;
	struct moment end;
	pid_t child = 0;
	int status = 0;

	note_vms(rec, false);
	/* The first look at each CPU is in front of the beginning, the last one behind the end. */
	look_at_all(rec);
	rec->begin = moment_now();
	if (!recording_write_head(rec->file) || !write_info(rec))
		rec->error = errno;
	if (rec->options->command && !rec->error) {
		child = start(rec->options->command);
		if (child < 0)
			rec->error = errno;
	}
	if (!rec->error)
		status = record(rec, child);
	end = moment_now();
	look_at_all(rec);
	read_rings(rec);
	count_lost(rec);
	cpus = cpus_json(rec);
	/* What follows takes time, and isn't to be recorded. */
	close_profiles(rec);
	note_vms(rec, true);
	end_maps(rec);
	if (!write_end(rec, end, cpus) && !rec->error)
		rec->error = errno;
	return status;
}

static enum status record_to_file(struct recorder *rec)
{
	const char *path = rec->options->file;
	enum status status;

	rec->file = fopen(path, "we");
	if (!rec->file) {
		warn("%s", path);
		return STATUS_ERROR;
	}
	status = record_all(rec);
	if (fclose(rec->file) && !rec->error)
		rec->error = errno;
	rec->file = NULL;
	if (rec->error) {
		errno = rec->error;
		warn("%s", path);
		return STATUS_ERROR;
	}
	say_result(rec);
	return status;
}

static enum status run_recorder(struct recorder *rec)
{
	enum status status;

	/* From here on, a signal ends the recording, however early, and leaves nothing in guests. */
	rec->signal_fd = signals();
	if (rec->signal_fd < 0) {
		warn("signals");
		return STATUS_ERROR;
	}
	status = find_vms(rec);
	/* Takes seconds, which are not to be recorded */
	if (!status)
		status = start_maps(rec);
	if (!status)
		status = open_profiles(rec);
	if (!status) {
		rec->names = names_new(rec->proc);
		status = record_to_file(rec);
		names_free(rec->names);
	}
	close_profiles(rec);
	free_guests(rec);
	close(rec->signal_fd);
	free(rec->profile);
	free(rec->id);
	vm_list_free(&rec->vm);
	return status;
}

/* ---- arguments */

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct record_options *options = state->input;

	switch (key) {
	case 'e':
		options->event = arg;
		return 0;
	case 'F':
		argp_count(state, arg, "frequency", 1000000, &options->frequency);
		options->period = 0;
		return 0;
	case 'c':
		argp_count(state, arg, "period", INT64_MAX, &options->period);
		options->frequency = 0;
		return 0;
	case 'g':
		options->stacks = true;
		return 0;
	case 'm':
		argp_count(state, arg, "records", KVM_VPMU_PROFILE_MAX_RECORDS, &options->records);
		if (options->records < KVM_VPMU_PROFILE_MIN_RECORDS ||
		    options->records & (options->records - 1))
			argp_error(state, "records '%s': a power of two from %u to %u", arg,
				   KVM_VPMU_PROFILE_MIN_RECORDS, KVM_VPMU_PROFILE_MAX_RECORDS);
		return 0;
	case 'o':
		options->file = arg;
		return 0;
	case KEY_QGA:
		if (!strchr(arg, '='))
			argp_error(state, "guest agent '%s': VM=SOCKET", arg);
		options->qga = xrealloc(options->qga,
					(options->qgas + 1) * sizeof(*options->qga));
		options->qga[options->qgas++] = arg;
		return 0;
	case KEY_MAP_PROGRAM:
		options->map_program = arg;
		return 0;
	case ARGP_KEY_ARG:
		/* Behind "--" */
		if (state->quoted && state->next > state->quoted) {
			options->command = &state->argv[state->next - 1];
			state->next = state->argc;
			return 0;
		}
		options->vm = xrealloc(options->vm, (options->vms + 1) * sizeof(*options->vm));
		options->vm[options->vms++] = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static enum status run(struct context *ctx, int argc, char **argv)
{
	struct record_options options = {
		.event = "cycles", .frequency = 1000, .records = 16384, .file = RECORDING_FILE,
	};
	struct recorder rec = { .options = &options, .proc = ctx->proc };
	struct device dev;
	enum status status;

	argp_parse(record_command.argp, argc, argv, ARGP_IN_ORDER, NULL, &options);
	if (device_open(&dev))
		return STATUS_ERROR;
	rec.dev = &dev;
	status = run_recorder(&rec);
	device_close(&dev);
	free(options.vm);
	free(options.qga);
	return status;
}

static const struct argp_option option_list[] = {
	{ "call-graph", 'g', NULL, 0, "With the guests' call graphs, by their frame pointers", 0 },
	{ "count", 'c', "N", 0, "A sample each N events", 0 },
	{ "event", 'e', "EVENT", 0, "What to sample: libpfm4's name, or rNNN as perf has it (cycles)",
	  0 },
	{ "frequency", 'F', "HZ", 0, "HZ samples per second on each CPU (1000)", 0 },
	{ "map-program", KEY_MAP_PROGRAM, "FILE", 0, "The vpmu-guest-map that --qga runs", 0 },
	{ "output", 'o', "FILE", 0, "Where to (" RECORDING_FILE ")", 0 },
	{ "qga", KEY_QGA, "VM=SOCKET", 0,
	  "Take names of the guest in VM by its QEMU guest agent, behind that socket", 0 },
	{ "records", 'm', "N", 0, "Room for N records on each CPU, a power of two (16384)", 0 },
	{ }
};
static const struct argp argp = {
	option_list, parse, "[VM...] [-- COMMAND [ARGUMENT...]]",
	"Record what the host and its VMs do, or some VMs, until COMMAND ends or Ctrl-C is pressed.",
	NULL, NULL, NULL
};

const struct command record_command = {
	"record", "record a profile of the host and its VMs", &argp, run
};
