// SPDX-License-Identifier: GPL-2.0-or-later
#include "util.h"

#include <ctype.h>
#include <err.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

void *xrealloc(void *p, size_t size)
{
	p = realloc(p, size ? size : 1);
	if (!p)
		err(1, NULL);
	return p;
}

void *xgrow(void *p, size_t count, size_t size)
{
	return count & (count - 1) ? p : xrealloc(p, (2 * count + 1) * size);
}

char *xasprintf(const char *format, ...)
{
	va_list args;
	char *text;
	int n;

	va_start(args, format);
	n = vasprintf(&text, format, args);
	va_end(args);
	if (n < 0)
		errx(1, "out of memory");
	return text;
}

char *format_count(char buf[NUMBER_SIZE], uint64_t n)
{
	char digits[NUMBER_SIZE];
	int i, len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n);
	char *to = buf;

	for (i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			*to++ = ',';
		*to++ = digits[i];
	}
	*to = 0;
	return buf;
}

char *format_time(char buf[NUMBER_SIZE], uint64_t ns)
{
	char *end;

	format_count(buf, ns / NS_PER_S);
	end = buf + strlen(buf);
	snprintf(end, buf + NUMBER_SIZE - end, ".%03u s",
		 (unsigned int)(ns % NS_PER_S / 1000000));
	return buf;
}

char *format_rate(char buf[NUMBER_SIZE], double rate)
{
	if (isnan(rate))
		strcpy(buf, "-");
	else if (rate == 0)
		strcpy(buf, "0");
	else if (rate < 99.95)
		snprintf(buf, NUMBER_SIZE, "%.1f", rate);
	else
		format_count(buf, llround(rate));
	return buf;
}

char *format_short(char buf[NUMBER_SIZE], double rate)
{
	static const char units[] = " kMGTPE";
	unsigned int unit = 0;

	if (isnan(rate) || rate < 9999.5) {
		format_rate(buf, rate);
		if (rate >= 99.95)
			snprintf(buf, NUMBER_SIZE, "%.0f", rate);
		return buf;
	}
	while (rate >= 999.5 && units[unit + 1]) {
		rate /= 1000;
		unit++;
	}
	snprintf(buf, NUMBER_SIZE, "%.*f%c", rate < 9.995 ? 2 : rate < 99.95 ? 1 : 0, rate,
		 units[unit]);
	return buf;
}

char *format_share(char buf[NUMBER_SIZE], uint64_t part, uint64_t whole)
{
	unsigned int permille = part >= whole ? 1000 : (unsigned int)(part * 1000.0 / whole);

	/* the division may have rounded up */
	if (part < whole && permille > 999)
		permille = 999;
	snprintf(buf, NUMBER_SIZE, "%u.%u%%", permille / 10, permille % 10);
	return buf;
}

bool parse_seconds(const char *text, uint64_t *ns)
{
	char *end;
	double s;

	/* not what else strtod() takes: blanks, signs, hexadecimal, nan */
	if (!*text || text[strspn(text, "0123456789.")])
		return false;
	s = strtod(text, &end);
	if (*end || !(s >= 0.01 && s <= 86400))
		return false;
	*ns = llround(s * NS_PER_S);
	return true;
}

bool parse_number(const char *text, uint64_t max, uint64_t *n)
{
	unsigned long long value;

	if (!*text || text[strspn(text, "0123456789")])
		return false;
	errno = 0;
	value = strtoull(text, NULL, 10);
	if (errno || !value || value > max)
		return false;
	*n = value;
	return true;
}

/* Bytes of the UTF-8 character at @text, stored in *@c; 0 if there is none. */
static int utf8(const char *text, uint32_t *c)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *s = (const unsigned char *)text;
	int i, n;

	if (*s < 0x80) {
		*c = *s;
		return 1;
	}
	n = (*s & 0xe0) == 0xc0 ? 2 : (*s & 0xf0) == 0xe0 ? 3 : (*s & 0xf8) == 0xf0 ? 4 : 0;
	if (!n)
		return 0;
	*c = *s & (0x7f >> n);
	for (i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		*c = *c << 6 | (s[i] & 0x3f);
	}
	if (*c < least[n] || *c > 0x10ffff || (*c >= 0xd800 && *c < 0xe000))
		return 0;
	return n;
}

void clean_text(char *text)
{
	char *to = text;
	uint32_t c;

	while (*text) {
		int n = utf8(text, &c);

		/* C0, DEL, C1, what changes the direction of text, and no characters */
		if (!n || c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x2028 && c <= 0x202e) ||
		    (c >= 0x2066 && c <= 0x2069) || c == 0xfffe || c == 0xffff) {
			*to++ = '?';
			text += n ? n : 1;
			continue;
		}
		memmove(to, text, n);
		to += n;
		text += n;
	}
	*to = 0;
}

int text_fit(const char *text, int width)
{
	const char *p = text;
	uint32_t c;

	while (*p) {
		int n = utf8(p, &c);
		int w = n && c >= 0x80 ? wcwidth(c) : 1;

		if (w < 0)
			w = 1;
		if (w > width)
			break;
		width -= w;
		p += n ? n : 1;
	}
	return p - text;
}

int text_width(const char *text)
{
	int width = 0;
	uint32_t c;

	while (*text) {
		int n = utf8(text, &c);
		int w = n && c >= 0x80 ? wcwidth(c) : 1;

		width += w < 0 ? 1 : w;
		text += n ? n : 1;
	}
	return width;
}
