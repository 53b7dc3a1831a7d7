// SPDX-License-Identifier: GPL-2.0-or-later
#include "lib.h"
#include "cpu.h"

/* The debug console and isa-debug-exit of QEMU. */
#define PORT_CONSOLE	0xe9
#define PORT_EXIT	0xf4
/* The same of Bochs. */
#define PORT_SHUTDOWN	0x8900

void *memset(void *dst, int c, size_t n)
{
	void *d = dst;

	asm volatile("rep stosb" : "+D"(d), "+c"(n) : "a"(c) : "memory");
	return dst;
}

void *memcpy(void *dst, const void *src, size_t n)
{
	void *d = dst;

	asm volatile("rep movsb" : "+D"(d), "+S"(src), "+c"(n) : : "memory");
	return dst;
}

int strcmp(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return (u8)*a - (u8)*b;
}

struct out {
	char *buf;
	size_t len, size;
};

static void put(struct out *o, char c)
{
	if (!o->buf)
		outb(PORT_CONSOLE, c);
	else if (o->len + 1 < o->size)
		o->buf[o->len++] = c;
}

static void put_num(struct out *o, u64 v, unsigned int base, int width, char pad)
{
	char tmp[24];
	int n = 0;

	do {
		tmp[n++] = "0123456789abcdef"[v % base];
		v /= base;
	} while (v);
	while (width-- > n)
		put(o, pad);
	while (n)
		put(o, tmp[--n]);
}

/* %s %c %d %u %x %p, with l and widths */
static void format(struct out *o, const char *fmt, va_list ap)
{
	for (; *fmt; fmt++) {
		bool is_long = false;
		char pad = ' ';
		int width = 0;
		const char *s;
		u64 v;

		if (*fmt != '%') {
			put(o, *fmt);
			continue;
		}
		if (*++fmt == '0')
			pad = '0';
		while (*fmt >= '0' && *fmt <= '9')
			width = width * 10 + *fmt++ - '0';
		while (*fmt == 'l') {
			is_long = true;
			fmt++;
		}
		switch (*fmt) {
		case 's':
			for (s = va_arg(ap, const char *); *s; s++)
				put(o, *s);
			break;
		case 'c':
			put(o, va_arg(ap, int));
			break;
		case 'p':
			put_num(o, (u64)va_arg(ap, void *), 16, width, pad);
			break;
		case 'd':
			v = is_long ? (u64)va_arg(ap, long) : (u64)va_arg(ap, int);
			if ((long)v < 0) {
				put(o, '-');
				v = -v;
			}
			put_num(o, v, 10, width, pad);
			break;
		case 'u':
		case 'x':
			v = is_long ? va_arg(ap, unsigned long) : va_arg(ap, unsigned int);
			put_num(o, v, *fmt == 'x' ? 16 : 10, width, pad);
			break;
		default:
			put(o, *fmt);
		}
	}
}

void print(const char *fmt, ...)
{
	struct out o = { NULL };
	va_list ap;

	va_start(ap, fmt);
	format(&o, fmt, ap);
	va_end(ap);
}

/*
 * The command line: "invert" and "KEY=VALUE" words are switches, a word with a leading '-'
 * leaves tests out, any other selects tests. Both compare with any part of a test's name.
 */
static char words_buf[1024];
static const char *words[64];
static int nr_words;

static bool is_switch(const char *w)
{
	if (!strcmp(w, "invert") || !strcmp(w, "list") || !strcmp(w, "verbose"))
		return true;
	for (; *w; w++)
		if (*w == '=')
			return true;
	return false;
}

static bool contains(const char *s, const char *part)
{
	for (; *s; s++) {
		size_t i;

		for (i = 0; part[i] && s[i] == part[i]; i++)
			;
		if (!part[i])
			return true;
	}
	return false;
}

void cmdline_init(const char *line)
{
	size_t n = 0;

	/* The first word is the image's own name. */
	while (*line && *line != ' ')
		line++;
	while (*line && nr_words < (int)ARRAY_SIZE(words)) {
		while (*line == ' ')
			line++;
		if (!*line)
			break;
		words[nr_words++] = words_buf + n;
		while (*line && *line != ' ' && n < sizeof(words_buf) - 1)
			words_buf[n++] = *line++;
		if (n < sizeof(words_buf) - 1)
			words_buf[n++] = '\0';
	}
}

bool cmdline_has(const char *word)
{
	for (int i = 0; i < nr_words; i++)
		if (!strcmp(words[i], word))
			return true;
	return false;
}

u64 cmdline_number(const char *name)
{
	for (int i = 0; i < nr_words; i++) {
		const char *w = words[i];
		u64 n = 0;

		for (const char *c = name; *c && *w == *c; c++)
			w++;
		if (*w++ != '=')
			continue;
		while (*w >= '0' && *w <= '9')
			n = n * 10 + *w++ - '0';
		return n;
	}
	return 0;
}

static bool selected(const char *name)
{
	bool any = false, hit = false;

	for (int i = 0; i < nr_words; i++) {
		const char *w = words[i];

		if (is_switch(w))
			continue;
		if (*w == '-') {
			if (contains(name, w + 1))
				return false;
			continue;
		}
		any = true;
		hit |= contains(name, w);
	}
	return hit || !any;
}

static char t_name[128];
static const char *t_skip_why;
static u64 t_checks, t_fails, t_total, t_failed, t_total_checks;
static int check_lock;

bool t_begin(const char *fmt, ...)
{
	struct out o = { t_name, 0, sizeof(t_name) };
	va_list ap;

	va_start(ap, fmt);
	format(&o, fmt, ap);
	va_end(ap);
	t_name[o.len] = '\0';
	t_checks = 0;
	t_fails = 0;
	t_skip_why = NULL;

	if (!selected(t_name))
		return false;
	if (cmdline_has("list")) {
		print("# %s\n", t_name);
		return false;
	}
	if (cmdline_has("verbose"))
		print("# %s...\n", t_name);
	if (t_unfit(t_name)) {
		t_skip(t_unfit(t_name));
		t_end();
		return false;
	}
	return true;
}

void t_skip(const char *why)
{
	t_skip_why = why;
}

void t_end(void)
{
	t_total++;
	t_total_checks += t_checks;
	if (t_skip_why) {
		print("ok %lu - %s # SKIP %s\n", t_total, t_name, t_skip_why);
		return;
	}
	if (!t_checks) {
		print("# nothing was checked\n");
		t_fails++;
	}
	if (t_fails) {
		t_failed++;
		print("# %lu of %lu checks failed\nnot ", t_fails, t_checks);
	}
	print("ok %lu - %s\n", t_total, t_name);
}

static void finish(u64 status)
{
	static const char shutdown[] = "Shutdown";

	for (;;) {
		outl(PORT_EXIT, status > 127 ? 127 : status);
		/* Bochs without such a port at least ends. */
		for (const char *c = shutdown; *c; c++)
			outb(PORT_SHUTDOWN, *c);
		cpu_relax();
	}
}

void t_done(void)
{
	/* A misspelt word isn't a success. */
	if (!t_total && !cmdline_has("list"))
		t_bail("no test has such a name");
	print("1..%lu\n# %lu failed of %lu, %lu checks\n", t_total, t_failed, t_total,
	      t_total_checks);
	finish(t_failed);
	__builtin_unreachable();
}

void t_bail(const char *fmt, ...)
{
	struct out o = { NULL };
	va_list ap;

	print("# during %s\nBail out! ", t_name);
	va_start(ap, fmt);
	format(&o, fmt, ap);
	va_end(ap);
	print("\n");
	finish(127);
	__builtin_unreachable();
}

/*
 * With "invert" every check wants something else than it should: a test that passes then
 * isn't a test.
 */
static bool check_result(bool ok, u64 got, u64 want, bool is_eq, const char *fmt, va_list ap)
{
	static bool inverted, inverted_known;
	struct out o = { NULL };

	while (__atomic_exchange_n(&check_lock, 1, __ATOMIC_ACQUIRE))
		cpu_relax();
	if (!inverted_known) {
		inverted = cmdline_has("invert");
		inverted_known = true;
	}
	ok ^= inverted;
	t_checks++;
	if (!ok && t_fails++ < 12) {
		print("# ");
		format(&o, fmt, ap);
		if (is_eq && (got > 0x100000 || want > 0x100000))
			print(": got 0x%lx, want 0x%lx\n", got, want);
		else if (is_eq)
			print(": got %lu, want %lu\n", got, want);
		else
			print("\n");
	}
	__atomic_store_n(&check_lock, 0, __ATOMIC_RELEASE);
	return ok;
}

bool check_eq(u64 got, u64 want, const char *fmt, ...)
{
	va_list ap;
	bool ok;

	va_start(ap, fmt);
	ok = check_result(got == want, got, want, true, fmt, ap);
	va_end(ap);
	return ok;
}

bool check(bool ok, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	ok = check_result(ok, 0, 0, false, fmt, ap);
	va_end(ap);
	return ok;
}
