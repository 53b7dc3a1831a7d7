// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd.h"

#include <curses.h>
#include <err.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "rows.h"
#include "terminal.h"
#include "util.h"

#define LEAST_DELAY	(NS_PER_S / 10)
#define MOST_DELAY	(60 * NS_PER_S)

/* How long it takes until keys that begin like ESC are told from it */
#define ESCAPE_MS	50

struct options {
	struct context *ctx;
	const char *vm;
	uint64_t delay;
	bool events;
};

/* Lines that are scrolled */
struct text {
	char *buf;
	char **line;
	size_t count;
};

enum view { VIEW_LIST, VIEW_VM, VIEW_HELP };

/**
 * struct top - what is on the screen
 * @only: the VM that was asked for; NULL for all
 * @events: look at the hypervisor's events, which VIEW_VM has
 * @names: of events
 * @now: the last look
 * @before: the one before; without VMs at first
 * @looks: how many there were
 * @paused: there are no more for now
 * @view: what is shown
 * @behind: what is shown after the help
 * @rows: of these looks
 * @sort: column that they are sorted by
 * @reverse: the other way round
 * @by_vm: a row for each VM
 * @first: row at the top
 * @chosen: row that Enter opens
 * @page: how many rows or lines there is room for
 * @shown: the VM of VIEW_VM
 * @text: of VIEW_VM or VIEW_HELP
 * @top_line: line of it at the top
 * @left: columns of it that are left of the screen
 */
struct top {
	struct device *dev;
	const struct context *ctx;
	const struct vm *only;
	bool events;
	struct event_names names;
	uint64_t delay;
	struct sample now, before;
	unsigned long looks;
	bool paused;
	enum view view, behind;
	struct rows rows;
	enum row_column sort;
	bool reverse;
	bool by_vm;
	size_t first, chosen, page;
	__u64 shown;
	struct text text;
	size_t top_line;
	int left;
};

/* Columns by which to shift a text */
#define SHIFT		8
#define MOST_SHIFT	400

static const char help_text[] =
"KEYS\n"
"  up down, page up page down, home end\n"
"                   choose a row; scroll what isn't rows\n"
"  Enter            the counters of the chosen row's VM\n"
"  Esc              back\n"
"  < >, left right  sort by another column; shift what isn't rows\n"
"  N P R E M B G A  sort by NAME, PID, RUN%, EXITS, MSRS, BORROW, GAPS, ANOM\n"
"  r                sort the other way round\n"
"  v                a row for each VM, or for each vCPU\n"
"  + -              look half as often, or twice as often\n"
"  space            pause, or go on\n"
"  Ctrl-L           draw the screen again\n"
"  h ?              this help\n"
"  q                quit\n"
"\n"
"COLUMNS\n"
"  CTRS      counters that run\n"
"  RUN%      how long counters ran, of the time that they should have\n"
"  EXITS/s   VM exits\n"
"  EMUL/s    instructions that KVM emulated and that were added to counters\n"
"  PMIS/s    interrupts that were injected for overflows\n"
"  MSRS/s    reads and writes of PMU registers\n"
"  RDPMC/s   RDPMC of the guest\n"
"  BORROW/s  VM entries, times counters that the host's perf lent for them\n"
"  EVICT/s   times that the host's perf took a counter's physical counter\n"
"  GAPS/s    VM exits, times counters that missed KVM's work\n"
"  ANOM/s    VM entries that hardware didn't count as expected: counts are wrong\n";

static void text_free(struct text *text)
{
	free(text->line);
	free(text->buf);
	*text = (struct text){ };
}

/* Take over @buf, and cut it into lines. */
static void text_set(struct text *text, char *buf)
{
	char *line, *rest = buf;

	text_free(text);
	text->buf = buf;
	while ((line = strsep(&rest, "\n"))) {
		/* behind the last newline there is no line */
		if (!rest && !*line)
			break;
		text->line = xrealloc(text->line, (text->count + 1) * sizeof(*text->line));
		text->line[text->count++] = line;
	}
}

/* A line of text that ends where the screen does. */
static void put(int y, int x, const char *text)
{
	if (y < LINES && x < COLS)
		mvaddnstr(y, x, text, text_fit(text, COLS - x));
}

/* One line of columns: titles if @row is NULL. */
static void put_row(int y, const struct top *top, const struct row *row)
{
	bool shown[ROW_COLUMNS];
	int column, x = 0, name = rows_layout(COLS, shown);

	for (column = 0; column < ROW_COLUMNS; column++) {
		const char *text = row_title(column);
		char buf[NUMBER_SIZE];
		int width = column == ROW_NAME ? name : row_width(column);
		bool bad;

		if (!shown[column])
			continue;
		if (row)
			text = column == ROW_NAME ? row->vm->name : row_text(buf, row, column);
		else if (column == ROW_VCPU && top->by_vm)
			text = "vCPUs" + (width < 5);	/* one letter less */
		if (x)
			x++;
		bad = row && column == ROW_ANOMALIES && row->value[column] > 0;
		bad = bad || (row && column == ROW_RUN && row->value[column] < 100);
		if (bad || (!row && column == (int)top->sort))
			attron(A_BOLD | A_UNDERLINE);
		if (column == ROW_NAME)
			mvaddnstr(y, x, text, text_fit(text, width));
		else
			put(y, x + (int)strlen(text) <= x + width ? x + width - (int)strlen(text) : x, text);
		attroff(A_BOLD | A_UNDERLINE);
		x += width;
	}
}

static void draw_rows(struct top *top, int y)
{
	size_t i;

	rows_sort(&top->rows, top->sort, top->reverse);
	if (top->chosen >= top->rows.count)
		top->chosen = top->rows.count ? top->rows.count - 1 : 0;
	if (top->first + top->page > top->rows.count)
		top->first = top->rows.count > top->page ? top->rows.count - top->page : 0;
	if (top->first > top->chosen)
		top->first = top->chosen;
	if (top->chosen >= top->first + top->page)
		top->first = top->chosen + 1 - top->page;

	for (i = top->first; i < top->rows.count && i < top->first + top->page; i++, y++) {
		if (i == top->chosen) {
			attron(A_REVERSE);
			mvhline(y, 0, ' ', COLS);
		}
		put_row(y, top, &top->rows.row[i]);
		attroff(A_REVERSE);
	}
	if (!top->rows.count && top->page)
		put(y, 0, "no VM has a virtual PMU of kvm_vpmu");
}

static void draw_text(struct top *top, int y)
{
	const struct text *text = &top->text;
	size_t i;

	if (top->top_line + top->page > text->count)
		top->top_line = text->count > top->page ? text->count - top->page : 0;
	for (i = top->top_line; i < text->count && i < top->top_line + top->page; i++, y++)
		put(y, 0, text->line[i] + text_fit(text->line[i], top->left));
}

static void draw_heading(const struct top *top)
{
	char clock[NUMBER_SIZE] = "", *text;
	time_t now = time(NULL);
	size_t v, vcpus = 0;
	struct tm tm;

	if (localtime_r(&now, &tm))
		strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
	for (v = 0; v < top->now.vms; v++)
		vcpus += top->now.vm[v].vcpus;
	text = xasprintf("vpmu %s  %s%s, %u counters  VMs %zu, vCPUs %zu  every %g s%s%s", clock,
			 top->paused ? "PAUSED  " : "", top->dev->info.hardware,
			 top->dev->info.counters, top->now.vms, vcpus,
			 (double)top->delay / NS_PER_S,
			 top->view == VIEW_VM ? ", per second" : "",
			 top->looks < 2 ? "  no rates yet" : "");
	put(0, 0, text);
	free(text);
}

/* Long and short */
static const char *const key_help[][2] = {
	[VIEW_LIST] = {
		"q quit  h help  Enter VM  < > sort by  r reverse  v VMs/vCPUs  + - delay",
		"q quit <> sort r reverse v VMs h help",
	},
	[VIEW_VM] = {
		"q quit  h help  Esc back  arrows scroll  + - delay  space pause",
		"q quit Esc back h help",
	},
	[VIEW_HELP] = { "any key: back  arrows scroll", "any key: back" },
};

static void draw(struct top *top)
{
	/* heading, titles, help; what isn't there on small screens */
	int lines = LINES, heading = lines >= 4, help = lines >= 3;
	int titles = lines >= 2 && top->view == VIEW_LIST;

	top->page = lines - heading - titles - help;
	erase();
	if (heading)
		draw_heading(top);
	if (titles) {
		attron(A_REVERSE);
		mvhline(heading, 0, ' ', COLS);
		put_row(heading, top, NULL);
		attroff(A_REVERSE);
	}
	if (top->view == VIEW_LIST)
		draw_rows(top, heading + titles);
	else
		draw_text(top, heading);
	if (help) {
		attron(A_REVERSE);
		mvhline(lines - 1, 0, ' ', COLS);
		put(lines - 1, 0, key_help[top->view][COLS < 72]);
		attroff(A_REVERSE);
	}
	refresh();
}

/* Look again; 0 or a negative error number, -ENOENT if the only VM has ended. */
static int look(struct top *top)
{
	struct sample now;
	int r = sample_take(&now, top->dev, top->ctx->proc, top->only ? top->only->info.id : 0,
			    top->events ? SAMPLE_ALL_EVENTS : SAMPLE_NO_EVENTS);

	if (r)
		return r;
	if (top->only && !now.vms) {
		sample_free(&now);
		return -ENOENT;
	}
	sample_free(&top->before);
	top->before = top->now;
	top->now = now;
	top->looks++;
	return 0;
}

/* What stat prints of the VM that is shown; if it has ended, the list is shown again. */
static void update_text(struct top *top)
{
	const struct sample_vm *vm = NULL;
	size_t v, size;
	char *buf;
	FILE *f;

	for (v = 0; v < top->now.vms; v++)
		if (top->now.vm[v].vm.info.id == top->shown)
			vm = &top->now.vm[v];
	if (!vm) {
		top->view = VIEW_LIST;
		return;
	}
	f = open_memstream(&buf, &size);
	if (!f)
		err(STATUS_ERROR, NULL);
	stat_print_vm(&top->names, &top->now, &top->before, vm, f);
	fclose(f);
	text_set(&top->text, buf);
}

static void update(struct top *top)
{
	rows_free(&top->rows);
	rows_make(&top->rows, &top->now, top->looks > 1 ? &top->before : NULL, top->by_vm);
	if (top->view == VIEW_VM)
		update_text(top);
}

static void show_vm(struct top *top, __u64 id)
{
	top->view = VIEW_VM;
	top->shown = id;
	top->top_line = top->left = 0;
	update_text(top);
}

static void show_help(struct top *top)
{
	top->behind = top->view;
	top->view = VIEW_HELP;
	top->top_line = top->left = 0;
	text_set(&top->text, xasprintf("%s", help_text));
}

static void leave_help(struct top *top)
{
	top->view = top->behind;
	top->top_line = top->left = 0;
	update(top);
}

/* Only what is on the screen can be sorted by: the next one that is. */
static void next_column(struct top *top, int step)
{
	bool shown[ROW_COLUMNS];

	rows_layout(COLS, shown);
	do
		top->sort = (top->sort + ROW_COLUMNS + step) % ROW_COLUMNS;
	while (!shown[top->sort]);
}

/* Keys that move @position, a row or line, up to @last */
static bool move_by(const struct top *top, int key, size_t *position, size_t last)
{
	size_t page = top->page > 1 ? top->page - 1 : 1;

	switch (key) {
	case KEY_UP:
		*position -= *position > 0;
		return true;
	case KEY_DOWN:
		*position += *position < last;
		return true;
	case KEY_PPAGE:
		*position = *position > page ? *position - page : 0;
		return true;
	case KEY_NPAGE:
		*position = *position + page < last ? *position + page : last;
		return true;
	case KEY_HOME:
		*position = 0;
		return true;
	case KEY_END:
		*position = last;
		return true;
	default:
		return false;
	}
}

#define KEY_ESCAPE	27

static void handle_text(struct top *top, int key)
{
	size_t lines = top->text.count;

	if (move_by(top, key, &top->top_line, lines > top->page ? lines - top->page : 0))
		return;
	if (key == KEY_LEFT) {
		top->left -= top->left > 0 ? SHIFT : 0;
	} else if (key == KEY_RIGHT) {
		top->left += top->left < MOST_SHIFT ? SHIFT : 0;
	} else if (top->view == VIEW_HELP) {
		leave_help(top);
	} else if (key == KEY_ESCAPE && !top->only) {
		top->view = VIEW_LIST;
	}
}

/* Columns with a key of their own */
static const struct {
	int key;
	enum row_column column;
} sort_keys[] = {
	{ 'N', ROW_NAME }, { 'P', ROW_PID }, { 'R', ROW_RUN }, { 'E', ROW_EXITS },
	{ 'M', ROW_ACCESSES }, { 'B', ROW_BORROWED }, { 'G', ROW_GAPS }, { 'A', ROW_ANOMALIES },
};

static void sort_by_key(struct top *top, int key)
{
	bool shown[ROW_COLUMNS];
	size_t i;

	rows_layout(COLS, shown);
	for (i = 0; i < ARRAY_SIZE(sort_keys); i++)
		if (sort_keys[i].key == key && shown[sort_keys[i].column])
			top->sort = sort_keys[i].column;
}

static void handle_list(struct top *top, int key)
{
	if (move_by(top, key, &top->chosen, top->rows.count ? top->rows.count - 1 : 0))
		return;
	switch (key) {
	case '<':
	case KEY_LEFT:
		next_column(top, -1);
		break;
	case '>':
	case KEY_RIGHT:
		next_column(top, 1);
		break;
	case 'r':
		top->reverse = !top->reverse;
		break;
	case 'v':
		top->by_vm = !top->by_vm;
		top->first = top->chosen = 0;
		update(top);
		break;
	case '\n':
	case '\r':
	case KEY_ENTER:
		if (top->chosen < top->rows.count)
			show_vm(top, top->rows.row[top->chosen].vm->info.id);
		break;
	default:
		sort_by_key(top, key);
		break;
	}
}

/* False to quit. */
static bool handle(struct top *top, int key)
{
	if (top->view == VIEW_HELP) {
		if (key != KEY_RESIZE)
			handle_text(top, key);
		return true;
	}
	switch (key) {
	case 'q':
	case 'Q':
		return false;
	case 'h':
	case '?':
	case KEY_F(1):
		show_help(top);
		break;
	case ' ':
		top->paused = !top->paused;
		break;
	case '+':
		top->delay = top->delay * 2 > MOST_DELAY ? MOST_DELAY : top->delay * 2;
		break;
	case '-':
		top->delay = top->delay / 2 < LEAST_DELAY ? LEAST_DELAY : top->delay / 2;
		break;
	case 'L' - '@':
		clearok(curscr, TRUE);
		break;
	default:
		if (top->view == VIEW_LIST)
			handle_list(top, key);
		else
			handle_text(top, key);
		break;
	}
	return true;
}

/*
 * Until a key, a signal or an error ends it: *@signal is that signal.  Signals
 * come by a file descriptor, so that no handler has to know of the screen.
 */
static int loop(struct top *top, int signals, int *signal)
{
	__u64 next = sample_now();
	bool stale = true;

	for (;;) {
		struct pollfd fds[] = {
			{ .fd = STDIN_FILENO, .events = POLLIN },
			{ .fd = signals, .events = POLLIN },
		};
		struct signalfd_siginfo info;
		__u64 now = sample_now();
		int r, key;

		if (now >= next && !top->paused) {
			r = look(top);
			if (r)
				return r;
			update(top);
			next = now + top->delay;
			stale = true;
		}
		if (stale)
			draw(top);
		stale = false;

		r = poll(fds, ARRAY_SIZE(fds), top->paused ? -1 : (int)((next - now) / 1000000 + 1));
		if (r < 0 && errno != EINTR)
			return -errno;
		if (r <= 0)
			continue;
		if (fds[1].revents && read(signals, &info, sizeof(info)) == sizeof(info)) {
			struct winsize size;

			if (info.ssi_signo != SIGWINCH) {
				*signal = info.ssi_signo;
				return 0;
			}
			if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_row && size.ws_col)
				resizeterm(size.ws_row, size.ws_col);
			stale = true;
		}
		if (fds[0].revents & (POLLERR | POLLNVAL))
			return -EIO;
		if (fds[0].revents) {
			int keys = 0;

			while ((key = getch()) != ERR) {
				keys++;
				if (!handle(top, key))
					return 0;
			}
			/* readable, but nothing there: the terminal has gone */
			if (!keys && fds[0].revents & POLLHUP)
				return -EIO;
			if (next > sample_now() + top->delay)
				next = sample_now() + top->delay;
			stale = true;
		}
	}
}

/* Also when the program ends by exit() somewhere. */
static void restore_terminal(void)
{
	if (stdscr && !isendwin())
		endwin();
}

static enum status show(struct device *dev, const struct options *options)
{
	struct top top = { .dev = dev, .ctx = options->ctx, .delay = options->delay,
			   .events = options->events, .sort = ROW_EXITS };
	int r, fd, signal = 0;
	enum status status;
	sigset_t set, old;
	SCREEN *screen;
	struct vm vm;

	if (!terminal_fits())
		return STATUS_ERROR;
	if (options->vm) {
		status = vm_lookup(dev, options->ctx->proc, options->vm, &vm, stderr);
		if (status)
			return status;
		top.only = &vm;
		top.view = VIEW_VM;
		top.shown = vm.info.id;
	}
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGQUIT);
	sigaddset(&set, SIGWINCH);
	sigprocmask(SIG_BLOCK, &set, &old);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0) {
		warn("signalfd");
		return STATUS_ERROR;
	}
	screen = newterm(NULL, stdout, stdin);
	if (!screen) {
		warnx("the terminal '%s' can't be used", getenv("TERM"));
		return STATUS_ERROR;
	}
	atexit(restore_terminal);
	cbreak();
	noecho();
	curs_set(0);
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(ESCAPE_MS);

	event_names_init(&top.names);
	r = loop(&top, fd, &signal);

	restore_terminal();
	event_names_free(&top.names);
	text_free(&top.text);
	rows_free(&top.rows);
	sample_free(&top.now);
	sample_free(&top.before);
	close(fd);
	if (signal) {
		/* End as if we hadn't waited for it; ncurses has a handler. */
		sigaction(signal, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
		raise(signal);
		sigprocmask(SIG_SETMASK, &old, NULL);
	}
	if (r == -ENOENT) {
		fprintf(stderr, "vpmu: VM '%s' has ended\n", vm.name);
		return STATUS_NO_VM;
	}
	if (r == -EIO)
		warnx("the terminal was closed");
	else if (r)
		device_complain(r);
	return r ? STATUS_ERROR : STATUS_OK;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *options = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = options->ctx;
		return 0;
	case 'd':
		if (!parse_seconds(arg, &options->delay) || options->delay < LEAST_DELAY ||
		    options->delay > MOST_DELAY)
			argp_error(state, "--delay: '%s' is not from 0.1 to 60 seconds", arg);
		return 0;
	case 'e':
		options->events = true;
		return 0;
	case ARGP_KEY_ARG:
		if (options->vm)
			argp_error(state, "unexpected argument '%s'", arg);
		options->vm = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static enum status run(struct context *ctx, int argc, char **argv)
{
	struct options options = { .ctx = ctx, .delay = 2 * NS_PER_S };
	struct device dev;
	enum status status;

	argp_parse(top_command.argp, argc, argv, 0, NULL, &options);
	if (device_open(&dev))
		return STATUS_ERROR;
	if (ctx->json) {
		struct stat_options stat = { .ctx = ctx, .vm = options.vm,
					     .interval = options.delay,
					     .events = options.events };
		struct event_names names;

		event_names_init(&names);
		status = stat_run(&dev, &names, &stat, stdout, stderr);
		event_names_free(&names);
	} else {
		status = show(&dev, &options);
	}
	device_close(&dev);
	return status;
}

static const struct argp_option option_list[] = {
	{ "delay", 'd', "SEC", 0, "look every SEC seconds (2)", 0 },
	{ "events", 'e', NULL, 0, "show the hypervisor's events of a VM, too", 0 },
	{ }
};
static const struct argp_child children[] = { { &json_argp, 0, NULL, 0 }, { } };
static const struct argp argp = {
	option_list, parse, "[VM]",
	"Show all vCPUs with their rates, live, or the counters of one VM (a PID, a name or #ID).  "
	"With --json, do as stat -i.",
	children, NULL, NULL
};

const struct command top_command = { "top", "show rates of vCPUs, live", &argp, run };
