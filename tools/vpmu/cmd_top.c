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
#include "util.h"

#define LEAST_DELAY	(NS_PER_S / 10)
#define MOST_DELAY	(60 * NS_PER_S)

/* How long it takes until keys that begin like ESC are told from it */
#define ESCAPE_MS	50

struct options {
	struct context *ctx;
	uint64_t delay;
};

/**
 * struct top - the screen
 * @now: the last look
 * @before: the one before; without VMs at first
 * @looks: how many there were
 * @rows: of these
 * @sort: column that they are sorted by
 * @reverse: the other way round
 * @by_vm: a row for each VM
 * @first: row at the top
 */
struct top {
	struct device *dev;
	const struct context *ctx;
	uint64_t delay;
	struct sample now, before;
	unsigned long looks;
	struct rows rows;
	enum row_column sort;
	bool reverse;
	bool by_vm;
	size_t first;
};

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

static void draw(struct top *top)
{
	/* heading, titles, help; what isn't there on small screens */
	int lines = LINES, heading = lines >= 4, titles = lines >= 2, help = lines >= 3;
	size_t room = lines - heading - titles - help, i;
	time_t now = time(NULL);
	char clock[NUMBER_SIZE] = "", *text;
	struct tm tm;
	int y = 0;

	if (localtime_r(&now, &tm))
		strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
	rows_sort(&top->rows, top->sort, top->reverse);
	if (top->first + room > top->rows.count)
		top->first = top->rows.count > room ? top->rows.count - room : 0;

	erase();
	if (heading) {
		text = xasprintf("vpmu %s  %s, %u counters  %zu VMs, %zu %s  every %g s%s", clock,
				 top->dev->info.hardware, top->dev->info.counters, top->now.vms,
				 top->rows.count, top->by_vm ? "rows" : "vCPUs",
				 (double)top->delay / NS_PER_S,
				 top->looks < 2 ? "  (rates come)" : "  per second");
		put(y++, 0, text);
		free(text);
	}
	if (titles) {
		attron(A_REVERSE);
		mvhline(y, 0, ' ', COLS);
		put_row(y++, top, NULL);
		attroff(A_REVERSE);
	}
	for (i = top->first; i < top->rows.count && i < top->first + room; i++)
		put_row(y++, top, &top->rows.row[i]);
	if (!top->rows.count && room)
		put(y, 0, "no VM has a virtual PMU of kvm_vpmu");
	if (help) {
		attron(A_REVERSE);
		mvhline(lines - 1, 0, ' ', COLS);
		put(lines - 1, 0, COLS >= 72 ?
		    "q quit  < > sort by  r reverse  v VMs/vCPUs  + - delay  arrows scroll" :
		    "q quit <> sort r reverse v VMs +- delay");
		attroff(A_REVERSE);
	}
	refresh();
}

/* Look again; 0 or a negative error number. */
static int look(struct top *top)
{
	struct sample now;
	int r = sample_take(&now, top->dev, top->ctx->proc, 0);

	if (r)
		return r;
	sample_free(&top->before);
	top->before = top->now;
	top->now = now;
	top->looks++;
	return 0;
}

static void update_rows(struct top *top)
{
	rows_free(&top->rows);
	rows_make(&top->rows, &top->now, top->looks > 1 ? &top->before : NULL, top->by_vm);
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

/* False to quit. */
static bool handle(struct top *top, int key)
{
	size_t page = LINES > 3 ? LINES - 3 : 1;

	switch (key) {
	case 'q':
	case 'Q':
		return false;
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
		top->first = 0;
		update_rows(top);
		break;
	case '+':
		top->delay = top->delay * 2 > MOST_DELAY ? MOST_DELAY : top->delay * 2;
		break;
	case '-':
		top->delay = top->delay / 2 < LEAST_DELAY ? LEAST_DELAY : top->delay / 2;
		break;
	case KEY_UP:
		top->first -= top->first > 0;
		break;
	case KEY_DOWN:
		top->first++;
		break;
	case KEY_PPAGE:
		top->first = top->first > page ? top->first - page : 0;
		break;
	case KEY_NPAGE:
		top->first += page;
		break;
	case KEY_HOME:
		top->first = 0;
		break;
	case 'L' - '@':
		clearok(curscr, TRUE);
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

		if (now >= next) {
			r = look(top);
			if (r)
				return r;
			update_rows(top);
			next = now + top->delay;
			stale = true;
		}
		if (stale)
			draw(top);
		stale = false;

		r = poll(fds, ARRAY_SIZE(fds), (next - now) / 1000000 + 1);
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
			   .sort = ROW_EXITS };
	int r, fd, signal = 0;
	sigset_t set, old;
	SCREEN *screen;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
		warnx("top needs a terminal (stat -i doesn't)");
		return STATUS_ERROR;
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
		warnx("the terminal '%s' isn't known", getenv("TERM") ? getenv("TERM") : "");
		return STATUS_ERROR;
	}
	atexit(restore_terminal);
	cbreak();
	noecho();
	curs_set(0);
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(ESCAPE_MS);

	r = loop(&top, fd, &signal);

	restore_terminal();
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
	if (r == -EIO)
		warnx("the terminal has gone");
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
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument '%s'", arg);
		return EINVAL;
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
		struct stat_options stat = { .ctx = ctx, .interval = options.delay };
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
	{ }
};
static const struct argp_child children[] = { { &json_argp, 0, NULL, 0 }, { } };
static const struct argp argp = {
	option_list, parse, "",
	"Show all vCPUs with their rates, live.  With --json, do as stat -i.",
	children, NULL, NULL
};

const struct command top_command = { "top", "show rates of vCPUs, live", &argp, run };
